"""Cases in which a copier's output lacks or repeats input records (KIP-98, KIP-447).

Required is input below the copier's committed offset, as the final drain returned it. If input or output need not have
survived, cases are permitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import FINAL, NULL, Ints, positions_in, producer_of, seq_of
from evidence.facts import Input
from evidence.partition import PartitionEvidence
from judge.checks.findings import Cases

_NOT_CLEAN = (
    "an unclean election, or a fault that destroyed the only copy in sync that there was, may have taken committed "
    "records of a copier's input or output"
)
_NOT_SHOWN = "the controller's history, which shows unclean elections, was not recorded"


def cases(of: PartitionEvidence) -> Iterator[Cases]:
    """Yield missing, repeated and unfounded copies."""
    output, source = Output.of(of), _input(of)
    lacking = of.run.profile.lacking("history")
    for found in (lost_output(of, output), duplicate_output(of, output), _phantom_output(of, output)):
        if of.clean and source.clean:
            yield found
        elif lacking:
            yield found._replace(doubt=lambda _: _NOT_SHOWN)
        else:
            yield found._replace(why=lambda _: _NOT_CLEAN)


_FAR = np.iinfo(np.int64).max


class Output(NamedTuple):
    """The drained copies with their offsets."""

    values: Ints
    offsets: Ints

    @classmethod
    def of(cls, of: PartitionEvidence) -> Output:
        own = of.polls.take(
            (of.polls.pass_ == FINAL) & (producer_of(of.polls.value) == of.names.code(_input(of).copier))
        )
        return cls(*np.unique(np.stack([own.value, own.offset]), axis=1))


def _input(of: PartitionEvidence) -> Input:
    if of.input is None:
        raise ValueError("no copier")
    return of.input


def _copies_of(of: PartitionEvidence, offsets: Ints) -> Ints:
    return of.names.value(_input(of).copier, 0) | offsets


def lost_output(of: PartitionEvidence, output: Output) -> Cases:
    """A committed record of a copier's input that the final drain did not find in its output (KIP-98; KIP-447 for a
    group's offsets). Committed in one transaction with the copies. Copies keep the input's order, so a deletion of
    output took those below the remaining ones. Not checked if the output is compacted.
    """
    committed = _input(of).committed
    required = _copies_of(of, of.input_offsets[of.input_offsets < committed])
    drained = of.drain is not None and of.drain.complete and of.kept
    lost = required[positions_in(np.unique(output.values), required) < 0] if drained else required[:0]
    if of.deleted_before:
        lost = lost[lost > output.values.min(initial=_FAR)]

    def example(place: int) -> Mapping[str, Any]:
        number = int(seq_of(lost[place]))
        return {
            "offset": None,
            "explanation": f"The input at offset {number} has no copy; the copier's group has committed {committed}.",
            "evidence": {"input_offset": number, "committed": committed},
        }

    return Cases("lost_output", lost, example)


def duplicate_output(of: PartitionEvidence, output: Output) -> Cases:
    """A committed record of a copier's input that the final drain found more than once in its output (KIP-98, KIP-447).
    Sound: a committed transaction includes the offset after its inputs, an uncommitted one shows no copy. Permitted if
    offsets are committed separately.
    """
    several = _several(output)

    def example(place: int) -> Mapping[str, Any]:
        number, where = int(seq_of(several[place])), output.offsets[output.values == several[place]].tolist()
        return {
            "offset": where[1],
            "explanation": f"The input at offset {number} has copies at offsets {', '.join(map(str, where))}.",
            "evidence": {"input_offset": number, "offsets": where},
        }

    return Cases("duplicate_output", several, example, shown_ns=_shown_ns(of, _second(several, output)))


def repeated(of: PartitionEvidence) -> Ints:
    """Return the offsets of second copies."""
    if of.input is None:
        return np.empty(0, dtype=np.int64)
    output = Output.of(of)
    return _second(_several(output), output)


def _several(output: Output) -> Ints:
    found, copies = np.unique(output.values, return_counts=True)
    return found[copies > 1]


def _second(values: Ints, output: Output) -> Ints:
    offsets: Ints = output.offsets[np.searchsorted(output.values, values) + 1]
    return offsets


def _shown_ns(of: PartitionEvidence, offsets: Ints) -> Ints:
    """Return when a live reader or an HW first showed each offset; ``NULL``: only the drain did."""
    live = of.polls.take(of.polls.pass_ != FINAL)
    shown_at = np.concatenate([live.offset, of.samples.hw - 1])
    shown_ns = np.concatenate([live.received_ns, of.samples.received_ns])
    order = np.argsort(shown_at, kind="stable")
    first_ns = np.append(np.minimum.accumulate(shown_ns[order][::-1])[::-1], NULL)  # at this offset or above
    found: Ints = first_ns[np.searchsorted(shown_at[order], offsets)]
    return found


def _phantom_output(of: PartitionEvidence, output: Output) -> Cases:
    """Return copies of an input offset without a committed record.

    Not checked for compacted or deleted input, or if the drain did not reach its end.
    """
    copies, source = np.unique(output.values), _input(of)
    known = source.whole and source.kept
    wrong = copies[positions_in(np.sort(_copies_of(of, of.input_offsets)), copies) < 0] if known else copies[:0]
    wrong = wrong[seq_of(wrong) >= source.deleted_before]

    def example(place: int) -> Mapping[str, Any]:
        number, where = int(seq_of(wrong[place])), int(output.offsets[output.values == wrong[place]][0])
        return {
            "offset": where,
            "explanation": f"The copy at offset {where} is of the input at offset {number}, which holds no committed "
            "record.",
            "evidence": {"input_offset": number},
        }

    return Cases("phantom_record", wrong, example)
