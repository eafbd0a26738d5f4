"""Replace parts of a Great Expectations Checkpoint. Import this module late: it imports the library."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse
from urllib.request import url2pathname

from great_expectations import ValidationDefinition
from great_expectations.checkpoint.actions import ValidationAction
from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.core.freshness_diagnostics import ValidationDefinitionFreshnessDiagnostics
from great_expectations.render.view import DefaultJinjaPageView


class Validation(ValidationDefinition):  # type: ignore[misc]  # the library ships no types
    """A ValidationDefinition with a DataFrame of its own."""

    _frame: Any = PrivateAttr(default=None)

    def hold(self, frame: Any) -> None:
        self._frame = frame

    def is_fresh(self) -> ValidationDefinitionFreshnessDiagnostics:
        """Return no errors: it was just stored, and the library's comparisons are slow."""
        return ValidationDefinitionFreshnessDiagnostics(errors=[])

    def run(self, *, batch_parameters: Any = None, result_format: Any = "SUMMARY", **options: Any) -> Any:  # noqa: ARG002
        return super().run(batch_parameters={"dataframe": self._frame}, result_format=result_format, **options)


class Publish(ValidationAction):  # type: ignore[misc]
    """Render the index once; ``UpdateDataDocsAction`` does so for each suite."""

    type: Literal["publish"] = "publish"
    name: str = "publish"

    def run(self, checkpoint_result: Any, action_context: Any = None) -> dict[str, Any]:  # noqa: ARG002
        built = self._data_context.build_data_docs(resource_identifiers=list(checkpoint_result.run_results))
        for index in built.values():  # 4 MB of fonts and pictures per run folder
            shutil.rmtree(Path(url2pathname(urlparse(index).path)).parent / "static", ignore_errors=True)
        return {}


class PageView(DefaultJinjaPageView):  # type: ignore[misc]
    """A result's page without network access; its templates are compiled once per process."""

    def __init__(self, custom_styles_directory: Any = None, custom_views_directory: Any = None) -> None:
        super().__init__(custom_styles_directory, custom_views_directory)
        self.env: Any = _ENVIRONMENTS.setdefault(type(self), self.env)

    def render(self, document: Any, template: Any = None, **options: Any) -> str:
        page = _TO_SUITE.sub(r"\1", _FETCHED.sub("", super().render(document, template, **options)))
        styled = str(page).replace("</head>", f"<style>{_STYLE}</style></head>", 1)
        return styled.replace("<head>", f"<head>{_POLICY}", 1)


class IndexContent:
    """The index page's data; the library's renderer needs the web."""

    def render(self, index_links_dict: Any) -> Any:
        return index_links_dict.get("validations_links", [])


class IndexView:
    """The index page: results, newest first."""

    def __init__(self, **_: Any) -> None:
        """Accept the library's arguments for views."""

    def render(self, document: Any, **_: Any) -> str:
        lines = "".join(
            f"<tr><td>{link['run_time']:%Y-%m-%d %H:%M:%S} UTC</td>"
            f"<td><a href='{html.escape(link['filepath'])}'>{html.escape(link['expectation_suite_name'])}</a></td>"
            f"<td>{'met' if link['validation_success'] else '<b>not met</b>'}</td></tr>"
            for link in document
        )
        return (
            f"<!doctype html><html lang='en'><head>{_POLICY}<meta charset='utf-8'><title>Data Docs</title>"
            f"<style>{_STYLE}</style></head><body><h1>Results of the expectations</h1>"
            "<p>Each time this run was judged, newest first. A suite is met if every expectation in it is; the verdict "
            "counts the critical ones.</p>"
            f"<table><tr><th>Judged</th><th>Suite</th><th>Expectations</th></tr>{lines}</table></body></html>"
        )


_ENVIRONMENTS: dict[type, Any] = {}
_FETCHED = re.compile(r"<script\b.*?</script>|<link\b[^>]*>|<footer\b.*?</footer>|<img\b[^>]*>", re.DOTALL)
_TO_SUITE = re.compile(r'<a\b[^>]*href="[^"]*/expectations/[^"]*"[^>]*>(.*?)</a>', re.DOTALL)  # links to omitted pages
# No scripts and no downloads, whatever a result contains.
_POLICY = (
    "<meta http-equiv='Content-Security-Policy' "
    "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
)
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; max-width: 75rem }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { border: 1px solid #ccc; padding: .25rem .5rem; text-align: left; vertical-align: top }
.ge-navigation-sidebar-container, .btn-group, [class*=ge-navigation], .fa-comment { display: none }
.fa-check-circle::before { content: "met"; font-style: normal; color: #17692e }
.fa-times::before { content: "not met"; font-style: normal; color: #a4161a; font-weight: bold }
.fa-exclamation-triangle::before { content: "not evaluated"; font-style: normal }
"""
