"""A capacity plan in sentences, with its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import PurePath

from campaigns.statistics.capacity import MOST_RUNS
from history.results.capacity import CapacityResult, Disk, Exhaustion, Partitions, Plan, Question, Spoken, Throttle

RESOURCES = {
    "cpu": "CPU",
    "network_in": "network in",
    "network_out": "network out",
    "disk_write": "disk write",
    "disk_read": "disk read",
    "catch_up_out": "network out while a broker catches up",
    "catch_up_disk_read": "disk read while a broker catches up",
}
EXPLAINS = 0.7  # Cruise Control's CPU capacity threshold; below it, a resource does not explain the knee


def sentence(result: CapacityResult) -> str:
    """Return the answer with its condition."""
    question = result.question
    if result.plan is None:
        why = _lower(result.missing[0]) if result.missing else "nothing was run."
        return f"No plan yet for {question.write_mb_per_s:g} MB/s on {question.brokers} brokers: {why}"
    plan, have = result.plan, question.brokers
    away = "one broker or a whole rack" if question.racks else "one"
    aim = f"p99 under {question.target_p99_ms:g} ms while {away} is away"
    if plan.disk.disk_gb is not None and plan.disk.needed_gb > plan.disk.disk_gb:
        stored = f"the {amount(plan.disk.needed_gb)} GB that each stores while {away} is away"
        answer = f"the disks of {have} brokers, {amount(plan.disk.disk_gb)} GB each, do not hold {stored}"
    elif result.recommendation.undecided:
        answer = _undecided(result, plan, aim)
    elif result.recommendation.verdict == "under" and plan.safe_mb_per_s < plan.peak_mb_per_s:
        answer = _missed(plan, question, aim)
    else:
        answer = f"{have} brokers carry {amount(plan.peak_mb_per_s)} MB/s with {aim}, {_recovery(plan, question)}"
    unsure = f"Not sure, as {result.unsure[0]}: " if result.unsure else ""
    answer = f"{unsure}{answer}{_instead(result)}"
    return f"{answer[:1].upper()}{answer[1:]}."


def _undecided(result: CapacityResult, plan: Plan, aim: str) -> str:
    question, advised = result.question, result.recommendation
    load = f"{amount(plan.later_mb_per_s)} MB/s, the peak in {question.horizon_months} months,"
    what = f"these runs do not decide whether {question.brokers} brokers carry {load} with {aim}"
    return f"{what}: {'; and '.join(advised.undecided)}"


def _missed(plan: Plan, question: Question, aim: str) -> str:
    latency, recovery = (
        math.inf if most is None else most for most in (plan.possible_latency_mb_per_s, plan.possible_recovery_mb_per_s)
    )
    load, when = plan.peak_mb_per_s, ""
    if min(latency, recovery) >= load:
        load, when = plan.later_mb_per_s, f" in {question.horizon_months} months"
    carried = f"{question.brokers} brokers do not carry {amount(load)} MB/s{when}"
    if latency < load:
        most = f"at most {amount(latency)} MB/s" if latency else "nor any load that was offered"
        return f"{carried} with {aim}, {most}"
    if plan.catch_up_s.estimate is None:
        why = _no_catch_up(plan)
    else:
        why = f"at most {amount(recovery)} MB/s" if recovery else "nor at any other load"
    return f"{carried} and recover within {question.target_recovery_s:g} s, {why}"


def _no_catch_up(plan: Plan) -> str:
    rate, load = amount(plan.rate_mb_per_s.estimate), amount(plan.load_mb_per_s)
    return f"there is no finite catch-up: a broker takes in {rate} MB/s at most, and {load} MB/s are written to it"


def between(low: float, high: float, unit: str) -> str:
    """Format an interval; name an open bound."""
    if not math.isfinite(high):
        return f"{amount(low)} {unit} or more" if low else "anything"
    return f"{amount(low)} to {amount(high)} {unit}" if low else f"up to {amount(high)} {unit}"


def runs_that_decide(runs: int | None, which: str, made: int) -> str:
    """Return how many runs would decide at the measured spread."""
    if runs is None:
        return f"not even {MOST_RUNS:,} runs {which} would decide at this spread"
    return f"{max(runs, made + 1)} runs {which} would decide if they spread as the {made} that were made"


def spoken(result: CapacityResult) -> Spoken:
    """Return the page's other sentences."""
    if result.plan is None or result.exhaustion is None or result.throttle is None:
        return Spoken(model_check=model_check(result), partitions=partitions(result.partitions))
    return Spoken(
        model_check=model_check(result),
        recommendation=recommendation(result, result.plan),
        bottleneck=bottleneck(result),
        exhaustion=exhaustion(result, result.exhaustion),
        throttle=throttle(result.throttle, result.plan),
        disk=disk(result.plan.disk),
        partitions=partitions(result.partitions),
    )


