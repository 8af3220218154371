"""What the tests of rating share: small saved runs with words, and one without."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.readers import read_dataset
from ipl.words.pool import Pool

WORDS = ("bright", "dark", "sand", "stone", "wall", "water", "cold", "warm", "green", "blue")


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""


@pytest.fixture(scope="session")
def pool_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file with ten words."""
    path = tmp_path_factory.mktemp("pool") / "words.txt"
    Pool.from_words(WORDS, "ten words").save(path)
    return path


@pytest.fixture(scope="session")
def make_run(
    tmp_path_factory: pytest.TempPathFactory, pocket: Backbone, scenes_folder: Path
) -> Callable[..., Path]:
    """Returns a maker of saved runs on three classes: make_run(words=2, seed=1)."""
    whole = read_dataset(scenes_folder)
    few = whole.only(range(3), whole.name)

    @cache
    def make(words: int = 2, seed: int = 1) -> Path:
        classifier = PromptClassifier(
            pocket,
            "coop",
            words,
            shots=2,
            epochs=2,
            interval=1,
            batch=6,
            views=0,
            seed=seed,
            pool=Pool.from_words(WORDS, "ten words"),
            cache=False,
        ).fit(few)
        folder = tmp_path_factory.mktemp("runs") / f"coop-{words}w-{seed}"
        classifier.save_pretrained(folder)
        return folder

    return make
