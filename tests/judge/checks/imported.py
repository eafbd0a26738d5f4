"""Import a history and judge it."""

from evidence.run import open_folder
from imports import formats
from imports.run_folder import Settings
from judge.run import judge_run
from tests.imports.histories import write


def folder_of(where, *operations, **settings):
    """Return the run folder of an imported history."""
    file = write(where / "history.jsonl", *operations)
    return formats.import_history([file], "operations", Settings(**settings), where / "runs")


def judged(folder):
    """Return the judge's findings on a run folder."""
    return judge_run(open_folder(folder), lambda judge, asked: [judge(question) for question in asked])


def cases_of(folder):
    """Return the rows of a run's anomalies table."""
    return judged(folder).tables["anomalies"].to_pylist()
