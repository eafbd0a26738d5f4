"""Test exploring: series that continue, plans that shrink, and commands that repeat an answer."""

import json

from tests.model import explore
from tests.model.cluster import Plan
from tests.model.plans import plan_of
from tests.rows import read

PLAN = Plan((("write", 0, 1), ("kill", 0, 0), ("write", 1, 2), ("wait", 0, 1)), readers=3, damages=(("snapshot", 1),))


def test_a_plan_gets_as_small_as_it_can_while_it_fails():
    """It fails as long as a broker is killed before a write."""

    def fails(plan):
        verbs = [verb for verb, _, _ in plan.steps]
        return "kill" in verbs and "write" in verbs[verbs.index("kill") :]

    assert explore.shrunk(PLAN, fails) == Plan((("kill", 0, 0), ("write", 1, 2)))
    assert explore.shrunk(PLAN, lambda plan: plan == PLAN) == PLAN


def test_a_plan_is_printed_as_what_it_is():
    """For use in a test."""
    for plan in (PLAN, plan_of(3), plan_of(4)):
        assert eval(explore.literal(plan), {"Plan": Plan}) == plan


def test_wrong_answers_of_one_kind_differ_in_their_numbers_only():
    """Each kind is then shrunk only once."""
    one, other = (explore.kind_of([f"gone in partition {n}: [('one-0', {n})], not []"]) for n in (1, 23))

    assert one == other != explore.kind_of(["not reported: I3"])


def test_a_series_goes_on_where_it_ended(tmp_path, monkeypatch, capsys):
    """A row has a first seed, a generator and a judge; another first seed is another row."""
    seen, file = [], tmp_path / "rows.json"
    monkeypatch.setattr(
        explore, "answer", lambda seed: (seen.append(seed) or "pass", ["not reported: I3"] * (seed == 6))
    )
    monkeypatch.setattr(explore, "SHRINK_S", 0)
    ticks = iter(range(1000))
    monkeypatch.setattr(explore.time, "monotonic", lambda: next(ticks))
    for first in (5, 5, 9):
        explore.main(["--from-seed", str(first), "--minutes", "0.1", "--results", str(file)])
    rows = read(file)

    assert [(row["first_seed"], row["next_seed"], row["histories"]) for row in rows] == [
        (5, 5 + rows[0]["histories"], rows[0]["histories"]),
        (9, 9 + rows[1]["histories"], rows[1]["histories"]),
    ]
    assert seen == [*range(5, rows[0]["next_seed"]), *range(9, rows[1]["next_seed"])]
    assert rows[0]["failing"] == [{"seed": 6, "kind": "not reported: I#"}]
    assert explore.command(6) in capsys.readouterr().out
    assert json.loads(file.read_text()) == rows
