"""What a cluster was asked for so far, by its own metrics: load, peak and growth. docs/capacity.md has the rules."""

from __future__ import annotations

import codecs
import csv
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from scipy import stats

from campaigns.statistics.capacity import CONFIDENCE, DAYS_A_MONTH
from history.errors import BadInput

WEEK_S = 7 * 86_400.0
MIN_WEEKS = 4
WHOLE = 0.9  # the share of a week's rows that must be there for it to count
FIRST_S, LAST_S = 3e8, 3e11  # years 1979 to 11476: units of a thousand apart do not overlap
REPLICA_LABELS = frozenset({"prometheus_replica", "replica", "__replica__"})  # of two Prometheus with one target


class Row(NamedTuple):
    """Seconds since 1970, and MB/s in and out from then on; ``mb_out`` is None if the file does not report it.

    ``series`` is how many series, such as one for each broker, the sum is of.
    """

    at_s: float
    mb_in: float
    mb_out: float | None
    series: int = 1


class Demand(NamedTuple):
    """The mean of the last whole week, the highest row of the last four over their mean, consumer groups by bytes out
    over bytes in (None: not reported), growth by month at 90 % (None: too few whole weeks), and of how many whole
    weeks. ``doubts`` are sentences on what is missing from the rows.
    """

    write_mb_per_s: float
    burst: float
    consumer_groups: int | None
    growth_per_month: tuple[float, float] | None
    weeks: int
    doubts: tuple[str, ...] = ()


def read(path: Path) -> list[Row]:
    """Read the rows of a file, oldest first: CSV with bytes by hour (or any other step), or Prometheus' answer to
    query_range with bytes a second.

    Raises:
        BadInput: the file is missing, has neither form, or one of its values is wrong; the sentence has its place.
    """
    try:
        text = _decoded(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInput(f"demand: {path} cannot be read: {why}.") from error
    try:
        rows = _of_prometheus(text) if text.lstrip()[:1] in ("{", "[") else _of_csv(text.splitlines())
    except _WrongError as error:
        raise BadInput(f"demand: {path}: {error}.") from error
    return sorted(rows, key=lambda row: row.at_s)


class _WrongError(ValueError):
    """What is wrong with a file, where, and what to do; the caller names the file."""


def _decoded(data: bytes) -> str:
    """Spreadsheets save UTF-8 and UTF-16 with a byte order mark."""
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf16 else "utf-8-sig")


def _of_csv(lines: Sequence[str]) -> list[Row]:
    first = lines[0] if lines else ""
    separator = max(";\t,", key=first.count)
    reader = csv.DictReader(lines, delimiter=separator)
    reader.fieldnames = [str(name).strip().lower() for name in reader.fieldnames or []]
    if not {"time", "bytes_in"} <= set(reader.fieldnames):
        raise _WrongError(
            "it is neither CSV with the columns time, bytes_in and perhaps bytes_out nor the answer of Prometheus to "
            f"query_range; its first line is {first[:80]!r}"
        )
    try:
        told = [(_numbered(row, reader.line_num, separator), reader.line_num) for row in reader]
    except csv.Error as error:
        raise _WrongError(f"line {reader.line_num} is no CSV: {error}") from None
    times = _times([(row["time"], f"line {line}") for row, line in told])
    for time, count in Counter(times).items():
        if count > 1:
            twice = next(row["time"] for (row, _), at_s in zip(told, times, strict=True) if at_s == time)
            raise _WrongError(f"the time {twice} is there {count} times; write times with their offset from UTC")
    step_s = _step_s(times)
    values = [
        [None if not row.get(name) else _bytes(row[name], f"line {line}, {name}") for name in ("bytes_in", "bytes_out")]
        for row, line in told
    ]
    for (_, line), (mb_in, _) in zip(told, values, strict=True):
        if mb_in is None:
            raise _WrongError(f"line {line} has no bytes_in; leave the whole line out")
    return [
        Row(at_s, (into or 0.0) / step_s / 1e6, None if out is None else out / step_s / 1e6)
        for at_s, (into, out) in zip(times, values, strict=True)
    ]


def _numbered(row: Mapping[str | Any, Any], line: int, separator: str) -> dict[str, str]:
    """A row with decimal points; where semicolons separate, spreadsheets write decimal commas."""
    if None in row:
        raise _WrongError(f"line {line} has more fields than the first line")
    told = {name: (value or "").strip() for name, value in row.items()}
    return {name: value if separator == "," else value.replace(",", ".") for name, value in told.items()}


