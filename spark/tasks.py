"""Judge units of work in Spark's Python workers.

Spark retries a task that raises; what another try cannot change is an answer.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from evidence.facts import PartitionFacts
from history.errors import EvidenceError
from history.remote import AnyPath, may_pass

UNITS = pa.schema({"number": pa.int32(), "share": pa.int32(), "facts": pa.binary()})
ANSWERS = pa.schema({"number": pa.int32(), "answer": pa.binary()})
Judge = Callable[[PartitionFacts], Any]


def answers(folder: AnyPath, judge: Judge, units: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Judge pickled facts; yield one pickled answer a batch, so that a task holds one at a time."""
    for batch in units:
        for number, facts in zip(batch["number"], batch["facts"], strict=True):
            answer = pickle.dumps(_answer(folder, judge, pickle.loads(facts.as_buffer())))  # of our own driver
            yield pa.record_batch([[number.as_py()], [answer]], schema=ANSWERS)


def _answer(folder: AnyPath, judge: Judge, facts: PartitionFacts) -> Any:
    try:
        return judge(facts)
    except EvidenceError as error:
        return error
    except MemoryError:
        raise MemoryError(
            f"A Python worker had too little memory to judge {facts.where} ({facts.size / 1e6:,.0f} MB)."
        ) from None
    except (pa.ArrowException, OSError) as error:
        what = " ".join(str(error).split())[:300]
        told = f"The recorded tables could not be read to the end of {facts.where}: {what}"
        if may_pass(error, folder):
            raise OSError(told) from error
        return EvidenceError(told)
