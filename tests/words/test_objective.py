"""The gain of a word: one formula for the search, the report and the workbench."""

from __future__ import annotations

import numpy as np

from ipl.words.objective import Objective


def test_gain_is_utility_less_lambda_times_redundancy() -> None:
    assert Objective(0.5).gain(2.0, 3.0) == 0.5
    assert Objective(0.0).gain(2.0, 3.0) == 2.0
    gains = Objective(0.5).gain(np.array([2.0, 1.0]), np.array([3.0, -1.0]))
    assert gains.tolist() == [0.5, 1.5]
