"""Faults: each knows how to inject itself, to show that it bit, to heal, and to show that it is gone.

The proof comes from another observer than the command that injected it: the wire probe and the metadata
of other brokers, never the return code of a signal.
"""

from __future__ import annotations

from typing import Any, Protocol

from clusters.runtimes.nodes import Node

Evidence = dict[str, Any]


class Fault(Protocol):
    """One fault in force on some brokers.

    ``bit`` and ``gone`` return the observations that prove it, or raise WaitTimeout when they could not see it.
    """

    @property
    def key(self) -> str: ...

    @property
    def nodes(self) -> list[Node]: ...

    def inject(self) -> None: ...

    def bit(self) -> Evidence: ...

    def heal(self) -> None: ...

    def gone(self) -> Evidence: ...
