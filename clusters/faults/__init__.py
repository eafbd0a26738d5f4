"""Faults: each knows how to inject itself, to verify its effect, to heal, and to verify the recovery.

The proof comes from another observer than the command that injected it: the wire probe and the metadata
of other brokers, never the return code of a signal.
"""

from __future__ import annotations

from typing import Any, Protocol

from clusters.runtimes.nodes import Node

Evidence = dict[str, Any]


class Fault(Protocol):
    """One fault that is active on some brokers.

    ``verify_injected`` and ``verify_cleared`` return the observations that prove it, or raise WaitTimeout.
    """

    @property
    def key(self) -> str: ...

    @property
    def nodes(self) -> list[Node]: ...

    def inject(self) -> None: ...

    def verify_injected(self) -> Evidence: ...

    def heal(self) -> None: ...

    def verify_cleared(self) -> Evidence: ...
