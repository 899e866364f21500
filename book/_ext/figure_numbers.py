"""Sphinx extension: for the numbers of its figures a page is loaded once, and not once for every reference to one.

To write "Fig. 3.1", Sphinx loads the whole page on which the figure stands, and forgets it; it only looks at what kind
of thing the label names. That took a sixth of the build.
"""

from functools import cache

from sphinx.domains.std import StandardDomain


class LoadedOnce:
    """The environment, but for pages, which it keeps once they are loaded: for those who change nothing in them."""

    def __init__(self, env):
        self._env = env
        self.get_doctree = cache(env.get_doctree)

    def __getattr__(self, name):
        """Hand everything else on."""
        return getattr(self._env, name)


class Domain(StandardDomain):
    """Sphinx's own domain of labels, which looks for them on pages that it keeps."""

    def __init__(self, env):
        super().__init__(env)
        self._pages = LoadedOnce(env)

    def resolve_xref(self, env, *reference):
        """Resolve a reference."""
        return super().resolve_xref(self._pages, *reference)


def setup(app):
    """Put the domain in its place."""
    app.add_domain(Domain, override=True)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
