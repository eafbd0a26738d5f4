"""The simulated comparisons: drawn as planned and judged as real ones."""

import math

import numpy as np
import pytest

from campaigns.statistics.effects import detection_rate
from tests.decisions import power


class Still(np.random.Generator):
    """Draws without noise; ``start`` is the side that runs first."""

    def __init__(self, start):
        super().__init__(np.random.PCG64(1))
        self.start = start

    def normal(self, loc=0.0, scale=1.0, size=None):
        return np.zeros(size)

    def integers(self, low, *args, **kwargs):
        return self.start


@pytest.mark.parametrize("start", [0, 1])
def test_a_steady_drift_cancels_out_in_abba_order(start):
    """A steady drift cancels out in ABBA order, whichever side runs first."""
    logs = power.comparison(Still(start), "drifting", 0.05, 0.10)
    step = math.log(1.2) / 19

    assert sum(logs) / 10 == pytest.approx(math.log(1.1))
    assert sorted({round(log - math.log(1.1), 9) for log in logs}) == pytest.approx([-step, step])


def test_a_steady_drift_looks_like_an_effect_where_base_runs_first():
    """A steady drift looks like an effect if base runs first: ten steps of drift separate each pair's runs."""
    logs = power.comparison(Still(0), "drifting", 0.05, 0.0, interleaved=False)

    assert logs == pytest.approx([10 * math.log(1.2) / 19] * 10)


def test_simulation_and_formula_agree():
    """Simulation and formula agree on a slowdown of 10 % under 5 % noise; the same seed draws the same."""
    found = power.verdicts(1, "steady", 0.05, 0.10, simulations=400)
    computed = detection_rate(math.log(1.1), sd=0.05 * math.sqrt(2), pairs=10, margin=0.05)

    assert found.total() == 400
    assert found["regression"] / 400 == pytest.approx(computed, abs=0.03)
    assert found == power.verdicts(1, "steady", 0.05, 0.10, simulations=400)
    assert power.verdicts(1, "steady", 0.05, 0.0, simulations=400)["regression"] < 20


def test_holm_holds_the_error_of_all_primary_metrics_together():
    """Holm's method keeps the error of three primary metrics together at about 5 % of comparisons, not 14 %."""
    assert power.family_false_alarms(1, 0.05, 1e-9, 400) < 40
