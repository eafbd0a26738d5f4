"""Lines for a person, from the log of ``airflow dags test``."""

from pathlib import Path

from campaigns.campaign import Item
from operators.campaign_progress import CampaignProgress

ITEMS = [
    Item(name=f"pair-1-{side}", scenario="steady", kafka=kafka) for side, kafka in (("a", "3.9.0"), ("b", "3.9.1"))
]
LINE = "[DAG TEST] {} task_id={} map_index={} [airflow.sdk]\n"


def test_each_run_and_how_long_the_rest_takes(tmp_path: Path) -> None:
    """A run by its place, name and version, in the plan's order whichever task Airflow starts first; judging (and how
    far it is), concluding and waiting for the host by a line each; other tasks by none.
    """
    log, said = tmp_path / "airflow.log", []
    progress = CampaignProgress(log, said.append, lambda follow_up: [] if follow_up else ITEMS, lambda _: 60.0)
    lines = [
        *(LINE.format("starting", "plan", -1), LINE.format("starting", "items", -1)),
        *(LINE.format("starting", "record", 1), "[info] recording item pair-1-a [operators.campaign]\n"),
        *(LINE.format("end task", "record", 1), LINE.format("starting", "record", 0)),
        "[info] recording item pair-1-b [operators.campaign]\n",
        "[info] waiting until this host's benchmark has ended [plimsoll.host]\n",
        *(LINE.format("starting", "judge", -1), "judged 1 of 2\n", "judged 2 of 2\n"),
        *(LINE.format(what, "conclude", -1) for what in ("starting", "end task")),
    ]
    log.write_text("".join(lines))

    progress.look()

    assert len(said) == 7
    assert "run 1 of 2: pair-1-a, steady on Kafka 3.9.0 … (all recorded in about 2.0 min)" in said[0]
    assert "run 2 of 2: pair-1-b" in said[1]
    assert said[2].endswith("]   waiting until this host's benchmark has ended\n")
    assert "judging what was recorded" in said[3]
    assert said[5].endswith("]   judged 2 of 2\n")
    assert progress.running == ""


def test_a_run_at_hand_is_known(tmp_path: Path) -> None:
    """An interrupt waits for the run at hand, which removes itself, and for no other."""
    log = tmp_path / "airflow.log"
    progress = CampaignProgress(log, lambda _: None, lambda _: ITEMS, lambda _: 60.0)
    log.write_text(LINE.format("starting", "record", 0))
    progress.look()

    assert progress.running == "record[0]"
    assert progress.torn_down
