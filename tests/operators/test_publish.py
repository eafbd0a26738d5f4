"""The step that makes the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns import site
from operators.publish import Publish


def test_the_page_is_made_of_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The run's path goes in, the page's path comes out, as text."""
    monkeypatch.setattr(site, "publish", lambda run: run / "report" / "index.html")
    step = Publish(task_id="publish", run="{{ params.where }}")
    step.render_template_fields({"params": {"where": str(tmp_path)}})

    assert step.execute({"params": {"judge": True}}) == str(tmp_path / "report" / "index.html")
    assert step.execute({"params": {"judge": False}}) is None
