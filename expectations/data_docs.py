"""Parts of a Checkpoint that Great Expectations lets one replace. Import this module late: it imports the library."""

from __future__ import annotations

from typing import Any, Literal

from great_expectations import ValidationDefinition
from great_expectations.checkpoint.actions import ValidationAction
from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.core.freshness_diagnostics import ValidationDefinitionFreshnessDiagnostics
from great_expectations.render.view import DefaultJinjaIndexPageView, DefaultJinjaPageView


class Validation(ValidationDefinition):  # type: ignore[misc]  # the library ships no types
    """A ValidationDefinition that holds its DataFrame: a Checkpoint passes the same parameters to all of its own.

    On Spark only failures are looked at again, row by row, as each example is a job of its own.
    """

    _frame: Any = PrivateAttr(default=None)

    def hold(self, frame: Any) -> None:
        """The DataFrame, of pandas or Spark, that the suite is run on."""
        self._frame = frame

    def is_fresh(self) -> ValidationDefinitionFreshnessDiagnostics:
        """Always: it was stored a moment ago, and comparing it five times took a tenth of a run's time."""
        return ValidationDefinitionFreshnessDiagnostics(errors=[])

    def run(self, *, batch_parameters: Any = None, result_format: Any = "SUMMARY", **options: Any) -> Any:  # noqa: ARG002
        """As the base class does it, on the DataFrame that is held."""
        given = {"dataframe": self._frame}
        if not hasattr(self._frame, "iloc"):
            quick = super().run(batch_parameters=given, result_format="BOOLEAN_ONLY", **options)
            if quick.success:
                return quick
        return super().run(batch_parameters=given, result_format=result_format, **options)


class Publish(ValidationAction):  # type: ignore[misc]
    """Renders the results of a Checkpoint's run and the index, once; ``UpdateDataDocsAction`` renders the index again
    for each suite.
    """

    type: Literal["publish"] = "publish"
    name: str = "publish"

    def run(self, checkpoint_result: Any, action_context: Any = None) -> dict[str, Any]:  # noqa: ARG002
        """Build the pages of these results; pages of earlier results stay."""
        self._data_context.build_data_docs(resource_identifiers=list(checkpoint_result.run_results))
        return {}


class PageView(DefaultJinjaPageView):  # type: ignore[misc]
    """The page of one result, with templates that are compiled once in a process and not for each page."""

    def __init__(self, custom_styles_directory: Any = None, custom_views_directory: Any = None) -> None:
        super().__init__(custom_styles_directory, custom_views_directory)
        self.env: Any = _environment(type(self), self.env)


class IndexView(DefaultJinjaIndexPageView):  # type: ignore[misc]
    """The index, in the same way."""

    def __init__(self, custom_styles_directory: Any = None, custom_views_directory: Any = None) -> None:
        super().__init__(custom_styles_directory, custom_views_directory)
        self.env: Any = _environment(type(self), self.env)


_ENVIRONMENTS: dict[type, Any] = {}


def _environment(view: type, new: Any) -> Any:
    return _ENVIRONMENTS.setdefault(view, new)
