"""What counts as seen."""

import json

import pytest

from tests.mutations import mutate
from tests.mutations.kinds import KINDS
from tests.mutations.mutate import RESULTS, UNDAMAGED, seen, upper_bound

BY_NAME = {kind.name: kind for kind in KINDS}


def verdict(said, *reasons):
    """The part of a verdict that is looked at."""
    return {"verdict": said, "reasons": list(reasons)}


@pytest.mark.parametrize(
    ("kind", "said", "reported", "is_seen"),
    [
        ("acknowledged_record_lost", verdict("fail"), ["lost_write", "I15"], True),
        ("acknowledged_record_lost", verdict("fail"), ["I15"], False),
        ("no_probe", verdict("unknown", "The replica was never seen by the probe"), [], True),
        ("no_probe", verdict("unknown", "The run was never collected to the end."), [], False),
        ("no_probe", verdict("pass", "the probe"), [], False),
        ("no_probe", verdict("fail", "1 x lost_write", "the probe"), ["lost_write"], False),
        ("drain_stopped_early", verdict("unknown", "The drain stopped at 5"), ["undrained"], True),
        ("drain_stopped_early", verdict("unknown", "The drain stopped at 5"), [], False),
    ],
)
def test_damage_is_seen_by_its_own_name(kind, said, reported, is_seen):
    """Another finding, another reason, or a pass is not enough."""
    assert seen(BY_NAME[kind], said, reported) is is_seen


def test_a_clean_copy_must_pass_with_nothing_reported():
    """A finding without damage is a false alarm, whatever the verdict."""
    assert seen(UNDAMAGED[0], verdict("pass"), [])
    assert not seen(UNDAMAGED[0], verdict("pass"), ["duplicate"])
    assert not seen(UNDAMAGED[0], verdict("unknown"), [])


def test_no_alarm_in_thirty_runs_is_at_most_one_in_ten():
    """The exact one-sided bound, which falls with the number of runs."""
    assert upper_bound(0, 30) == pytest.approx(0.095, abs=0.001)
    assert upper_bound(0, 60) < upper_bound(0, 30) < upper_bound(1, 30)
    assert upper_bound(3, 3) == 1.0


@pytest.mark.parametrize(
    ("options", "scenarios"),
    [
        (["--add"], ["survived_faults"]),
        ([], ["survived_faults", "transactions", "exactly_once", "group_members", "share_group"]),
    ],
)
def test_what_is_counted_is_judged_again_unless_new_rows_are_added(tmp_path, monkeypatch, options, scenarios):
    """With ``--add`` no clean run is recorded of a scenario whose kinds are all counted."""
    rows = [row for row in json.loads(RESULTS.read_text()) if row["kind"] != "no_probe"]
    recorded, judged = [], []
    for name in ("RESULTS", "SO_FAR"):
        monkeypatch.setattr(mutate, name, tmp_path / name)
    (tmp_path / "RESULTS").write_text(json.dumps(rows))
    monkeypatch.setattr(mutate, "clean_runs", lambda name: recorded.append(name) or iter([tmp_path]))
    monkeypatch.setattr(mutate, "_version", lambda run: "4.3.0")

    def judged_batch(planned):
        judged.extend(planned)
        return [
            {"kind": kind.name, "kafka": "4.3.0", "place": place, "seen": True, "verdict": "unknown"}
            for kind, _, place in planned
        ]

    monkeypatch.setattr(mutate, "judged_batch", judged_batch)

    assert mutate.main(options) == 0
    assert recorded == scenarios
    counted = json.loads((tmp_path / "RESULTS").read_text())
    kept = [] if len(scenarios) > 1 else rows
    assert (counted[: len(kept)], len(counted)) == (kept, len(kept) + len(judged))
    assert ("no_probe", "4.3.0") in {(row["kind"], row["kafka"]) for row in counted}
    assert len({(row["kind"], row["kafka"], row["place"]) for row in counted}) == len(counted)
