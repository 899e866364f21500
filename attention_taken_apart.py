"""The public API of ``analysis`` under the name of the distribution, for a project with an ``analysis`` of its own.

>>> import attention_taken_apart, analysis
>>> attention_taken_apart.semi_bias is analysis.semi_bias
True

If another ``analysis`` is found before the package's, the import fails and says which.
"""

from importlib import import_module, util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis import *  # noqa: F403

_ours, _found = Path(__file__).resolve().with_name("analysis"), util.find_spec("analysis")
_origin = Path(_found.origin).resolve() if _found and _found.origin else None
if _origin is None or _origin.parent != _ours:
    raise ImportError(
        f"{_origin or 'nothing'} was found as 'analysis', and the package lies in {_ours}: rename yours, or take its "
        "folder off sys.path"
    )


def __getattr__(name: str) -> object:
    return getattr(import_module("analysis"), name)


def __dir__() -> list[str]:
    return dir(import_module("analysis"))