def _recovery(plan: Plan, question: Question) -> str:
    back_s, target_s, took = plan.longest_down_s.low, question.target_recovery_s, plan.catch_up_s
    if took.estimate is None:
        return f"but {_no_catch_up(plan)}"
    if plan.tried_mb_per_s < plan.peak_mb_per_s:
        return f"but a broker was not seen to catch up above {amount(plan.tried_mb_per_s)} MB/s"
    if back_s is None:
        return f"and recover within {target_s:g} s whenever it comes back"
    if back_s <= 0:
        return f"but are not sure to recover within {target_s:g} s however soon it comes back"
    return f"and recover within {target_s:g} s, but only if it is back within {seconds(back_s)}"


def _instead(result: CapacityResult) -> str:
    advised, question = result.recommendation, result.question
    have, needed, now = question.brokers, advised.brokers, advised.brokers_now
    if advised.verdict == "right" or (advised.verdict == "unknown" and needed is None):
        return ""
    later = f"{amount(result.plan.later_mb_per_s)} MB/s in {question.horizon_months} months" if result.plan else ""
    if needed is None:
        return f"; for {later} {_at_least(advised.at_least)}"
    if needed < have:
        return f"; {needed} would do"
    if now == needed:
        return f"; {needed} do"
    return f"; {needed} are enough" if advised.verdict == "unknown" else f"; {later} take {needed}"


def _at_least(brokers: int | None) -> str:
    if brokers is None:
        return "no number of brokers meets both targets"
    return f"at least {brokers} are needed; these runs do not decide how many are enough"


def recommendation(result: CapacityResult, plan: Plan) -> str:
    """Name the number of brokers, the confidence, and the horizon's need."""
    advised, question = result.recommendation, result.question
    have, needed = question.brokers, advised.brokers
    what = {
        "right": f"Keep {have} brokers",
        "under": f"{have} brokers are too few: plan {needed}" if needed else f"{have} brokers are too few",
        "over": f"{needed} of the {have} brokers would do",
        "unknown": f"These runs do not decide whether {have} brokers are enough"
        + (f"; {needed} are enough" if needed else ""),
    }[advised.verdict]
    later = f"{amount(plan.later_mb_per_s)} MB/s at the peak in {question.horizon_months} months"
    none = f"; {_at_least(advised.at_least)}" if needed is None and advised.verdict == "under" else ""
    return f"{what} for {later}{none}. Confidence: {advised.confidence}."


def model_check(result: CapacityResult) -> str:
    """Count held-out runs within their prediction interval."""
    check = result.model_check
    if not check.of:
        return "The catch-up model was not tested on held-out runs."
    of, bounds = check.of, f"{check.low:.0%} to {check.high:.0%}"
    waiting = f"; {check.planned - of} more were planned" if check.planned > of else ""
    width = f", between whose ends there is a factor of {amount(check.width)} (median)" if check.width else ""
    none = f"; {check.open} of the others have no upper end, which proves nothing" if check.open else ""
    return (
        f"{check.inside} of {of} held-out runs lie inside their own 90 % prediction interval (rate {bounds} at 95 %)"
        f"{width}{none}{waiting}."
    )


def bottleneck(result: CapacityResult) -> str:
    """Name the limiting resource, as far as limits were set."""
    nearest = result.bottleneck
    if nearest is None:
        return "No bottleneck can be named: no limit was set, or the smallest load left the target already."
    name, use = RESOURCES[nearest.resource], f"{100 * (nearest.use or 0):.0f} % of its limit"
    where = f"at {amount(nearest.write_mb_per_s)} MB/s with one broker away"
    if not nearest.reached:
        return f"Latency kept its target at every load that was offered. Nearest to its limit is {name}: {use} {where}."
    if (nearest.use or 0) >= EXPLAINS:
        return f"The bottleneck is {name}: {use} {where}."
    return f"No measured resource explains where latency leaves its target: the nearest is {name}, {use} {where}."


