"""Every annotated function is checked by beartype while the tests run."""

from jaxtyping import install_import_hook

install_import_hook("analysis", "beartype.beartype")
