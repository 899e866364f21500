"""The options of ``report``: numbers that it can count to, and an address that only leads somewhere."""

import pytest

from analysis.__main__ import main
from analysis.cli.report import check_address


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--seeds", "0", "--seeds must be 1 to 100, got 0"),
        ("--seeds", "9" * 30, "--seeds must be 1 to 100, got 9"),
        ("--longest", "0", "--longest must be 8 to 1000000, got 0"),
        ("--longest", "9" * 30, "--longest must be 8 to 1000000, got 9"),
        ("--book", "javascript:alert(1)", "--book must be a path, or an address with http, https or file"),
        ("--book", "java\nscript:alert(1)", "--book must be"),
        ("--book", "data:text/html,<script>", "--book must be"),
    ],
)
def test_what_a_report_cannot_do_is_one_line(option, value, message, capsys, tmp_path):
    assert main(["report", "gpt2-mini", option, value, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["..", "../a:b", "book/", "/book", "https://a/b", "HTTP://a.org", "file:///b", ""])
def test_paths_and_addresses_of_pages_are_taken(address):
    check_address(address)
