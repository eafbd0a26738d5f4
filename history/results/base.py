"""What every campaign's result has, and how it is written and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from history.errors import EvidenceError
from history.exit_codes import Verdict
from history.folder import write_atomically
from history.refusals import first_wrong
from history.results.cases import Case, Report

State = Literal["", Verdict]  # of a campaign; the empty one judges nothing


class Model(BaseModel):
    """A part of a result; it never changes once built."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=False)


class Summary(Model):
    """What every result says: which campaign, when it was planned (ISO 8601), and what came of it.

    ``lines`` are what the command prints beside the sentence. ``plimsoll`` names the version, commit and source that
    concluded the campaign, ``judges`` the digests of the judges whose verdicts it rests on (``history.product``).
    """

    model_config = ConfigDict(extra="ignore")

    campaign_id: str
    created_at: str
    state: State
    sentence: str
    lines: list[str] = Field(default_factory=list)
    plimsoll: str = ""
    judges: list[str] = Field(default_factory=list)

    @property
    def planned(self) -> str:
        """When, to the minute, as pages say it."""
        return self.created_at[:16].replace("T", " ")

    def cases(self) -> Sequence[Case]:
        """What the state rests on, case by case; a kind of result that has parts says which."""
        return ()

    def report(self, title: str, at: datetime) -> Report:
        """The same for a CI system, with the name of the campaign."""
        return Report(f"{title} {self.campaign_id}", self.state or "pass", self.sentence, at, self.cases())

    def write(self, path: Path) -> None:
        """Write it for machines, with its cases."""
        content = {**json.loads(self.model_dump_json()), "cases": [asdict(case) for case in self.cases()]}
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """A result that was written.

        Raises:
            EvidenceError: it is none of this format.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise EvidenceError(
                f"{path} is no result of this format: {first_wrong(error)}. Conclude the campaign again to rewrite it."
            ) from error
