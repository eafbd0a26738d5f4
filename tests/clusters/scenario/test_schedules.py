"""Random schedules: for any seed, a valid scenario in which every fault is healed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.runtimes import capabilities
from clusters.scenario.scenario import Phase, parse_scenario
from clusters.scenario.schedules import FaultMix, as_yaml, kernel_parts, possible, randomised_schedule, read_fault_mix
from clusters.scenario.shrink import is_sound
from clusters.scenario.steps.flow import Heal, Hold, Wait, Write
from history.errors import BadInput

FAULT_MIX = read_fault_mix()
SMALL: dict[str, Any] = {
    "cluster": {"brokers": 2},
    "topics": {"orders": {"replicas": ["A", "B"]}},
    "quiet": "2s..3s",
    "faults": {"pause": {"who": ["A"], "steps": [{"pause": "$who"}, "$during", {"hold": "1s..4s"}]}},
    "during": [{"write": {"to": "B", "topic": "orders", "records": "5..9"}}],
}


def is_quiet(phase: Phase) -> bool:
    """Return whether a phase has no fault and ends with a hold."""
    return isinstance(phase.steps[-1], Hold) and not any(step.fault for step in phase.steps)


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 240), st.booleans())
def test_every_seed_makes_an_ordinary_scenario(seed: int, length_s: int, load: bool) -> None:
    """A schedule can be written as a scenario file and read back, and depends only on the seed."""
    made = randomised_schedule(FAULT_MIX, seed=seed, length_s=length_s, load=load)

    assert parse_scenario(as_yaml(made), "x.yaml").digest == made.digest
    assert (made.load is not None) == load
    assert randomised_schedule(FAULT_MIX, seed=seed, length_s=length_s, load=load) == made


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 240))
def test_every_fault_is_healed_and_followed_by_quiet(seed: int, length_s: int) -> None:
    """Faults and quiet phases alternate; each fault is healed, followed by a wait for the full ISR."""
    made = randomised_schedule(FAULT_MIX, seed=seed, length_s=length_s)

    assert [is_quiet(phase) for phase in made.phases] == [number % 2 == 0 for number in range(len(made.phases))]
    assert is_sound(made)
    for phase in made.phases[1::2]:
        assert any(step.fault for step in phase.steps)
        *_, healed, whole = phase.steps
        assert isinstance(healed, Heal)
        assert isinstance(whole, Wait)
        assert whole.condition.isr_full == "orders"
    for phase in made.phases[::2]:
        (hold,) = phase.steps
        assert isinstance(hold, Hold)
        assert 6 <= hold.seconds <= 12


def test_a_schedule_without_load_writes_something_first() -> None:
    """Without a load, a schedule writes records first and, if the fault mix allows, during faults."""
    at_rest = FaultMix.model_validate({**SMALL, "first": [{"write": {"to": "A", "topic": "orders", "records": 3}}]})
    loaded = at_rest.model_copy(update={"load": {"topic": "orders"}})

    for seed in range(20):
        first, fault, *_ = randomised_schedule(at_rest, seed=seed, length_s=4).phases
        assert [step.key for step in first.steps] == ["write", "hold"]
        assert "write" in {step.key for step in fault.steps}
        assert [step.key for step in randomised_schedule(loaded, seed=seed, length_s=4).phases[0].steps] == ["hold"]


def test_a_schedule_without_load_has_no_fault_that_only_a_load_shows() -> None:
    """Without a load, faults that only affect a load are not drawn; a mix of such faults alone is rejected."""
    of_load = {"lag", "limit_bandwidth", "limit_cpu"}
    drawn = {
        load: {
            step.key
            for seed in range(30)
            for p in randomised_schedule(FAULT_MIX, seed=seed, length_s=200, load=load).phases
            for step in p.steps
        }
        for load in (True, False)
    }

    assert drawn[True] >= of_load | {"lose"}
    assert not drawn[False] & of_load
    assert "lose" in drawn[False]
    lags = FAULT_MIX.model_copy(update={"faults": {"x": FAULT_MIX.faults["a follower lags"]}})
    with pytest.raises(BadInput, match=r"Without a load no fault of the mix would show \(x\)"):
        randomised_schedule(lags, seed=1, length_s=4, load=False)


def test_the_length_is_about_what_was_asked() -> None:
    """A schedule ends with the first quiet phase beyond the wanted length."""
    lengths = [
        sum(step.seconds for phase in made.phases for step in phase.steps if isinstance(step, Hold))
        + 8 * (len(made.phases) // 2)
        for made in (randomised_schedule(FAULT_MIX, seed=seed, length_s=300) for seed in range(20))
    ]

    assert all(300 <= length < 360 for length in lengths)


def test_another_seed_is_another_schedule() -> None:
    """Different seeds give different schedules."""
    assert len({randomised_schedule(FAULT_MIX, seed=seed, length_s=120).digest for seed in range(20)}) == 20


def test_gaps_are_filled_from_the_mix() -> None:
    """Placeholders are filled from the mix: one ``who``, up to two of ``during``, and spans within their bounds."""
    mix = FaultMix.model_validate({**SMALL, "load": {"topic": "orders"}})
    seen: set[int] = set()
    for seed in range(30):
        pause, *writes, hold, _, _ = randomised_schedule(mix, seed=seed, length_s=4).phases[1].steps
        assert str(pause) == "pause node A"
        assert isinstance(hold, Hold)
        assert 1 <= hold.seconds <= 4
        assert all(isinstance(write, Write) and 5 <= write.records <= 9 for write in writes)
        seen.add(len(writes))

    assert seen == {0, 1, 2}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"faults": {}}, "is not a fault mix: faults"),
        ({"moods": 1}, "unknown field 'moods'; known: cluster, topics, load, at_rest, quiet, first, faults, during"),
    ],
)
def test_what_is_no_fault_mix_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    """An invalid fault mix is rejected with the file and the first error."""
    file = tmp_path / "fault mix.yaml"
    file.write_text(str({**SMALL, **change}))

    with pytest.raises(BadInput, match=sentence):
        read_fault_mix(file)


def test_a_fault_mix_of_unknown_steps_makes_no_scenario() -> None:
    """A fault mix with an unknown step is rejected when the schedule is drawn, before anything starts."""
    mix = FaultMix.model_validate({**SMALL, "faults": {"x": {"who": ["A"], "steps": [{"explode": "$who"}]}}})

    with pytest.raises(BadInput, match=r"The fault mix makes no scenario: .*unknown step 'explode'"):
        randomised_schedule(mix, seed=1, length_s=4)


def test_what_a_runtime_cannot_do_is_not_drawn() -> None:
    """Faults that the runtime cannot inject are not drawn; a mix without any possible fault is rejected."""
    local = possible(FAULT_MIX, capabilities("process"))

    assert FAULT_MIX.faults.keys() - local.faults.keys() >= {"the leader is cut off", "packets are lost"}
    assert possible(FAULT_MIX, capabilities("docker")) == FAULT_MIX
    for seed in range(20):
        assert randomised_schedule(local, seed=seed, length_s=200).needs <= capabilities("process")
    with pytest.raises(BadInput, match="This runtime and kernel support no fault of the mix"):
        possible(
            FAULT_MIX.model_copy(update={"faults": {"x": FAULT_MIX.faults["packets are lost"]}}),
            capabilities("process"),
        )


def test_what_the_kernel_lacks_is_not_drawn() -> None:
    """Faults and ``during`` steps that the kernel lacks are not drawn; others stay."""
    can = capabilities("docker")
    mix = FAULT_MIX.model_copy(update={"during": [*FAULT_MIX.during, {"lose": {"into": "A", "percent": 5}}]})
    left = possible(mix, can, lacking={"xt_statistic", "cfs_bandwidth"})

    assert FAULT_MIX.faults.keys() - left.faults.keys() == {"packets are lost", "a broker has little CPU"}
    assert left.during == FAULT_MIX.during
    assert kernel_parts(left) == {"iptables", "htb", "tbf"}


def test_a_fault_mix_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A fault mix that does not exist or is no YAML is rejected."""
    with pytest.raises(BadInput, match="cannot be read"):
        read_fault_mix(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("faults: [")
    with pytest.raises(BadInput, match="is no YAML"):
        read_fault_mix(tmp_path / "bad.yaml")


def test_the_fault_mix_that_the_pages_show_is_one() -> None:
    """The documentation's fault mix makes a schedule without a load."""
    mix = read_fault_mix(Path(__file__).resolve().parents[3] / "docs" / "examples" / "fault_mixes" / "at_rest.yaml")

    assert randomised_schedule(mix, seed=1, length_s=60).name == "randomised_1_at_rest"


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        ("quiet", "soon", "not a duration"),
        ("quiet", "12s..6s", "the smaller end comes first"),
        ("quiet", "6s..12", "both ends need a unit"),
        ("during", [{"hold": []}], "not a duration"),
        ("faults", {"a": {"steps": [{"hold": "9..1"}]}}, "the smaller end comes first"),
        ("faults", {"a": {"steps": [5]}}, "a step is one key"),
    ],
)
def test_a_fault_mix_that_makes_no_scenario_is_refused(place: str, value: object, why: str) -> None:
    """Fault mixes with invalid spans, durations or steps are rejected when a schedule is drawn."""
    told = read_fault_mix().model_dump() | {"faults": {"a": {"steps": [{"hold": "1s"}, "$during"]}}}
    mix = FaultMix.model_validate(told | {place: value})

    with pytest.raises(BadInput, match=f"^The fault mix makes no scenario: .*{why}"):
        [randomised_schedule(mix, seed=seed, length_s=100) for seed in range(6)]