def exhaustion(result: CapacityResult, ends: Exhaustion) -> str:
    """Say when growth exhausts the safe load."""
    growth = result.question.growth_per_month
    if growth[1] <= 0:
        return "The settings have no growth, so the safe load is never exceeded."
    rate = " to ".join(f"{100 * share:.3g} %" for share in dict.fromkeys(growth))
    if ends.first is None:
        return f"Growing by {rate} a month, the load stays safe for a century."
    today = result.created_at[:10]
    if ends.last == today:
        return "The peak load already exceeds the safe load."
    if ends.first == today:
        later = f"; growing by {rate} a month, it does by {ends.last}" if ends.last else ""
        return f"The peak load may already exceed the safe load{later}."
    last = f"between {ends.first} and {ends.last}" if ends.last else f"not before {ends.first}"
    return f"Growing by {rate} a month, the load exceeds the safe load {last}."


def throttle(bounds: Throttle, plan: Plan) -> str:
    """Describe bounds of the replication throttle."""
    rate = plan.rate_mb_per_s.estimate
    least, most = bounds.target, bounds.latency
    progress = f"Below {amount(bounds.progress)} MB/s a throttle never lets the broker catch up"
    if least is None or (rate is not None and least > rate):
        return f"{progress}; the target recovery is out of reach even without one."
    needed = f"the target recovery takes {amount(least)} MB/s"
    if most is None:
        return f"{progress}; {needed}, and the peers can spare any rate."
    if most >= least:
        return f"{progress}; {needed}, and the peers can spare {amount(most)} MB/s by a cautious estimate."
    return (
        f"{progress}; {needed}, but above {amount(most)} MB/s the peers may leave the target latency, by a cautious "
        "estimate: no throttle is sure to meet both."
    )


def disk(found: Disk) -> str:
    """Describe each disk's contents, and when it is full."""
    kept_hours = seconds(3600 * found.kept_hours)
    rule = f"retention by size, which keeps {kept_hours}" if found.by_size else "retention by time"
    kept = f"{amount(found.retained_gb)} GB by {rule}, and up to {amount(found.segments_gb)} GB in unfinished segments"
    others = f"with one away {amount(found.away_gb)} GB"
    rack = "" if found.rack_gb is None else f", with a rack away {amount(found.rack_gb)} GB"
    stored = f"Each broker stores {kept}; {others}{rack}"
    if found.disk_gb is None:
        return f"{stored}. Set disk_gb to see when a disk is full."
    of = f"{stored}, of {amount(found.disk_gb)} GB"
    if found.full_mb_per_s is None:
        return f"{of}. No load fills it, as retention is by size."
    return f"{of}. It is full at {amount(found.full_mb_per_s)} MB/s on average: {_full(found)}."


def _full(found: Disk) -> str:
    if found.needed_gb > (found.disk_gb or 0.0):
        return "already"
    if found.first is None:
        return "not within a century at this growth"
    first, last = found.first[:7], found.last and found.last[:7]
    if last is None:
        return f"not before {first}"
    return f"in {first}" if first == last else f"between {first} and {last}"


def partitions(found: Partitions | None) -> str:
    """Describe the partitions' cost, or that it was not measured."""
    if found is None:
        return ""
    if not found.curve:
        return "No run with another number of partitions can be used."
    fewest, most = found.curve[0], found.curve[-1]
    holds = f"Each broker of the question holds {found.asked:.0f} replicas"
    ran = f"{fewest.partitions:.0f} to {most.partitions:.0f} were run"
    if found.at_asked is None:
        side = "above" if found.asked > most.partitions else "below"
        return f"{holds}, {side} what was measured: {ran}, and their cost is not extrapolated."
    costs = [
        f"{name} {amount(value)} {unit}{_times(value, base)}"
        for name, unit, value, base in (
            ("CPU", "s per MB", found.at_asked.cpu_s_per_mb, fewest.cpu_s_per_mb),
            ("p99", "ms", found.at_asked.p99_ms, fewest.p99_ms),
            ("recovery", "s", found.at_asked.recovery_s, fewest.recovery_s),
        )
        if value is not None
    ]
    beside = f"relative to {fewest.partitions:.0f}" if found.asked > fewest.partitions else "the fewest that were run"
    return f"{holds} ({ran}): {', '.join(costs)}, at {found.write_mb_per_s:g} MB/s; in brackets {beside}."


