"""What every campaign's result has, and how it is written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from history.errors import EvidenceError
from history.folder import write_atomically
from history.refusals import first_wrong

State = Literal["", "pass", "fail", "unknown"]  # of a campaign; the empty one judges nothing
Verdict = Literal["pass", "fail", "unknown"]  # of a run


class Model(BaseModel):
    """A part of a result; it never changes once built."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=False)


class Summary(Model):
    """What every result says: which campaign, when it was planned (ISO 8601), and what came of it.

    ``lines`` are what the command prints beside the sentence.
    """

    model_config = ConfigDict(extra="ignore")

    campaign_id: str
    created_at: str
    state: State
    sentence: str
    lines: list[str] = Field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write it for machines."""
        write_atomically(path, self.model_dump_json(indent=1) + "\n")

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
