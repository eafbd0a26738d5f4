"""The kinds of campaigns, each a package beside this module; imported when asked for, as their statistics are heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from campaigns.campaign import Campaign, Item, Kind

Rows = Sequence[Mapping[str, Any]]


class KindOfCampaign(Protocol):
    """What its package offers in ``campaign``; ``rows`` hold one run of each item (``recording.counted``)."""

    def plan(self, settings: Mapping[str, Any], *, campaign_id: str, created_at: str, seed: int) -> Campaign: ...
    def follow_up(self, campaign: Campaign, rows: Rows) -> list[Item]: ...
    def result(self, campaign: Campaign, rows: Rows) -> dict[str, Any]: ...


class PageOfKind(Protocol):
    """What its page's module offers; ``links`` maps run ids to addresses relative to the page."""

    def render(self, result: Mapping[str, Any], links: Mapping[str, str]) -> str: ...


def of(kind: Kind) -> KindOfCampaign:
    """The plan, the reruns and the result of a kind."""
    return cast("KindOfCampaign", import_module(f"campaigns.{kind}.campaign"))


def page_of(kind: Kind) -> PageOfKind:
    """What draws its page."""
    return cast("PageOfKind", import_module(f"reports.{kind}_page"))
