"""Every annotated function is checked by beartype while the tests run."""

import os

import hypothesis
import jaxtyping
import pytest
from hypothesis import Phase

hypothesis.settings.register_profile("book", deadline=None)  # a busy machine is no failure
hypothesis.settings.register_profile("mutants", deadline=None, database=None, derandomize=True,
                                     phases=(Phase.explicit, Phase.generate))  # no time for the smallest example
hypothesis.settings.load_profile("mutants" if os.environ.get("MUTANTS") else "book")
jaxtyping.install_import_hook("analysis", "beartype.beartype")


@pytest.fixture
def unchecked():
    """Run one test without the type checker, as a user does: what is refused then is refused by the function itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
