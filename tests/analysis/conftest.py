"""What the tests of analysis share: small saved runs, made once each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ipl.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets import Dataset
from ipl.lexicon import Pool

WORDS = (
    *("bright", "dark", "sand", "stone", "wall", "water", "cold", "warm", "green", "blue"),
    *("tower", "river", "cloud", "field", "bird", "glass", "metal", "paper", "music", "dance"),
    *("night", "storm", "quiet", "ancient"),
)
RECIPE = {"epochs": 2, "interval": 1, "views": 0, "cache": False}


@pytest.fixture(scope="session")
def pool() -> Pool:
    """Returns two dozen words to choose from."""
    return Pool.from_words(WORDS, "the word list of the tests")


@pytest.fixture(scope="session")
def pool_file(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Path:
    """Returns a file with the words of the pool."""
    path = tmp_path_factory.mktemp("pool") / "words.txt"
    pool.save(path)
    return path


@pytest.fixture(scope="session")
def make_run(
    tmp_path_factory: pytest.TempPathFactory, pocket: Backbone, scenes: Dataset, pool: Pool
) -> Callable[..., Path]:
    """Returns a maker of saved runs on four classes of the scenes: make_run("coop", 2)."""

    @cache
    def make(learner: str = "coop", words: int = 2, shots: int = 4, lambda_: float = 0.1) -> Path:
        few = scenes.only(range(4), "four scenes")
        classifier = PromptClassifier(
            pocket,
            learner,
            words,
            shots=shots,
            pool=pool,
            lambda_=lambda_,
            batch=8,
            **RECIPE,  # type: ignore[arg-type]
        ).fit(few)
        folder = tmp_path_factory.mktemp("runs") / f"{learner}-{words}w"
        classifier.save_pretrained(folder)
        return folder

    return make
