"""Expectations of our own, written so that others can reuse them: they know nothing of Kafka or of this project.

Both work on pandas and on Spark. Import this module late: Great Expectations takes seconds to import.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.compatibility.pyspark import functions as F  # noqa: N812  # the name that Spark's own pages use
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine import PandasExecutionEngine, SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.expectations.registry import get_metric_kwargs
from great_expectations.render import (
    LegacyDiagnosticRendererType,
    LegacyRendererType,
    RenderedStringTemplateContent,
    RenderedTableContent,
)
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.util import num_to_str
from great_expectations.validator.metric_configuration import MetricConfiguration

COUNTS, EXAMPLES = "table.rows_where", "table.rows_where.examples"
NULLS = "table.null_counts"
DUPLICATED = "table.duplicated_rows"
TYPES = "table.column_types_by_name"
MAX_EXAMPLES = 20  # rows that a result shows of those that broke an expectation

# (column, operator) or (column, operator, operand); an operand {"column": name} is another column of the same row.
Term = Sequence[Any]

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def sentence(where: Sequence[Term]) -> str:
    """The terms as one condition that a person can read."""
    return " and ".join(" ".join(map(_word, term)) for term in where)


def _word(part: Any) -> str:
    if isinstance(part, Mapping):
        return str(part["column"])
    return ", ".join(map(str, part)) if isinstance(part, list | tuple) else str(part)


def _rows(frame: pd.DataFrame, where: Sequence[Term]) -> pd.DataFrame:
    masks = (_mask(frame, *term) for term in where)
    return frame[reduce(operator.and_, masks).fillna(False).astype(bool)] if len(frame) else frame


def _mask(frame: pd.DataFrame, column: str, relation: str, operand: Any = None) -> pd.Series:
    values = frame[column]
    if relation == "is null":
        return values.isna()
    if relation == "is not null":
        return values.notna()
    if relation in {"in", "not in"}:
        return values.notna() & (values.isin(operand) == (relation == "in"))
    other = frame[operand["column"]] if isinstance(operand, Mapping) else operand
    compared: pd.Series = _COMPARISONS[relation](values, other)
    known = values.notna() & (other.notna() if isinstance(operand, Mapping) else True)
    return compared & known


def _condition(where: Sequence[Term]) -> Any:
    return reduce(operator.and_, (_column(*term) for term in where))


def _column(column: str, relation: str, operand: Any = None) -> Any:
    values = F.col(f"`{column}`")
    if relation == "is null":
        return values.isNull()
    if relation == "is not null":
        return values.isNotNull()
    if relation in {"in", "not in"}:
        return values.isin(*operand) if relation == "in" else ~values.isin(*operand)
    other = F.col(f"`{operand['column']}`") if isinstance(operand, Mapping) else F.lit(operand)
    return _COMPARISONS[relation](values, other)


class RowsWhere(TableMetricProvider):  # type: ignore[misc]  # the library ships no types
    """[rows in all, those that satisfy all terms, each as often as ``weight_column`` says]. On Spark an aggregate, so
    that all of a suite are computed in one pass; pandas appends the first rows found.
    """

    metric_name = COUNTS
    value_keys = ("where", "weight_column", "show")

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        frame = _domain(execution_engine, metric_domain_kwargs)
        found = _rows(frame, metric_value_kwargs["where"])
        weight = metric_value_kwargs.get("weight_column")
        counted = int(found[weight].sum()) if weight else len(found)
        shown = found[:MAX_EXAMPLES][list(metric_value_kwargs.get("show") or frame.columns)]
        return [len(frame), counted, pa.Table.from_pandas(shown, preserve_index=False).to_pylist() if counted else []]

    @metric_partial(  # type: ignore[untyped-decorator]
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(cls, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        weight = metric_value_kwargs.get("weight_column")
        each = F.col(f"`{weight}`").cast("bigint") if weight else F.lit(1).cast("bigint")
        counted = F.sum(F.when(_condition(metric_value_kwargs["where"]), each))
        return F.array(F.count(F.lit(1)), F.coalesce(counted, F.lit(0))), metric_domain_kwargs, {}


class RowsWhereExamples(TableMetricProvider):  # type: ignore[misc]
    """On Spark the first rows that satisfy all terms, in a job of its own."""

    metric_name = EXAMPLES
    value_keys = ("where", "show")

    @metric_value(engine=SparkDFExecutionEngine)  # type: ignore[untyped-decorator]
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        frame = _domain(execution_engine, metric_domain_kwargs)
        shown = metric_value_kwargs.get("show") or frame.columns
        found = frame.filter(_condition(metric_value_kwargs["where"])).select(*(f"`{name}`" for name in shown))
        return [row.asDict() for row in found.limit(MAX_EXAMPLES).collect()]


def _domain(execution_engine: Any, metric_domain_kwargs: Any) -> Any:
    return execution_engine.get_domain_records(domain_kwargs=metric_domain_kwargs)


class Once:
    """An expectation that writes its configuration down once. The library's do so at each of about forty questions
    that a validation asks of it, which takes a third of the time of a small table. A class that uses this has a private
    attribute ``_written``; pydantic allows it on no other base.
    """

    _written: Any

    @property
    def configuration(self) -> Any:
        """What is validated, as the base class writes it; not to be changed after its first use."""
        if self._written is None:
            self._written = super().configuration  # type: ignore[misc]
        return self._written


class ExpectNoRowsWhere(Once, BatchExpectation):  # type: ignore[misc]
    """Expect that no row of the batch satisfies all of ``where``: a CHECK constraint, told by what it forbids.

    It says in one expectation what else takes a row condition and a second expectation (``done_ns`` is filled where
    ``outcome`` is ok), and it compares columns of one row. As in SQL a comparison with a null is not satisfied. On
    Spark all of a suite are one aggregation. Built in are ``UnexpectedRowsExpectation``, which does not work on pandas
    and runs a query of its own each, and map expectations, which take several metrics each.

    Args:
        where: terms that a forbidden row satisfies, all of them: ``(column, "is null")``, ``(column, "is not null")``,
            or ``(column, operator, operand)`` with ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` or ``not in``;
            an operand ``{"column": name}`` is another column.
        weight_column: where a row stands for several cases, the column that says for how many; may be 0.
        show: columns of the failing rows that the result shows; all, if not given.

    Example:
        >>> ExpectNoRowsWhere(where=[["high_watermark", ">", {"column": "log_end_offset"}]])
    """

    where: list[list[Any]]
    weight_column: str | None = None
    show: list[str] | None = None

    _written: Any = PrivateAttr(default=None)

    success_keys: ClassVar[tuple[str, ...]] = ("where", "weight_column", "show")
    metric_dependencies: ClassVar[tuple[str, ...]] = (COUNTS,)

    def get_validation_dependencies(self, execution_engine: Any = None, runtime_configuration: Any = None) -> Any:
        """The counts and, on Spark, examples unless only a boolean was asked for: they are a job of their own."""
        needed = super().get_validation_dependencies(execution_engine, runtime_configuration)
        if isinstance(execution_engine, SparkDFExecutionEngine) and _wants_rows(runtime_configuration):
            kwargs = get_metric_kwargs(EXAMPLES, self.configuration, runtime_configuration)
            domain, values = kwargs["metric_domain_kwargs"], kwargs["metric_value_kwargs"]
            needed.set_metric_configuration(EXAMPLES, MetricConfiguration(EXAMPLES, domain, values))
        return needed

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:  # noqa: ARG002
        rows, found, *examples = metrics[COUNTS]
        result = {"element_count": rows, "observed_value": found, "unexpected_count": found}
        if found:
            result["partial_unexpected_list"] = examples[0] if examples else metrics.get(EXAMPLES, [])
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
    """How many nulls each of some columns has, in their order; on Spark one aggregate."""

    metric_name = NULLS
    value_keys = ("columns",)

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        frame = _domain(execution_engine, metric_domain_kwargs)
        return [int(frame[name].isna().sum()) for name in metric_value_kwargs["columns"]]

    @metric_partial(  # type: ignore[untyped-decorator]
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(cls, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        nulls = [F.count_if(F.col(f"`{name}`").isNull()) for name in metric_value_kwargs["columns"]]
        return F.array(*nulls), metric_domain_kwargs, {}


class ExpectColumnsToNotBeNull(Once, BatchExpectation):  # type: ignore[misc]
    """Expect that none of several columns has a null: ``ExpectColumnValuesToNotBeNull`` for all required columns of a
    table at once, with one metric in place of three for each column.

    Args:
        columns: the columns that must be filled.
    """

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
    """The type of each column in Arrow's words: column → type."""

    metric_name = TYPES

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        frame = _domain(execution_engine, metric_domain_kwargs)
        return {name: str(getattr(kind, "pyarrow_dtype", kind)) for name, kind in frame.dtypes.items()}

    @metric_value(engine=SparkDFExecutionEngine)  # type: ignore[untyped-decorator]
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        frame = _domain(execution_engine, metric_domain_kwargs)
        return {name: _arrow_name(kind) for name, kind in frame.dtypes}


_ARROW_NAMES = {"tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64", "boolean": "bool"}


def _arrow_name(spark_type: str) -> str:
    if spark_type.startswith("array<"):
        return f"list<{_arrow_name(spark_type.removeprefix('array<').removesuffix('>'))}>"
    return _ARROW_NAMES.get(spark_type, spark_type)


class ExpectColumnsToHaveTypes(Once, BatchExpectation):  # type: ignore[misc]
    """Expect that the batch has these columns with these types, and no others. Types are named as Arrow names them
    (``int64``, ``double``, ``list<int32>``), so that one declaration holds on Spark and on pandas with Arrow types;
    built-in ones name each engine's own types.

    Args:
        types: column → type.
        optional: columns of ``types`` that may be missing.
    """

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


def _wants_rows(runtime_configuration: Any) -> bool:
    wanted = (runtime_configuration or {}).get("result_format", "BASIC")
    return (wanted.get("result_format") if isinstance(wanted, Mapping) else wanted) != "BOOLEAN_ONLY"


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
    """[rows of which another has the same values in all columns, the first of those values]. On Spark a hash
    aggregation; the built-in metric sorts the table into windows.
    """

    metric_name = DUPLICATED
    value_keys = ("columns",)

    @metric_value(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        keys = _domain(execution_engine, metric_domain_kwargs)[list(metric_value_kwargs["columns"])]
        found = keys[keys.duplicated(keep=False)]
        shown = found.drop_duplicates()[:MAX_EXAMPLES]
        return [len(found), pa.Table.from_pandas(shown, preserve_index=False).to_pylist() if len(found) else []]

    @metric_value(engine=SparkDFExecutionEngine)  # type: ignore[untyped-decorator]
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:  # noqa: N805
        columns = [f"`{name}`" for name in metric_value_kwargs["columns"]]
        grouped = _domain(execution_engine, metric_domain_kwargs).groupBy(*columns).agg(F.count(F.lit(1)).alias("n"))
        several = grouped.filter("n > 1")
        rows = several.agg(F.coalesce(F.sum("n"), F.lit(0))).collect()[0][0]
        return [rows, [row.asDict() for row in several.drop("n").limit(MAX_EXAMPLES).collect()] if rows else []]


class ExpectUniqueTogether(Once, BatchExpectation):  # type: ignore[misc]
    """Expect that no two rows have the same values in all columns: ``ExpectCompoundColumnsToBeUnique`` at a fraction of
    its cost on Spark, where that sorts the whole table.

    Args:
        columns: the columns of the key; a null is a value like any other.
    """

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
