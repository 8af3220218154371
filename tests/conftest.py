"""Shared by all tests: the bundled backbone, images to look at, small saved runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import torch
from transformers import SiglipConfig, SiglipModel

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.backbone.siglip import SiglipBackbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.scenes import scenes_dataset
from ipl.words.pool import Pool
from tests.helpers.threads import on_one_thread

WORDS = (
    *("bright", "dark", "sand", "stone", "wall", "water", "cold", "warm", "green", "blue"),
    *("tower", "river", "cloud", "field", "bird", "glass", "metal", "paper", "music", "dance"),
    *("night", "storm", "quiet", "ancient"),
)
RECIPE = {"epochs": 2, "interval": 1, "views": 0, "cache": False}

if "PYTEST_XDIST_WORKER" in os.environ:  # as many workers as cores: a thread for each
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start
    torch.set_num_threads(1)


if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a job in the background of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a GPU where there is none, and puts files with slow tests first."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
    if "PYTEST_XDIST_WORKER" in os.environ:  # so that no worker waits for a long file in the end
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Points IPL_CACHE at a temporary folder; yields a folder after the other for the tests."""
    base = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPL_CACHE", str(base / "shared"))  # for fixtures that many tests share
        yield (base / str(number) for number in count(1))


@pytest.fixture(autouse=True)
def _own_cache(_no_cache_of_the_user: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each test an empty cache; the folder is there once something was kept."""
    monkeypatch.setenv("IPL_CACHE", str(next(_no_cache_of_the_user)))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Keeps the many tiny products of a file's tests from waiting for each other's threads."""
    with on_one_thread():
        yield


@pytest.fixture(scope="session")
def pocket() -> Backbone:
    """Returns PocketCLIP on the CPU in fp32."""
    return load_backbone("pocket", "cpu")


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Returns the drawn scenes with four images per class to train and four to test on."""
    return scenes_dataset(tmp_path_factory.mktemp("scenes"), train=4, test=4)


@pytest.fixture(scope="session")
def scenes_folder(scenes: Dataset) -> Path:
    """Returns the folder of the drawn scenes, with train/ and test/ inside."""
    return scenes.train[0].path.parents[2]


@pytest.fixture
def few_images() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns twelve random normalised image features of three classes, and their labels."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(12, 512, generator=generator)
    return torch.nn.functional.normalize(features, dim=-1), torch.arange(12) % 3


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
    path.write_text("\n".join(pool.words) + "\n")
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


@pytest.fixture(scope="session")
def siglip(pocket: Backbone) -> SiglipBackbone:
    """Returns tiny random towers of SigLIP with PocketCLIP's words."""
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    tower["num_hidden_layers"] = 2
    text = {"vocab_size": 21521, "max_position_embeddings": 24, "projection_size": 32}
    special = {"bos_token_id": None, "eos_token_id": 21520, "pad_token_id": 21520}
    config = SiglipConfig(
        text_config={**tower, **text, **special},
        vision_config={**tower, "image_size": pocket.preprocessing.crop, "patch_size": 16},
    )
    torch.manual_seed(0)
    model = SiglipModel(config)
    with torch.no_grad():
        model.logit_scale.fill_(3.0)
        for parameter in model.text_model.parameters():
            parameter.mul_(2.0)  # so that a word makes a difference
    return SiglipBackbone("tiny siglip", model, pocket.tokenizer, pocket.preprocessing)