def _times(value: float, base: float | None) -> str:
    return f" (× {amount(value / base)})" if base else ""


def _compressed(question: Question) -> str:
    if question.compresses_to is None:
        return "not compressed"
    return f"which producers compressed by {question.compression} to about {question.compresses_to:.0%}"


_ONE_HOST = (
    "All brokers shared one host and its page cache. The figures hold against each other and for these resource "
    "limits; on other machines the shape may be trusted, the numbers must be measured again."
)
_OF_OTHERS = (
    "The runs used as many brokers of the cluster as a partition has replicas, next to the load of others, which "
    "nobody held still. No broker's CPU was counted, so the plan has no figure for it."
)
_START = (
    "A broker gets its CPU limit once it is registered, so T0 holds the start of an unhindered JVM; logs were small, "
    "so their recovery after a kill takes longer in production."
)
_START_OF_OTHERS = (
    "T is an upper bound, from what brokers said of the runs' own topics; replicas of others on that broker may take "
    "longer, and slow it down."
)
_TLS = (
    "TLS was on, between brokers as to clients, and its CPU is in every figure; connections were few and long, so the "
    "cost of handshakes is not."
)
_NO_TLS = "TLS was not measured: it adds CPU to every byte, and brokers cannot send pages of the cache unchanged."


def limits(result: CapacityResult) -> Iterator[str]:
    """List the plan's limits."""
    question, runs = result.question, result.runs
    on_others = bool(result.settings["measurement"].get("cluster"))
    yield _OF_OTHERS if on_others else _ONE_HOST
    if runs.first and runs.last:
        first, last = runs.first[:10], runs.last[:10]
        days = f"on {first}" if first == last else f"from {first} to {last}"
        yield f"Measured {days} on {', '.join(runs.kafka)}."
    if question.demand:
        yield (
            f"Load and peak are those of {PurePath(question.demand).name}: {question.demand_weeks} whole weeks. A line "
            "through past weeks does not include planned changes."
        )
    about = f"Records of {question.record_bytes} bytes, {_compressed(question)}"
    yield f"{about}; another size or codec has other costs per MB."
    if not on_others:
        yield _TLS if question.tls else _NO_TLS
    yield (
        "p99 meets its target with one broker away, but not necessarily while that broker catches up: its traffic then "
        "queues with the replication that acknowledgements wait for."
    )
    yield from _limits_of_the_scale(result)
    if result.catch_up.cold_rate is None:
        yield "Catch-up was measured from the page cache; from disk, R differs."
    else:
        yield "The plan assumes that the backlog is in the peers' page cache; R from disk is shown next to it."
    yield _START_OF_OTHERS if on_others else _START
    if result.plan is not None and result.catch_up.balanced_runs == 0:
        yield "Leadership was never seen to be balanced again; recovery here ends when the ISR is full."
    if result.catch_up.rate and result.catch_up.rate.high is None:
        yield "R has no upper bound: the start explains every catch-up time, so the load was too small to show R."


def _limits_of_the_scale(result: CapacityResult) -> Iterator[str]:
    question = result.question
    if result.partitions is None:
        yield "The cost of partitions was not measured: every figure holds for this number on each broker."
    if question.racks:
        yield (
            "Racks are calculated: the measured brokers had no racks, nor a network between racks (its delay, its "
            "price). The plan covers one broker or one rack away, not both."
        )
    else:
        yield "A plan without racks holds with one broker away, not with all that share its power or switch."
    if question.old_reads_share:
        yield (
            f"{question.old_reads_share:.0%} of reads are counted as read from disk, by arithmetic; what they push out "
            "of the page cache for others was not measured."
        )
    elif question.consumer_groups:
        yield "Every group is counted as reading from the page cache; old_reads_share counts those that do not."


def amount(value: float | None) -> str:
    """Format a rate or load; a dash if unknown."""
    return "–" if value is None else f"{float(f'{value:.3g}'):,.10g}"


def seconds(value: float | None) -> str:
    """Format a time in a readable unit."""
    if value is None:
        return "–"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.3g} h"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