def _times(told: Sequence[tuple[str, str]]) -> list[float]:
    """Seconds since 1970; numbers may also be milli-, micro- or nanoseconds, all in one unit."""
    times, units = [], set[float]()
    for text, place in told:
        try:
            number = float(text)
        except ValueError:
            times.append(_of_iso(text, place))
            continue
        unit = next((unit for unit in (1.0, 1e3, 1e6, 1e9) if FIRST_S <= number / unit < LAST_S), None)
        if unit is None:
            raise _WrongError(f"{place}: the time {text} is no time since 1970 in s, ms, µs or ns; write ISO 8601")
        times.append(number / unit)
        units.add(unit)
    if len(units) > 1:
        raise _WrongError("its times are in different units; write all of them in seconds since 1970 or as ISO 8601")
    return times


def _of_iso(text: str, place: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise _WrongError(f"{place}: the time {text!r} is neither ISO 8601 nor a number since 1970") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _bytes(text: Any, place: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise _WrongError(f"{place}: {text!r} is no number of bytes")
    return value


def _of_prometheus(text: str) -> list[Row]:
    """Sum the series: one for each broker, as a rule."""
    sums: dict[float, list[float]] = defaultdict(list)
    for labels, values in _series(text):
        name = labels or "the only series"
        times = _times([(str(at), f"{name}, value {number}") for number, (at, _) in enumerate(values, 1)])
        for number, (at_s, (_, value)) in enumerate(zip(times, values, strict=True), 1):
            sums[at_s].append(_bytes(value, f"{name}, value {number}") / 1e6)
    if len(sums) < 2:
        raise _WrongError("it has values of fewer than two times; the query found nothing, or its range is too short")
    return [Row(at_s, math.fsum(values), None, len(values)) for at_s, values in sums.items()]


def _series(text: str) -> list[tuple[str, list[Any]]]:
    """Return labels and values of each series; none is a part of another."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise _WrongError(f"it is no whole JSON{where}") from None
    if isinstance(answer, dict) and answer.get("status") == "error":
        said = str(answer.get("error")).rstrip(". ")
        raise _WrongError(f"Prometheus answered with an error: {answer.get('errorType')}: {said}")
    data = answer.get("data") if isinstance(answer, dict) else None
    kind = data.get("resultType") if isinstance(data, dict) else None
    found = data.get("result") if isinstance(data, dict) else None
    if kind not in ("matrix", None) or not isinstance(found, list) or not all(map(_is_series, found)):
        got = f"its resultType is {kind!r}" if kind else "it is other JSON"
        raise _WrongError(f"it is no answer of Prometheus to query_range ({got}); CSV with time and bytes_in will do")
    _refuse_parts([each.get("metric") or {} for each in found])
    return [(_shown(each.get("metric") or {}), each["values"]) for each in found]


def _is_series(each: Any) -> bool:
    values = each.get("values") if isinstance(each, dict) and isinstance(each.get("metric", {}), dict) else None
    return isinstance(values, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in values)


def _refuse_parts(found: Sequence[Mapping[str, str]]) -> None:
    """Refuse series that would be counted twice: a total beside its parts, and one series from two Prometheus."""
    labels = [{name: value for name, value in each.items() if value} for each in found]
    without = [frozenset(item for item in each.items() if item[0] not in REPLICA_LABELS) for each in labels]
    known: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
    for each, key in zip(labels, without, strict=True):
        if key in known:
            both = f"{_shown(known[key])} and {_shown(each)}"
            raise _WrongError(f"{both} are the same series; keep those of one Prometheus")
        known[key] = each
    if len({each.get("__name__") for each in labels}) > 1:
        raise _WrongError("it has series of several metrics; query bytes in alone")
    names = Counter(name for each in labels for name in each)
    of_parts = {name for name, count in names.items() if count < len(labels)}  # labels that some series lack
    for each in labels:
        total = frozenset(item for item in each.items() if item[0] not in of_parts | REPLICA_LABELS)
        if of_parts & set(each) and total in known:
            raise _WrongError(
                f"{_shown(known[total])} is a total and {_shown(each)} a part of it, which would be counted twice; "
                f'query totals alone, such as sum(rate(kafka_server_brokertopicmetrics_bytesin_total{{topic=""}}[1h]))'
            )


def _shown(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) + "}" if labels else "{}"


def _step_s(at_s: Sequence[float]) -> float:
    steps = [later - earlier for earlier, later in pairwise(sorted(at_s))]
    if not steps:
        raise _WrongError("it has fewer than two different times")
    return median(steps)


def demand(rows: Sequence[Row]) -> Demand:
    """Return load, peak, groups and growth. Growth is the slope of ln(load) over whole weeks, so that weekdays cancel
    out; its interval is the t interval of that line.

    Weeks with fewer series than the last one are not counted: the sum may lack brokers. Neither are rows with fewer
    series than their week.

    Raises:
        BadInput: there is no whole week, or one without load.
    """
    weeks, doubts = _whole_weeks(rows)
    if not weeks:
        raise BadInput(f"demand has no whole week of 7 days with {WHOLE:.0%} of its rows; give load and burst instead.")
    means = [fmean(row.mb_in for row in week) for _, week in weeks]
    if min(means) <= 0:
        raise BadInput("demand has a week without any load; leave out what lies before it.")
    recent = [row for _, week in weeks[-MIN_WEEKS:] for row in week]
    told = [row for row in recent if row.mb_out is not None]
    fan_out = sum(row.mb_out or 0.0 for row in told) / sum(row.mb_in for row in told) if told else None
    return Demand(
        write_mb_per_s=means[-1],
        burst=max(1.0, max(row.mb_in for row in recent) / fmean(row.mb_in for row in recent)),
        # What is read twice by chance is no group.
        consumer_groups=None if fan_out is None else math.ceil(fan_out - 0.05),
        growth_per_month=_growth([number for number, _ in weeks], means) if len(weeks) >= MIN_WEEKS else None,
        weeks=len(weeks),
        doubts=tuple(doubts),
    )


def _whole_weeks(rows: Sequence[Row]) -> tuple[list[tuple[int, list[Row]]], list[str]]:
    """Return the whole weeks with as many series as the last one, oldest first, and what is missing in words."""
    weeks: list[tuple[int, list[Row], int]] = []
    doubts = []
    for number, week in _weeks(rows):
        usual = round(median(row.series for row in week))
        kept = [row for row in week if row.series >= usual]
        if missing := round(WEEK_S / _step_s([row.at_s for row in rows])) - len(week):
            doubts.append(f"{missing} rows of the week from {_day(week)} are missing")
        if short := len(week) - len(kept):
            doubts.append(f"{short} of {len(week)} rows of the week from {_day(week)} lack a series and are left out")
        weeks.append((number, kept, usual))
    last = weeks[-1][2] if weeks else 0
    for _, week, usual in weeks:
        if usual != last:
            left_out = "; the week is left out, as brokers may have been there unmeasured" if usual < last else ""
            doubts.append(f"the week from {_day(week)} has {usual} series and the last one {last}{left_out}")
    return [(number, week) for number, week, usual in weeks if usual >= last], doubts


def _day(week: Sequence[Row]) -> str:
    return datetime.fromtimestamp(week[0].at_s, UTC).strftime("%Y-%m-%d")


def _weeks(rows: Sequence[Row]) -> list[tuple[int, list[Row]]]:
    """The whole weeks, counted back from the last row, with their numbers; oldest first."""
    if len(rows) < 2:
        return []
    end_s, step_s = rows[-1].at_s, _step_s([row.at_s for row in rows])
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[-int((end_s - row.at_s) // WEEK_S)].append(row)
    return [(number, week) for number, week in sorted(found.items()) if len(week) >= WHOLE * WEEK_S / step_s]


def _growth(numbers: Sequence[int], means: Sequence[float]) -> tuple[float, float]:
    line = stats.linregress(numbers, [math.log(mean) for mean in means])
    error = 0.0 if math.isnan(line.stderr) else float(line.stderr)  # a load that never changes
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(means) - 2)) * error
    weeks_a_month = DAYS_A_MONTH / 7
    low, high = (math.expm1((float(line.slope) + side * reach) * weeks_a_month) for side in (-1, 1))
    return low, high


def asked(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question whose ``demand`` names a file with the figures of that file; what it gives itself stays.

    Raises:
        BadInput: the file cannot be used, or has too few weeks for a growth that the question does not give.
    """
    if not question.get("demand"):
        return dict(question)
    found = demand(read(Path(str(question["demand"])).expanduser()))
    told: dict[str, Any] = {
        "write_mb_per_s": round(found.write_mb_per_s, 4),
        "burst": round(found.burst, 3),
        "demand_weeks": found.weeks,
        "demand_doubts": list(found.doubts),
    }
    if found.growth_per_month is not None:
        told["growth_per_month"] = [round(share, 4) for share in found.growth_per_month]
    elif "growth_per_month" not in question:
        why = f" ({'; '.join(found.doubts)})" if found.doubts else ""
        raise BadInput(
            f"demand has {_weeks_in_words(found.weeks)}{why}; growth needs {MIN_WEEKS} or more, each with {WHOLE:.0%} "
            "of its rows: give growth_per_month in the question."
        )
    groups = {} if found.consumer_groups is None else {"consumer_groups": found.consumer_groups}
    return {**told, **groups, **question}


def _weeks_in_words(weeks: int) -> str:
    return f"{weeks} whole week{'' if weeks == 1 else 's'}"
