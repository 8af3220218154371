"""Every published number, per learner, protocol, and with or without words."""

from __future__ import annotations

import pytest

from ipl.learners.hyperparameters import PROTOCOLS, Hyperparameters
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError

BASE, CROSS = PROTOCOLS
# epochs T, interval t, batch, lr, m, depth, mean and std of the average over epochs
TABLE = {
    ("coop", BASE, 0): (200, 10, 32, 0.002, 4),
    ("coop", CROSS, 0): (50, 10, 32, 0.002, 4),
    ("coop", BASE, 3): (100, 10, 32, 0.002, 2),
    ("coop", CROSS, 3): (100, 10, 32, 0.002, 2),
    **{("cocoop", each, words): (10, 1, 1, 0.002, 4) for each in PROTOCOLS for words in (0, 3)},
    **{("kgcoop", each, words): (100, 10, 128, 0.002, 4) for each in PROTOCOLS for words in (0, 3)},
    **{("maple", BASE, words): (5, 1, 4, 0.0035, 2, 9) for words in (0, 3)},
    **{("maple", CROSS, words): (2, 1, 4, 0.0026, 2, 3) for words in (0, 2)},
    **{("promptsrc", BASE, words): (20, 1, 4, 0.0025, 4, 9, 15.0, 1.0) for words in (0, 3)},
    **{("promptsrc", CROSS, words): (20, 1, 4, 0.0025, 4, 3, 6.0, 10.0) for words in (0, 3)},
}


@pytest.mark.parametrize(("name", "protocol", "words"), TABLE)
def test_the_published_numbers(name: str, protocol: str, words: int) -> None:
    found = learner_class(name).hyperparameters(words, protocol)
    assert found == Hyperparameters(*TABLE[name, protocol, words])
    assert words * found.interval <= found.epochs  # k * t <= T


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, 0) for field in ("epochs", "interval", "batch", "m", "depth", "lr")]
    + [(field, value) for field in ("lr", "average_std") for value in (float("nan"), float("inf"))],
)
def test_numbers_out_of_range(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}"):
        learner_class("promptsrc").hyperparameters(0).override(**{field: value})


def test_words_enter_at_0_t_2t() -> None:
    hyperparameters = Hyperparameters(epochs=100, interval=10, batch=4, lr=0.1, m=2)
    assert hyperparameters.word_epochs(3) == (0, 10, 20)
    assert hyperparameters.override(epochs=5, lr=None).word_epochs(0) == ()
    assert hyperparameters.override(epochs=6, interval=3).word_epochs(2) == (0, 3)
    with pytest.raises(ConfigError, match=r"k = 3.*t = 10.*30.*T = 20"):
        hyperparameters.override(epochs=20).word_epochs(3)
