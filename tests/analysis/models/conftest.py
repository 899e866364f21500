"""Of the many cases of a test, one for each type of model, every tenth is run with the type checker."""

import jaxtyping
import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Check annotations in the first and every tenth case of a test: the others take a third of the time without."""
    number = sum(item.callspec.indices.values()) if hasattr(item, "callspec") else 0
    jaxtyping.config.update("jaxtyping_disable", bool(number % 10))
    try:
        return (yield)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
