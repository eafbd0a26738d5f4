"""A cluster's past load, peak and growth; docs/capacity.md has the rules."""

from __future__ import annotations

import codecs
import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from scipy import stats

from campaigns.capacity.series import Series, WrongError, check_labels, check_values, shown
from campaigns.statistics.capacity import DAYS_A_MONTH
from campaigns.statistics.catch_up import CONFIDENCE
from history.errors import BadInput
from history.words import counted

WEEK_S = 7 * 86_400.0
MIN_WEEKS = 4
WHOLE = 0.9  # of a week's rows, for it to count
FIRST_S, LAST_S = 3e8, 3e11  # years 1979 to 11476: units 1000 apart do not overlap
IRREGULAR = 0.1  # of a step: local days of 23 and 25 hours differ by less
DRIFT = 0.01  # of the usual step, for the mean step
LEAST_MB_PER_S = 1e-4  # a lower cluster load was misread
MAX_WARNINGS = 5


class Row(NamedTuple):
    """MB/s in and out from ``at_s`` on; ``mb_out`` is None if unreported; ``series`` counts the summed ones."""

    at_s: float
    mb_in: float
    mb_out: float | None
    series: int = 1


class Demand(NamedTuple):
    """Load of the last whole week, peak over mean of four weeks, growth per month at 90 %; None: too little data."""

    write_mb_per_s: float
    burst: float
    consumer_groups: int | None
    growth_per_month: tuple[float, float] | None
    weeks: int
    doubts: tuple[str, ...] = ()


class Metrics(NamedTuple):
    """Rows, oldest first, and doubts about missing or doubly counted data."""

    rows: list[Row]
    doubts: tuple[str, ...] = ()


