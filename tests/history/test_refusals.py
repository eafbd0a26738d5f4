"""What a model refused, in words."""

from __future__ import annotations

from pydantic import BaseModel

from history.refusals import nearest_key


class Part(BaseModel):
    """A nested model."""

    margin: float = 0.0


class Whole(BaseModel):
    """A model with nested ones."""

    base: str = ""
    one: Part | None = None
    many: list[Part] = []
    named: dict[str, Part] = {}


def test_the_nearest_key_is_one_of_the_same_model() -> None:
    """A key of another model is not near, whatever it is called."""
    assert nearest_key(Whole, ("Base",)) == "base"
    assert nearest_key(Whole, ("one", "margins")) == "margin"
    assert nearest_key(Whole, ("many", 0, "margn")) == "margin"
    assert nearest_key(Whole, ("named", "p99", "Margin")) == "margin"
    assert nearest_key(Whole, ("margin",)) == ""
    assert nearest_key(Whole, ("one", "base")) == ""


def test_a_key_is_near_by_the_name_that_users_know() -> None:
    """They write from for base; the name of the code is then no setting of theirs."""

    def name(key: str) -> str:
        return "from" if key == "base" else key

    assert nearest_key(Whole, ("From",), name) == "from"
    assert nearest_key(Whole, ("Base",), name) == ""
