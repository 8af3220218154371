"""What the tests of analysis share: small saved runs, made once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

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


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Keeps the many tiny products of these tests from waiting for each other's threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def six_scenes(scenes: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of the four classes that runs are trained on, and two more."""
    folder, names = tmp_path_factory.mktemp("six"), scenes.class_names[:6]
    for part, items in (("train", scenes.train), ("test", scenes.test)):
        for item in items:
            if item.label < len(names):
                copy = folder / part / names[item.label] / Path(str(item.path)).name
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(Path(str(item.path)).read_bytes())
    return folder


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
