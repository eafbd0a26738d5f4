"""The site's own page templates, without scripts or downloads. Import this module late: it imports the library."""

from __future__ import annotations

from typing import Any

from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import PackageLoader


class Results(DefaultJinjaPageView):  # type: ignore[misc]  # the library ships no types
    """A suite's results: the library's sections in our page."""

    _template = "results.j2"

    def __init__(self, **_: Any) -> None:
        """Add our templates to the library's."""
        super().__init__()
        self.env.loader.loaders.append(PackageLoader("expectations"))  # also from an archive, as on a Spark cluster


class Index(Results):
    """The list of suites."""

    _template = "index.j2"

    def _validate_document(self, document: Any) -> None:
        """Accept the links themselves."""


class Links:
    """What the index shows: the library's renderer needs scripts from the web."""

    def render(self, index_links_dict: Any) -> Any:
        return index_links_dict
