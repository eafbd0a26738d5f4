"""Damage to transactions."""

from __future__ import annotations

from tests.mutations.kind import kind, middle, of_life, place_of, value_of
from tests.mutations.recording import Recording, Row


def _committed(run: Recording) -> list[Row]:
    number = run.choose(middle(sorted({row["transaction"] for row in run.acked() if row["transaction"] is not None})))
    return [row for row in run.acked() if row["transaction"] == number]


@kind("torn_transaction", scenario="transactions")
def transaction_read_in_part(run: Recording) -> str:
    """No reader returned one record of a committed transaction; the others were read."""
    victim = run.choose(_committed(run))
    run.put("polls", [row for row in run.rows("polls") if value_of(row) != value_of(victim)])
    return f"transaction {victim['transaction']}"


@kind("aborted_read", scenario="transactions")
def aborted_transaction_read(run: Recording) -> str:
    """Readers received a transaction that its producer reports as aborted."""
    chosen = _committed(run)
    for row in chosen:
        row |= {"outcome": "fail", "error": "aborted"}
    run.put("sends", run.rows("sends"))
    return f"transaction {chosen[0]['transaction']}"


@kind("I27", scenario="transactions")
def aborted_transaction_committed_in_logs(run: Recording) -> str:
    """The logs end an aborted transaction, which was never read, with a commit."""
    chosen = _committed(run)
    values = {value_of(row) for row in chosen}
    for row in chosen:
        row |= {"outcome": "fail", "error": "aborted"}
    run.put("sends", run.rows("sends"))
    run.put("polls", [row for row in run.rows("polls") if value_of(row) not in values])
    return f"transaction {chosen[0]['transaction']}"


@kind("I26", scenario="transactions")
def stable_offset_above_high_watermark(run: Recording) -> str:
    """A leader's last stable offset was above the next high watermark that it showed."""
    sample = run.first(
        run.of_leader(), lambda row: any(row["received_ns"] <= later["sent_ns"] for later in of_life(run, row))
    )
    sample["last_stable_offset"] = sample["high_watermark"] + 5000
    run.put("replicas", run.rows("replicas"))
    return place_of(sample)
