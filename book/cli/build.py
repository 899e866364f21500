"""Execute the chapters that are out of date, then render the book in ``_build/html``."""

from book.publish import build, execution


def add_arguments(parser):
    """Take what to execute and what to hold it to."""
    parser.add_argument("--compare", action="store_true", help="hold outputs to book/recorded; render nothing")
    parser.add_argument("--again", action="store_true", help="execute chapters even if they are up to date")
    parser.add_argument(
        "--chapter",
        metavar="NAME",
        action="append",
        default=[],
        help="execute only this chapter, or these, anew, and render nothing",
    )


def run(arguments) -> int:
    """Build, and return the exit status."""
    names = [execution.chapter(name) for name in arguments.chapter]
    return build.build(names, compare=arguments.compare, again=arguments.again, device=arguments.device or "")
