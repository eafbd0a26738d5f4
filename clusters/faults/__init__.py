"""Inject faults, verify their effect, heal them, and verify the recovery.

The wire probe or other brokers' metadata verify both, never a signal's return code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from clusters.runtimes.nodes import Node
from clusters.scenario.steps.catalog import STEPS
from history.traits import Trait

Evidence = dict[str, Any]


class Fault(ABC):
    """Define a fault; ``verify_*`` return evidence or raise WaitTimeout."""

    ends_nodes: ClassVar[Literal["inject", "heal"] | None] = None  # what ends its nodes' processes
    healed_last: ClassVar[bool] = False
    throttles_fetches: ClassVar[bool] = False  # of its nodes; one fault at a time can

    @property
    def is_of_owner(self) -> bool:
        """Return whether the cluster's owner injected it, so that others are not protected from it."""
        return False

    if TYPE_CHECKING:  # a field or a property of each fault

        @property
        def key(self) -> str: ...

        @property
        def nodes(self) -> list[Node]: ...

    @abstractmethod
    def inject(self) -> None: ...

    @abstractmethod
    def verify_injected(self) -> Evidence: ...

    @abstractmethod
    def heal(self) -> None: ...

    @abstractmethod
    def verify_cleared(self) -> Evidence: ...

    def note_ended(self, nodes: list[Node]) -> None:  # noqa: B027
        """React to nodes that another fault ended."""

    def note_started(self) -> None:  # noqa: B027
        """React to nodes that another fault started again."""

    def hinders(self, _ended: list[Node]) -> bool:
        """Return whether ended nodes could not come back while this fault is active."""
        return Trait.BETWEEN_NODES in STEPS[self.key].traits
