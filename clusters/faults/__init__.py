"""Inject faults, verify their effect, heal them, and verify the recovery.

The wire probe or other brokers' metadata verify both, never a signal's return code.
"""

from __future__ import annotations

from typing import Any, Protocol

from clusters.runtimes.nodes import Node

Evidence = dict[str, Any]


class Fault(Protocol):
    """Define a fault; ``verify_*`` return evidence or raise WaitTimeout."""

    @property
    def key(self) -> str: ...

    @property
    def nodes(self) -> list[Node]: ...

    def inject(self) -> None: ...

    def verify_injected(self) -> Evidence: ...

    def heal(self) -> None: ...

    def verify_cleared(self) -> Evidence: ...
