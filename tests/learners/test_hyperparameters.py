"""Every published number, per learner, protocol, and with or without words."""

from __future__ import annotations

import pytest

from ipl.learners.hyperparameters import PROTOCOLS, Hyperparameters
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError

BASE, CROSS = "base-to-novel", "cross-dataset"
# epochs T, interval t, batch, lr, m, depth, mean and std of the average over epochs
TABLE = [
    ("coop", BASE, 0, 200, 10, 32, 0.002, 4, 1, None, None),
    ("coop", BASE, 3, 100, 10, 32, 0.002, 2, 1, None, None),
    ("coop", CROSS, 0, 50, 10, 32, 0.002, 4, 1, None, None),
    ("coop", CROSS, 3, 100, 10, 32, 0.002, 2, 1, None, None),
    ("cocoop", BASE, 0, 10, 1, 1, 0.002, 4, 1, None, None),
    ("cocoop", BASE, 3, 10, 1, 1, 0.002, 4, 1, None, None),
    ("cocoop", CROSS, 0, 10, 1, 1, 0.002, 4, 1, None, None),
    ("cocoop", CROSS, 3, 10, 1, 1, 0.002, 4, 1, None, None),
    ("kgcoop", BASE, 0, 100, 10, 128, 0.002, 4, 1, None, None),
    ("kgcoop", BASE, 3, 100, 10, 128, 0.002, 4, 1, None, None),
    ("kgcoop", CROSS, 0, 100, 10, 128, 0.002, 4, 1, None, None),
    ("kgcoop", CROSS, 3, 100, 10, 128, 0.002, 4, 1, None, None),
    ("maple", BASE, 0, 5, 1, 4, 0.0035, 2, 9, None, None),
    ("maple", BASE, 3, 5, 1, 4, 0.0035, 2, 9, None, None),
    ("maple", CROSS, 0, 2, 1, 4, 0.0026, 2, 3, None, None),
    ("maple", CROSS, 2, 2, 1, 4, 0.0026, 2, 3, None, None),
    ("promptsrc", BASE, 0, 20, 1, 4, 0.0025, 4, 9, 15, 1),
    ("promptsrc", BASE, 3, 20, 1, 4, 0.0025, 4, 9, 15, 1),
    ("promptsrc", CROSS, 0, 20, 1, 4, 0.0025, 4, 3, 6, 10),
    ("promptsrc", CROSS, 3, 20, 1, 4, 0.0025, 4, 3, 6, 10),
]
FIVE = ("cocoop", "coop", "kgcoop", "maple", "promptsrc")


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}")
def test_the_published_numbers(row: tuple[object, ...]) -> None:
    name, protocol, words, epochs, interval, batch, lr, m, depth, mean, std = row
    hyperparameters = learner_class(str(name)).hyperparameters(words, protocol)  # type: ignore[arg-type]
    assert (hyperparameters.epochs, hyperparameters.interval, hyperparameters.batch) == (
        epochs,
        interval,
        batch,
    )
    assert (hyperparameters.lr, hyperparameters.m, hyperparameters.depth) == (lr, m, depth)
    assert hyperparameters.average_mean == mean
    if mean is not None:
        assert hyperparameters.average_std == std
    assert int(str(words)) * hyperparameters.interval <= hyperparameters.epochs  # k * t <= T


def test_the_table_is_complete() -> None:
    assert PROTOCOLS == (BASE, CROSS)
    rows = {(name, protocol, bool(words)) for name, protocol, words, *_ in TABLE}
    assert rows == {(name, p, w) for name in FIVE for p in PROTOCOLS for w in (False, True)}


@pytest.mark.parametrize("name", FIVE)
def test_base_to_novel_is_what_one_gets_unasked(name: str) -> None:
    for words in (0, 2):
        assert learner_class(name).hyperparameters(words) == learner_class(name).hyperparameters(
            words, BASE
        )


@pytest.mark.parametrize("name", FIVE)
def test_the_number_of_words_does_not_matter(name: str) -> None:
    kind = learner_class(name)
    assert len({kind.hyperparameters(words) for words in range(1, 7)}) == 1


@pytest.mark.parametrize("field", ["epochs", "interval", "batch", "m", "depth"])
@pytest.mark.parametrize("value", [0, -1])
def test_counts_are_at_least_one(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; it must be 1 or more"):
        learner_class("promptsrc").hyperparameters(0).override(**{field: value})


@pytest.mark.parametrize("field", ["lr", "average_std"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_are_positive_numbers(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; it must be"):
        learner_class("promptsrc").hyperparameters(0).override(**{field: value})


def test_overriding_keeps_the_rest() -> None:
    hyperparameters = learner_class("maple").hyperparameters(0).override(epochs=7, lr=None, depth=2)
    assert hyperparameters == Hyperparameters(
        epochs=7, interval=1, batch=4, lr=0.0035, m=2, depth=2
    )


def test_words_enter_at_0_t_2t() -> None:
    hyperparameters = Hyperparameters(epochs=100, interval=10, batch=4, lr=0.1, m=2)
    assert hyperparameters.word_epochs(3) == (0, 10, 20)
    assert hyperparameters.override(epochs=5).word_epochs(0) == ()
    assert hyperparameters.override(epochs=6, interval=3).word_epochs(2) == (0, 3)
    with pytest.raises(ConfigError, match=r"k = 3.*t = 10.*30.*T = 20"):
        hyperparameters.override(epochs=20).word_epochs(3)
