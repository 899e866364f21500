"""Every annotated function is checked by beartype while the tests run."""

import jaxtyping
import pytest

jaxtyping.install_import_hook("analysis", "beartype.beartype")


@pytest.fixture
def unchecked():
    """Run one test without the type checker, as a user does: what is refused then is refused by the function itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
