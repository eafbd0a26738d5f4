"""Expectations for DataFrames or Parquet files. Import this module late: Great Expectations takes seconds to import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
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

COUNTS = "table.rows_where"
NULLS = "table.null_counts"
DUPLICATED = "table.duplicated_rows"
TYPES = "table.column_types_by_name"


def sentence(where: Sequence[Term]) -> str:
    """Format the terms as one condition."""
    return " and ".join(" ".join(map(_word, term)) for term in where)


def _word(part: Any) -> str:
    if isinstance(part, Mapping):
        return str(part["column"])
    return ", ".join(map(str, part)) if isinstance(part, list | tuple) else str(part)


class RowsWhere(TableMetricProvider):  # type: ignore[misc]  # the library ships no types
    """[all rows, rows that satisfy all terms (by ``weight_column``), the first of them]."""

    metric_name = COUNTS
    value_keys = ("where", "weight_column", "show")

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        asked = metric_value_kwargs
        frame = _domain(execution_engine, metric_domain_kwargs)
        return list(slices.rows_where(frame, asked["where"], asked.get("weight_column"), asked.get("show")))


def _domain(execution_engine: Any, metric_domain_kwargs: Any) -> Any:
    return execution_engine.get_domain_records(domain_kwargs=metric_domain_kwargs)


class Once:
    """Serialise a configuration once, not for each of about forty queries.

    The class must define a private ``_written``; pydantic allows it on no other base.
    """

    _written: Any

    @property
    def configuration(self) -> Any:
        """Do not change the expectation after the first use."""
        if self._written is None:
            self._written = super().configuration  # type: ignore[misc]
        return self._written


class ExpectNoRowsWhere(Once, BatchExpectation):  # type: ignore[misc]
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

    _written: Any = PrivateAttr(default=None)

    success_keys: ClassVar[tuple[str, ...]] = ("where", "weight_column", "show")
    metric_dependencies: ClassVar[tuple[str, ...]] = (COUNTS,)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:  # noqa: ARG002
        rows, found, examples = metrics[COUNTS]
        result = {"element_count": rows, "observed_value": found, "unexpected_count": found}
        if found:
            result["partial_unexpected_list"] = examples
        return {"success": found == 0, "result": result}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)  # type: ignore[untyped-decorator]
    def _prescriptive_renderer(cls, configuration: Any = None, **_: Any) -> Any:
        return [_text("There is no row where $where.", {"where": sentence(configuration.kwargs["where"])})]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)  # type: ignore[untyped-decorator]
    def _diagnostic_unexpected_statement_renderer(cls, result: Any = None, **_: Any) -> Any:
        if _raised(result):
            return super()._diagnostic_unexpected_statement_renderer(result=result)
        count, shown = result.result.get("unexpected_count", 0), len(result.result.get("partial_unexpected_list", []))
        if not count:
            return []
        said = "\n\n$count found" + ("; the first of them:" if shown < count else ":")
        return [_text(said, {"count": num_to_str(count, use_locale=True, precision=20)})]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)  # type: ignore[untyped-decorator]
    def _diagnostic_unexpected_table_renderer(cls, result: Any = None, **_: Any) -> Any:
        return _examples(result)


class NullCounts(TableMetricProvider):  # type: ignore[misc]
    """The number of nulls in each column."""

    metric_name = NULLS
    value_keys = ("columns",)

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        return slices.null_counts(_domain(execution_engine, metric_domain_kwargs), metric_value_kwargs["columns"])


class ExpectColumnsToNotBeNull(Once, BatchExpectation):  # type: ignore[misc]
    """Expect no nulls in several columns, with one metric."""

    columns: list[str]

    _written: Any = PrivateAttr(default=None)

    success_keys: ClassVar[tuple[str, ...]] = ("columns",)
    metric_dependencies: ClassVar[tuple[str, ...]] = (NULLS,)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:  # noqa: ARG002
        nulls = {name: int(count) for name, count in zip(self.columns, metrics[NULLS], strict=True) if count}
        observed = ", ".join(f"{name}: {count:,}" for name, count in nulls.items()) or 0
        return {"success": not nulls, "result": {"observed_value": observed, "details": nulls}}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)  # type: ignore[untyped-decorator]
    def _prescriptive_renderer(cls, configuration: Any = None, **_: Any) -> Any:
        return [_text("No null in $columns.", {"columns": ", ".join(configuration.kwargs["columns"])})]


class ColumnTypes(TableMetricProvider):  # type: ignore[misc]
    """The Arrow type of each column."""

    metric_name = TYPES

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        return slices.types(_domain(execution_engine, metric_domain_kwargs))


class ExpectColumnsToHaveTypes(Once, BatchExpectation):  # type: ignore[misc]
    """Expect exactly these columns, with Arrow's names of types; ``optional`` ones may be missing."""

    types: dict[str, str]
    optional: list[str] = []  # noqa: RUF012  # a field of a model, which copies it

    _written: Any = PrivateAttr(default=None)

    success_keys: ClassVar[tuple[str, ...]] = ("types", "optional")
    metric_dependencies: ClassVar[tuple[str, ...]] = (TYPES,)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:  # noqa: ARG002
        found = {name: kind.replace("item: ", "").replace("element: ", "") for name, kind in metrics[TYPES].items()}
        wrong = [f"{name} is missing" for name in self.types if name not in found and name not in self.optional]
        wrong += [
            f"{name} is {kind}, not {self.types[name]}"
            for name, kind in found.items()
            if name in self.types and kind != self.types[name]
        ]
        wrong += [f"{name} is not declared" for name in found if name not in self.types]
        return {"success": not wrong, "result": {"observed_value": "; ".join(wrong) or "as declared"}}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)  # type: ignore[untyped-decorator]
    def _prescriptive_renderer(cls, configuration: Any = None, **_: Any) -> Any:
        types = configuration.kwargs["types"]
        return [_text("Columns: $types.", {"types": ", ".join(f"{name} {kind}" for name, kind in types.items())})]


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


class DuplicatedRows(TableMetricProvider):  # type: ignore[misc]
    """[the number of rows with repeated values, the first of those values]."""

    metric_name = DUPLICATED
    value_keys = ("columns",)

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        return list(slices.duplicated(_domain(execution_engine, metric_domain_kwargs), metric_value_kwargs["columns"]))


class ExpectUniqueTogether(Once, BatchExpectation):  # type: ignore[misc]
    """Expect no two rows with equal values in all columns; null equals null."""

    columns: list[str]

    _written: Any = PrivateAttr(default=None)

    success_keys: ClassVar[tuple[str, ...]] = ("columns",)
    metric_dependencies: ClassVar[tuple[str, ...]] = (DUPLICATED,)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:  # noqa: ARG002
        rows, examples = metrics[DUPLICATED]
        result = {"observed_value": rows, "unexpected_count": rows, "partial_unexpected_list": examples}
        return {"success": rows == 0, "result": result}

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)  # type: ignore[untyped-decorator]
    def _prescriptive_renderer(cls, configuration: Any = None, **_: Any) -> Any:
        return [_text("$columns are unique together.", {"columns": ", ".join(configuration.kwargs["columns"])})]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)  # type: ignore[untyped-decorator]
    def _diagnostic_unexpected_statement_renderer(cls, result: Any = None, **_: Any) -> Any:
        return super()._diagnostic_unexpected_statement_renderer(result=result) if _raised(result) else []

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)  # type: ignore[untyped-decorator]
    def _diagnostic_unexpected_table_renderer(cls, result: Any = None, **_: Any) -> Any:
        return _examples(result)
