"""Expectations for DataFrames or Parquet files. Import this module late: Great Expectations takes seconds to import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.render import (
    LegacyDiagnosticRendererType,
    LegacyRendererType,
    RenderedStringTemplateContent,
    RenderedTableContent,
)
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.util import num_to_str

from expectations import slices
from expectations.slices import Term


def sentence(where: Sequence[Term]) -> str:
    """Format the terms as one condition."""
    return " and ".join(" ".join(map(_word, term)) for term in where)


def _word(part: Any) -> str:
    if isinstance(part, Mapping):
        return str(part["column"])
    return ", ".join(map(str, part)) if isinstance(part, list | tuple) else str(part)


class OfTable(BatchExpectation):  # type: ignore[misc]  # the library ships no types
    """An expectation about a table, without the library's metrics: resolving them is slow."""

    _written: Any = PrivateAttr(default=None)

    @property
    def configuration(self) -> Any:
        """Serialise once: do not change the expectation later."""
        if self._written is None:
            self._written = super().configuration
        return self._written

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:  # noqa: ARG002
        return self.evaluate(execution_engine.get_domain_records(domain_kwargs={}))

    def evaluate(self, frame: Any) -> dict[str, Any]:
        """Return success and result, as the library's."""
        raise NotImplementedError

    @staticmethod
    def described(kwargs: Mapping[str, Any]) -> str:
        raise NotImplementedError

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)  # type: ignore[untyped-decorator]
    def _prescriptive_renderer(cls, configuration: Any = None, **_: Any) -> Any:
        return [_text("$words", {"words": cls.described(configuration.kwargs)})]


class OfRows(OfTable):
    """An expectation that shows the first violating rows."""

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)  # type: ignore[untyped-decorator]
    def _diagnostic_unexpected_statement_renderer(cls, result: Any = None, **_: Any) -> Any:
        if _raised(result):
            return super()._diagnostic_unexpected_statement_renderer(result=result)
        return cls.counted(result.result)

    @staticmethod
    def counted(result: Mapping[str, Any]) -> list[Any]:  # noqa: ARG004  # most show the rows alone
        return []

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)  # type: ignore[untyped-decorator]
    def _diagnostic_unexpected_table_renderer(cls, result: Any = None, **_: Any) -> Any:
        return _examples(result)


class ExpectNoRowsWhere(OfRows):
    """Expect that no row satisfies all of ``where``; a comparison with null is not satisfied.

    Args:
        where: ``(column, "is null")``, ``(column, "is not null")``, or ``(column, operator, operand)`` with
            ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` or ``not in``; ``{"column": name}`` is another column.
        weight_column: the number of cases that a row represents; may be 0.
        show: columns of the failing rows in the result (default: all).
    """

    where: list[list[Any]]
    weight_column: str | None = None
    show: list[str] | None = None

    success_keys: ClassVar[tuple[str, ...]] = ("where", "weight_column", "show")

    def evaluate(self, frame: Any) -> dict[str, Any]:
        rows, found, examples = slices.rows_where(frame, self.where, self.weight_column, self.show)
        result = {"element_count": rows, "observed_value": found, "unexpected_count": found}
        return {"success": found == 0, "result": result | ({"partial_unexpected_list": examples} if found else {})}

    @staticmethod
    def described(kwargs: Mapping[str, Any]) -> str:
        return f"There is no row where {sentence(kwargs['where'])}."

    @staticmethod
    def counted(result: Mapping[str, Any]) -> list[Any]:
        count, shown = result.get("unexpected_count", 0), len(result.get("partial_unexpected_list", []))
        found = "\n\n$count found" + ("; the first of them:" if shown < count else ":")
        return [_text(found, {"count": num_to_str(count, use_locale=True, precision=20)})] if count else []


class ExpectColumnsToNotBeNull(OfTable):
    """Expect no nulls in several columns."""

    columns: list[str]

    success_keys: ClassVar[tuple[str, ...]] = ("columns",)

    def evaluate(self, frame: Any) -> dict[str, Any]:
        counts = zip(self.columns, slices.null_counts(frame, self.columns), strict=True)
        nulls = {name: int(count) for name, count in counts if count}
        observed = ", ".join(f"{name}: {count:,}" for name, count in nulls.items()) or 0
        return {"success": not nulls, "result": {"observed_value": observed, "details": nulls}}

    @staticmethod
    def described(kwargs: Mapping[str, Any]) -> str:
        return f"No null in {', '.join(kwargs['columns'])}."


class ExpectColumnsToHaveTypes(OfTable):
    """Expect exactly these columns, with Arrow's names of types; ``optional`` ones may be missing."""

    types: dict[str, str]
    optional: list[str] = []  # noqa: RUF012  # a field of a model, which copies it

    success_keys: ClassVar[tuple[str, ...]] = ("types", "optional")

    def evaluate(self, frame: Any) -> dict[str, Any]:
        types = slices.types(frame)
        found = {name: kind.replace("item: ", "").replace("element: ", "") for name, kind in types.items()}
        wrong = [f"{name} is missing" for name in self.types if name not in found and name not in self.optional]
        wrong += [
            f"{name} is {kind}, not {self.types[name]}"
            for name, kind in found.items()
            if name in self.types and kind != self.types[name]
        ]
        wrong += [f"{name} is not declared" for name in found if name not in self.types]
        return {"success": not wrong, "result": {"observed_value": "; ".join(wrong) or "as declared"}}

    @staticmethod
    def described(kwargs: Mapping[str, Any]) -> str:
        return f"Columns: {', '.join(f'{name} {kind}' for name, kind in kwargs['types'].items())}."


class ExpectUniqueTogether(OfRows):
    """Expect no two rows with equal values in all columns; null equals null."""

    columns: list[str]

    success_keys: ClassVar[tuple[str, ...]] = ("columns",)

    def evaluate(self, frame: Any) -> dict[str, Any]:
        rows, examples = slices.duplicated(frame, self.columns)
        result = {"observed_value": rows, "unexpected_count": rows, "partial_unexpected_list": examples}
        return {"success": rows == 0, "result": result}

    @staticmethod
    def described(kwargs: Mapping[str, Any]) -> str:
        return f"{', '.join(kwargs['columns'])} are unique together."


def _raised(result: Any) -> bool:
    trouble = result.exception_info or {}
    each = [trouble] if "raised_exception" in trouble else list(trouble.values())
    return any(one.get("raised_exception") for one in each)


def _text(template: str, params: Mapping[str, Any]) -> Any:
    return RenderedStringTemplateContent(
        content_block_type="string_template", string_template={"template": template, "params": dict(params)}
    )


def _examples(result: Any) -> Any:
    rows = (result.result or {}).get("partial_unexpected_list") if result is not None else None
    if not rows:
        return None
    kwargs = result.expectation_config.kwargs
    names = kwargs.get("show") or kwargs.get("columns") or list(rows[0])  # a stored result sorts them
    cells = [["" if row.get(name) is None else str(row[name]) for name in names] for row in rows]
    styling = {"body": {"classes": ["table-bordered", "table-sm", "mt-3"]}}
    return [RenderedTableContent(content_block_type="table", table=cells, header_row=list(names), styling=styling)]
