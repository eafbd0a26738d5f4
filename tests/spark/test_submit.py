"""What the judge refuses before it starts Spark."""

import pytest

from history.errors import BadInput
from spark.submit import judge


def test_what_is_no_run_folder_is_bad_input(tmp_path):
    """A folder without a manifest and a seal, and no folder at all."""
    with pytest.raises(BadInput, match="is no run folder"):
        judge([tmp_path])
    with pytest.raises(BadInput, match="plimsoll judge runs/"):
        judge([])
