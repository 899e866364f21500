"""The libraries that only parts of the package need: whether they are installed, and what installs them."""

import re
from importlib import metadata
from importlib.util import find_spec

DISTRIBUTION = "attention-taken-apart"
NEEDED = {
    "analysis.plotting.": ("matplotlib", "seaborn"),
    "analysis.reporting.making.": ("matplotlib", "seaborn", "tqdm"),
    "analysis.reporting.certificate.": ("matplotlib", "seaborn", "tqdm"),
    "analysis.reporting.head_table.": ("tqdm",),
}
"""What places need whose names begin so, on top of what the package itself requires."""


def can_import(place: str) -> bool:
    """Return whether what a dotted place needs is installed; nothing is imported.

    >>> can_import("analysis.decomposition.terms.semi_bias")
    True
    """
    needed = (library for start, libraries in NEEDED.items() if f"{place}.".startswith(start) for library in libraries)
    return all(find_spec(library) for library in needed)


def name_missing_library(error: ModuleNotFoundError, extra: str) -> str:
    """Name the library that an import lacks, and the extra that brings it: ``extra`` where no requirement names it.

    >>> name_missing_library(ModuleNotFoundError("No module named 'tokenizers'",
    ...                                          name="tokenizers"), "models")
    'tokenizers is not installed: pip install "attention-taken-apart[models]"'
    """
    quoted = re.search(r"'([A-Za-z][\w-]*)", str(error))
    library = quoted[1] if quoted else (error.name or "").split(".")[0]
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        requirements = []
    named = (re.match(rf"{library}\b.*extra == ['\"](\w+)", r.replace("-", "_")) for r in requirements)
    extra = next((match[1] for match in named if match), extra)
    return f'{library} is not installed: pip install "{DISTRIBUTION}[{extra}]"'
