"""Inject faults, verify their effect, heal them, and verify the recovery.

Another observer than the injecting command verifies both: the wire probe and other brokers' metadata, never the return
code of a signal.
"""

from __future__ import annotations

from typing import Any, Protocol

from clusters.runtimes.nodes import Node

Evidence = dict[str, Any]


class Fault(Protocol):
    """Define the interface of a fault that is active on some nodes.

    ``verify_injected`` and ``verify_cleared`` return the observations as evidence, or raise WaitTimeout.
    """

    @property
    def key(self) -> str: ...

    @property
    def nodes(self) -> list[Node]: ...

    def inject(self) -> None: ...

    def verify_injected(self) -> Evidence: ...

    def heal(self) -> None: ...

    def verify_cleared(self) -> Evidence: ...