def read(path: Path) -> Metrics:
    """Read CSV (bytes per step) or a Prometheus query_range answer (bytes per second).

    Raises:
        BadInput: the file is missing or wrong; names the place.
    """
    try:
        text = _decoded(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInput(f"demand: {path} cannot be read: {why}.") from error
    try:
        found = _of_prometheus(text) if text.lstrip()[:1] in ("{", "[") else Metrics(_of_csv(text.splitlines()))
    except WrongError as error:
        raise BadInput(f"demand: {path}: {error}.") from error
    return Metrics(sorted(found.rows, key=lambda row: row.at_s), found.doubts)


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
        raise WrongError(
            "it is neither CSV with the columns time, bytes_in and perhaps bytes_out nor the answer of Prometheus to "
            f"query_range; its first line is {first[:80]!r}"
        )
    cells = _cells(reader)
    is_decimal_comma = separator != ","
    times = _times([(row["time"], f"line {line}") for row, line in cells], is_decimal_comma)
    step_s = _regular_step_s([(at_s, f"line {line}") for at_s, (_, line) in zip(times, cells, strict=True)])
    values = [
        [_csv_bytes(row.get(name, ""), f"line {line}, {name}", is_decimal_comma) for name in ("bytes_in", "bytes_out")]
        for row, line in cells
    ]
    for (_, line), (mb_in, _) in zip(cells, values, strict=True):
        if mb_in is None:
            raise WrongError(f"line {line} has no bytes_in; leave the whole line out")
    rows = [
        Row(at_s, (into or 0.0) / step_s / 1e6, None if out is None else out / step_s / 1e6)
        for at_s, (into, out) in zip(times, values, strict=True)
    ]
    _refuse_no_load(rows, cells)
    return rows


def _cells(reader: csv.DictReader[str]) -> list[tuple[dict[str, str], int]]:
    found = []
    try:
        for row in reader:
            if None in row:
                raise WrongError(f"line {reader.line_num} has more fields than the first line")
            found.append(({name: (value or "").strip() for name, value in row.items()}, reader.line_num))
    except csv.Error as error:
        raise WrongError(f"line {reader.line_num} is no CSV: {error}") from None
    return found


def _plain(text: str, is_decimal_comma: bool) -> str:
    """Spreadsheets that separate by semicolons or tabs write decimal commas."""
    return text.replace(",", ".") if is_decimal_comma else text


def _csv_bytes(text: str, place: str, is_decimal_comma: bool) -> float | None:
    return _bytes(_plain(text, is_decimal_comma), place, text, "leave the whole line out") if text else None


def _refuse_no_load(rows: Sequence[Row], cells: Sequence[tuple[Mapping[str, str], int]]) -> None:
    """Reject implausibly small numbers: 36.571 may mean 36,571."""
    most = max(row.mb_in for row in rows)
    if not 0 < most < LEAST_MB_PER_S:
        return
    text, line = next((row["bytes_in"], line) for row, line in cells if re.search("[1-9]", row["bytes_in"]))
    cause = "they may have thousands separators" if _has_thousands(text) else "they may be in MB"
    raise WrongError(
        f"bytes_in has no more than {most * 1e6:.2g} bytes a second (line {line} has {text!r}); {cause}: write whole "
        "bytes, as digits alone"
    )


def _has_thousands(text: str) -> bool:
    return re.fullmatch(r"\d{1,3}([.,' \u00a0\u202f]\d{3})+", text) is not None


def _times(texts: Sequence[tuple[str, str]], is_decimal_comma: bool = False) -> list[float]:
    """Accept seconds, milli-, micro- or nanoseconds since 1970."""
    times, units = [], set[float]()
    for text, place in texts:
        try:
            number = float(_plain(text, is_decimal_comma))
        except ValueError:
            times.append(_of_iso(text, place))
            continue
        unit = next((unit for unit in (1.0, 1e3, 1e6, 1e9) if FIRST_S <= number / unit < LAST_S), None)
        if unit is None:
            raise WrongError(f"{place}: the time {text} is no time since 1970 in s, ms, µs or ns; write ISO 8601")
        times.append(number / unit)
        units.add(unit)
    if len(units) > 1:
        raise WrongError("its times are in different units; write all of them in seconds since 1970 or as ISO 8601")
    return times


def _of_iso(text: str, place: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise WrongError(f"{place}: the time {text!r} is neither ISO 8601 nor a number since 1970") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _bytes(value: Any, place: str, text: Any, remedy: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        if _has_thousands(str(text)):
            raise WrongError(f"{place}: {text!r} has thousands separators; write its digits alone") from None
        raise WrongError(f"{place}: {text!r} is no number of bytes") from None
    if not math.isfinite(number):
        raise WrongError(f"{place}: {text!r} is no number of bytes; {remedy}")
    if number < 0:
        raise WrongError(f"{place}: {text!r} is no number of bytes")
    return number


def _of_prometheus(text: str) -> Metrics:
    answer = _answer(text)
    found = [_series(each) for each in _matrix(answer)]
    sums: dict[float, list[float]] = defaultdict(list)
    for each in found:
        for at_s, mb_per_s in each.values.items():
            sums[at_s].append(mb_per_s)
    if len(sums) < 2:
        raise WrongError("it has values of fewer than two times; the query found nothing, or its range is too short")
    doubts = check_values(found)
    _regular_step_s([(at_s, "") for at_s in sums])
    rows = [Row(at_s, math.fsum(values), None, len(values)) for at_s, values in sums.items()]
    return Metrics(rows, (*_warnings(answer), *doubts))


def _series(each: Mapping[str, Any]) -> Series:
    labels = _labels(each)
    name = shown(labels) if labels else "the only series"
    places = [f"{name}, value {number}" for number, _ in enumerate(each["values"], 1)]
    times = _times([(str(at), place) for place, (at, _) in zip(places, each["values"], strict=True)])
    values: dict[float, float] = {}
    for at_s, place, (at, value) in zip(times, places, each["values"], strict=True):
        if at_s in values:
            raise WrongError(f"{place}: the time {at} is there twice")
        values[at_s] = (
            _bytes(value, f"{place}, at {_iso(at_s)}", value, f"leave out this value, [{at}, {value!r}]") / 1e6
        )
    return Series(labels, values)


def _labels(each: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in (each.get("metric") or {}).items() if value}


def _warnings(answer: Mapping[str, Any]) -> list[str]:
    """Return Prometheus' warnings; queries of several stores set ``isPartial``."""
    warnings = answer.get("warnings")
    texts = [" ".join(str(each).split())[:200].rstrip(". ") for each in warnings] if isinstance(warnings, list) else []
    found = [f"Prometheus warned of its answer: {text}" for text in dict.fromkeys(texts) if text]
    if len(found) > MAX_WARNINGS:
        found[MAX_WARNINGS:] = [f"Prometheus gave {len(found) - MAX_WARNINGS} more warnings"]
    if answer.get("isPartial") is True:
        found.append("the answer of Prometheus is partial (isPartial), so the load may be larger")
    return found


def _answer(text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise WrongError(f"it is no whole JSON{where}") from None
    if not isinstance(answer, dict):
        raise _no_answer("it is other JSON")
    if answer.get("status") not in (None, "success"):
        parts = [answer.get("errorType"), answer.get("error") or answer.get("message")]
        message = ": ".join(" ".join(str(each).split()).rstrip(". ") for each in parts if each)
        raise WrongError(f"Prometheus answered with an error{f': {message}' if message else ' and no text'}")
    return answer


def _no_answer(got: str) -> WrongError:
    return WrongError(f"it is no answer of Prometheus to query_range ({got}); CSV with time and bytes_in will do")


def _matrix(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    data = answer.get("data")
    kind = data.get("resultType") if isinstance(data, dict) else None
    found = data.get("result") if isinstance(data, dict) else None
    if kind not in ("matrix", None) or not isinstance(found, list) or not all(map(_is_series, found)):
        raise _no_answer(f"its resultType is {kind!r}" if kind else "it is other JSON")
    check_labels([_labels(each) for each in found])
    return found


def _is_series(each: Any) -> bool:
    values = each.get("values") if isinstance(each, dict) and isinstance(each.get("metric", {}), dict) else None
    return isinstance(values, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in values)


def _regular_step_s(times: Sequence[tuple[float, str]]) -> float:
    """Return the step; raise WrongError if a time is repeated or off the step."""
    by_time = sorted(times)
    _refuse_equal_times(by_time)
    step_s = _step_s([at_s for at_s, _ in by_time])
    single = []
    for (earlier, first), (later, second) in pairwise(by_time):
        steps = max(1, round((later - earlier) / step_s))
        if abs(later - earlier - steps * step_s) > IRREGULAR * step_s:
            raise WrongError(_irregular(second or _iso(later), first or _iso(earlier), later - earlier, step_s))
        single += [later - earlier] if steps == 1 else []
    if single and abs(fmean(single) / step_s - 1) > DRIFT:
        raise WrongError(
            f"its times are irregular: the usual step is {step_s:g} s, and the mean one {fmean(single):.6g} s; write "
            "rows at equal steps, and times not rounded"
        )
    return step_s


def _refuse_equal_times(by_time: Sequence[tuple[float, str]]) -> None:
    for (earlier, first), (later, second) in pairwise(by_time):
        if earlier == later:
            raise WrongError(
                f"{first} and {second} have the same time, {_iso(later)}; write times with their offset from UTC, and "
                "not rounded"
            )


def _irregular(place: str, before: str, after_s: float, step_s: float) -> str:
    return (
        f"its times are irregular: {place} is {after_s:g} s after {before}, and the usual step is {step_s:g} s; write "
        "rows at equal steps, and times not rounded"
    )


def _step_s(at_s: Sequence[float]) -> float:
    steps = [later - earlier for earlier, later in pairwise(sorted(at_s))]
    if not steps:
        raise WrongError("it has fewer than two different times")
    return median(steps)


def demand(rows: Sequence[Row], known: Sequence[str] = ()) -> Demand:
    """Return load, peak, groups and growth.

    Growth is the slope of ln(load) over whole weeks, which cancels weekdays. Weeks with fewer series than the last one
    and rows with fewer than their week do not count: brokers may be missing.

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
    reported = [row for row in recent if row.mb_out is not None]
    fan_out = sum(row.mb_out or 0.0 for row in reported) / sum(row.mb_in for row in reported) if reported else None
    return Demand(
        write_mb_per_s=means[-1],
        burst=max(1.0, max(row.mb_in for row in recent) / fmean(row.mb_in for row in recent)),
        # occasional second reads are no group
        consumer_groups=None if fan_out is None else math.ceil(fan_out - 0.05),
        growth_per_month=_growth([number for number, _ in weeks], means) if len(weeks) >= MIN_WEEKS else None,
        weeks=len(weeks),
        doubts=(*known, *doubts),
    )


def _whole_weeks(rows: Sequence[Row]) -> tuple[list[tuple[int, list[Row]]], list[str]]:
    weeks: list[tuple[int, list[Row], int]] = []
    doubts = []
    for number, week in _weeks(rows):
        usual = round(median(row.series for row in week))
        kept = [row for row in week if row.series >= usual]
        missing = round(WEEK_S / _step_s([row.at_s for row in rows])) - len(week)
        if missing > 0:
            doubts.append(f"{missing} rows of the week from {_day(week)} are missing")
        if short := len(week) - len(kept):
            doubts.append(f"{short} of {len(week)} rows of the week from {_day(week)} lack a series and are left out")
        weeks.append((number, kept, usual))
    last = weeks[-1][2] if weeks else 0
    days: dict[int, list[str]] = defaultdict(list)
    for _, week, usual in weeks:
        if usual != last:
            days[usual].append(_day(week))
    doubts += [_other_series(usual, last, found) for usual, found in days.items()]
    return [(number, week) for number, week, usual in weeks if usual >= last], doubts


def _other_series(usual: int, last: int, days: Sequence[str]) -> str:
    if len(days) == 1:
        weeks, have, are = f"the week from {days[0]}", "has", "the week is"
    else:
        weeks, have, are = f"the weeks from {', '.join(days[:-1])} and {days[-1]}", "have", "the weeks are"
    left_out = f"; {are} left out, as brokers may have been there unmeasured" if usual < last else ""
    return f"{weeks} {have} {usual} series and the last one {last}{left_out}"


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def _day(week: Sequence[Row]) -> str:
    return datetime.fromtimestamp(week[0].at_s, UTC).strftime("%Y-%m-%d")


def _weeks(rows: Sequence[Row]) -> list[tuple[int, list[Row]]]:
    """Number whole weeks, counted back from the last row."""
    if len(rows) < 2:
        return []
    end_s, step_s = rows[-1].at_s, _step_s([row.at_s for row in rows])
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[-int((end_s - row.at_s) // WEEK_S)].append(row)
    return [(number, week) for number, week in sorted(found.items()) if len(week) >= WHOLE * WEEK_S / step_s]


def _growth(numbers: Sequence[int], means: Sequence[float]) -> tuple[float, float]:
    line = stats.linregress(numbers, [math.log(mean) for mean in means])
    error = 0.0 if math.isnan(line.stderr) else float(line.stderr)  # a constant load
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(means) - 2)) * error
    weeks_a_month = DAYS_A_MONTH / 7
    low, high = (math.expm1((float(line.slope) + side * reach) * weeks_a_month) for side in (-1, 1))
    return low, high


def filled_in(question: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in missing figures from the ``demand`` file; raise BadInput if it is unusable or too short for growth."""
    if not question.get("demand"):
        return dict(question)
    found = demand(*read(Path(str(question["demand"])).expanduser()))
    figures: dict[str, Any] = {
        "write_mb_per_s": round(found.write_mb_per_s, 4),
        "burst": round(found.burst, 3),
        "demand_weeks": found.weeks,
        "demand_doubts": list(found.doubts),
    }
    if found.growth_per_month is not None:
        figures["growth_per_month"] = [round(share, 4) for share in found.growth_per_month]
    elif "growth_per_month" not in question:
        why = f" ({'; '.join(found.doubts)})" if found.doubts else ""
        raise BadInput(
            f"demand has {counted(found.weeks, 'whole week')}{why}; growth needs {MIN_WEEKS} or more, each with "
            f"{WHOLE:.0%} of its rows: give growth_per_month in the question."
        )
    groups = {} if found.consumer_groups is None else {"consumer_groups": found.consumer_groups}
    return {**figures, **groups, **question}
