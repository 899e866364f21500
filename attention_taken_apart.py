"""The package ``analysis`` under the name of its distribution, for a project that has an ``analysis`` of its own.

Both names give the same modules, and one imports either:

>>> import attention_taken_apart, analysis
>>> attention_taken_apart is analysis
True

Where another ``analysis`` is found before the package's, the import fails and says which.
"""

import sys
from importlib import import_module, util
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path

NAME = "analysis"


class Same(MetaPathFinder, Loader):
    """Finds ``attention_taken_apart.x`` as ``analysis.x``."""

    def find_spec(self, fullname, path=None, target=None):
        """Answer for the modules below the second name."""
        return ModuleSpec(fullname, self) if fullname.startswith(f"{__name__}.") else None

    def create_module(self, spec):
        """Return the module that is there, and remember what the import system is about to overwrite."""
        module = import_module(NAME + spec.name.removeprefix(__name__))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        """Put back its own specification; it has been executed under its first name."""
        module.__spec__ = module.__spec__.loader_state


def check() -> None:
    """Refuse an ``analysis`` that does not lie beside this file."""
    ours, found = Path(__file__).resolve().with_name(NAME), util.find_spec(NAME)
    origin = Path(found.origin).resolve() if found and found.origin else None
    if origin is None or origin.parent != ours:
        raise ImportError(
            f"{origin or 'nothing'} was found as {NAME!r}, and the package lies in {ours}: rename yours, or take its "
            "folder off sys.path"
        )


check()
sys.meta_path.insert(0, Same())
sys.modules[__name__] = import_module(NAME)
