"""``python -m attention_conformance MODULE:CLASS [OUT.json] [MODEL ...]``: the table without pytest."""

import argparse
import importlib
from pathlib import Path

from attention_conformance.comparison import results_by_quantity, run, table, write_results

JSON = "write one entry per quantity; entries of other libraries in the file stay"


def load_adapter(name: str):
    """Make the adapter that is named ``MODULE:CLASS``.

    >>> load_adapter("fractions:Fraction")
    Fraction(0, 1)
    """
    module, colon, kind = name.partition(":")
    if not colon:
        raise SystemExit(f"an adapter is named MODULE:CLASS, got {name!r}")
    return getattr(importlib.import_module(module), kind)()


def main() -> int:
    """Print the table; the exit status is 1 if something is off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("adapter", metavar="MODULE:CLASS")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--json", type=Path, metavar="OUT", help=JSON)
    arguments = parser.parse_args()
    adapter = load_adapter(arguments.adapter)
    results = list(run(adapter, arguments.models))
    print(f"{adapter.library} {adapter.version}\n{table(results)}")
    for reason in dict.fromkeys(f"{one.case}: {one.note}" for one in results if one.note):
        print(reason)
    if arguments.json:
        write_results(arguments.json, results_by_quantity(results, adapter))
    return int(any(one.off is not None and not one.exact for one in results))


if __name__ == "__main__":
    raise SystemExit(main())
