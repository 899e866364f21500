"""The pytest plugin: ``pytest --claims`` makes a test of every claim in every ledger, its counterfeits among it."""

from functools import cached_property

import pytest

from claims_kit import runs
from claims_kit.ledger import NAME, BadLedger, load

RUNS = pytest.StashKey[list]()


def pytest_addoption(parser):
    """Add ``--claims``."""
    parser.getgroup("claims").addoption("--claims", action="store_true", help="judge the claims of every claims.yml")


def pytest_collect_file(file_path, parent):
    """Collect a ledger that has something to judge it."""
    wanted = parent.config.getoption("--claims") and file_path.name == NAME and runs.judges(file_path.parent)
    return LedgerFile.from_parent(parent, path=file_path) if wanted else None


class LedgerFile(pytest.File):
    """A ledger."""

    def collect(self):
        """Make a test per claim, and one per file that judges."""
        names = [claim.id for claim in load(self.path)[1]] + [file.name for file in runs.judges(self.path.parent)]
        return [LedgerItem.from_parent(self, name=name) for name in names]

    @cached_property
    def run(self):
        """Run the judgements, once, before the first claim is tested."""
        self.config.stash.setdefault(RUNS, []).append(found := runs.run(self.path.parent))
        return found


class LedgerItem(pytest.Item):
    """A claim, which passes where its verdict holds and every counterfeit turns it; or a file that must run through."""

    def runtest(self):
        """Look for what went wrong."""
        if problem := self.parent.run.problems.get(self.name):
            raise BadLedger(problem)

    def repr_failure(self, excinfo, style=None):
        """Say what is wrong, without the plugin's own lines."""
        return str(excinfo.value) if excinfo.errisinstance(BadLedger) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        """Name the ledger and the claim."""
        return self.path, None, self.name


def pytest_terminal_summary(terminalreporter, config):
    """Count the forged measurements."""
    if found := config.stash.get(RUNS, []):
        judged, refused = sum(len(each.verdicts) for each in found), sum(each.refused for each in found)
        terminalreporter.write_line(f"claims: {judged} judged, {refused} forged measurements refused")
