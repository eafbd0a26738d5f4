"""Histories of operations as literal lines."""

import json
from itertools import count


def send(process, kind, *sends, f="send"):
    """One completion of sends (key, value, offset)."""
    mops = [{"op": "send", "key": key, "offset": offset, "value": value} for key, value, offset in sends]
    return {"process": process, "type": kind, "f": f, "mops": mops}


def poll(process, kind, *records, f="poll"):
    """One completion of a poll that returned (key, offset, value); none at all: its records are null."""
    read = [{"key": key, "offset": offset, "value": value} for key, offset, value in records] or None
    return {"process": process, "type": kind, "f": f, "mops": [{"op": "poll", "keys": [], "records": read}]}


def invoked(completion):
    """The invocation of a completion: no offsets, no records."""
    mops = [{**mop, "offset": None} if mop["op"] == "send" else {**mop, "records": None} for mop in completion["mops"]]
    return {**completion, "type": "invoke", "mops": mops}


def write(path, *operations):
    """Operations in order, numbered, a millisecond apart."""
    numbered = ({"index": n, "time": n * 1_000_000, **each} for n, each in zip(count(), operations, strict=False))
    path.write_text("".join(json.dumps(each) + "\n" for each in numbered))
    return path
