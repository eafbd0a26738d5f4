"""The common part of campaign results."""

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

State = Literal["", Verdict]  # empty: judges nothing


class Model(BaseModel):
    """An immutable part of a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Summary(Model):
    """Fields of every result; the command prints ``lines``.

    ``plimsoll`` concluded it; ``judges`` are digests.
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
        return self.created_at[:16].replace("T", " ")

    def cases(self) -> Sequence[Case]:
        return ()

    def report(self, title: str, at: datetime) -> Report:
        return Report(f"{title} {self.campaign_id}", self.state or "pass", self.sentence, at, self.cases())

    def write(self, path: Path) -> None:
        content = {**json.loads(self.model_dump_json()), "cases": [asdict(case) for case in self.cases()]}
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise EvidenceError(
                f"{path} is no result of this format: {first_wrong(error)}. Conclude the campaign again to rewrite it."
            ) from error
