"""From images to words in one call; and towers that look both ways."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console
from torch.nn.functional import cross_entropy, normalize
from transformers import SiglipConfig, SiglipModel

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.siglip import SiglipBackbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.words.greedy import greedy_search
from ipl.words.modes import Search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import CandidateScorer, check_room
from ipl.words.select import select_words
from ipl.words.selection import Selection

POOL = Pool.from_words(Pool.bundled().words[::150], "test")
FEW = Pool.from_words(POOL.words[::2], "test")
NAMES = ["cat", "starry night", "pirate ship"]
POSITIONS = 24


@pytest.fixture(scope="module")
def drawn(scenes: Dataset) -> Dataset:
    """Returns the first four classes of the drawn scenes."""
    return scenes.only(range(4), "drawn")


def without_times(selection: Selection) -> dict[str, object]:
    values = selection.as_dict()
    for step in values["steps"]:
        del step["seconds"]
    return values


# -- select_words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lambda_": 0.7, "preset": "reference", "word_embedding": "token", "seed": 3, "shots": 2},
        {"search": "exhaustive", "template": "a {cls}, showcasing: {words}."},
        {"search": Search("screen", shortlist=25), "precision": "bf16"},
    ],
    ids=["default", "reference", "exhaustive", "screen"],
)
def test_the_words_are_those_of_a_fit(
    drawn: Dataset, pocket: Backbone, settings: dict[str, object]
) -> None:
    shared = {"pool": POOL, "device": "cpu", "cache": False, **settings}
    if "precision" not in settings:
        shared["backbone"] = pocket
    found = select_words(drawn, 2, **shared)  # type: ignore[arg-type]
    fitted = PromptClassifier(words=2, epochs=2, interval=1, **shared).fit(drawn)  # type: ignore[arg-type]
    assert list(found.words) == fitted.words_
    assert fitted.selection_ is not None
    assert without_times(found) == without_times(fitted.selection_)


def test_a_fit_finds_in_the_cache_what_was_selected(
    drawn: Dataset, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = select_words(drawn, 2, backbone=pocket, pool=POOL)
    assert Cache().usage()["selections"][0] == 1
    monkeypatch.setattr(CandidateScorer, "score", None)
    monkeypatch.setattr(CandidateScorer, "features", None)
    fitted = PromptClassifier(pocket, words=2, epochs=2, interval=1, pool=POOL).fit(drawn)
    assert fitted.selection_ == found
    assert select_words(drawn, 1, backbone=pocket, pool=POOL) == found.first(1)


def test_no_cache_means_none(drawn: Dataset, pocket: Backbone) -> None:
    select_words(drawn, 1, backbone=pocket, pool=FEW, cache=False)
    assert not Cache().folder.exists()


def test_settings_are_checked_before_anything_is_computed(
    drawn: Dataset, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClipBackbone, "encode_image", None)
    for settings, says in [
        ({"words": len(FEW) + 1}, f"words is {len(FEW) + 1}; the pool has {len(FEW)}"),
        ({"words": -1}, "words is -1"),
        ({"lambda_": -1.0}, "lambda is -1"),
        ({"search": "quick"}, "search is 'quick'"),
        ({"template": "a {cls}"}, "template is"),
        ({"memory": 0.0}, "memory is 0"),
        ({"memory": float("nan")}, "memory is nan"),
        ({"precision": "fp8", "backbone": "pocket"}, "precision is 'fp8'"),
    ]:
        with pytest.raises(ConfigError, match=says):
            select_words(drawn, **{"backbone": pocket, "pool": FEW, **settings})  # type: ignore[arg-type]


def test_words_of_several_tokens_are_left_out(drawn: Dataset, pocket: Backbone) -> None:
    pool = Pool.from_words([*FEW.words, "zzzq", "floccinaucinihilipilification"], "test")
    found = select_words(drawn, 1, backbone=pocket, pool=pool, cache=False)
    assert found.pool_size == len(FEW)
    assert found.pool_sha256 == FEW.sha256


# -- towers that are not causal --------------------------------------------------------------------


@pytest.fixture(scope="module")
def siglip(pocket: Backbone) -> SiglipBackbone:
    """Returns tiny random towers of SigLIP with PocketCLIP's words."""
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    tower["num_hidden_layers"] = 2
    text = {"vocab_size": 21521, "max_position_embeddings": POSITIONS, "projection_size": 32}
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


@torch.no_grad()
def library_features(siglip: Backbone, texts: list[str]) -> torch.Tensor:
    """Returns normalised text features by the library's own forward, one text at a time."""
    found = []
    for text in texts:
        ids = [*siglip.tokenizer(text, add_special_tokens=False)["input_ids"]]
        ids += [siglip.eos] * (POSITIONS - len(ids))
        output = siglip.model.get_text_features(input_ids=torch.tensor([ids]))
        found.append(getattr(output, "pooler_output", output)[0])
    return normalize(torch.stack(found), dim=-1)


def plain_search(
    siglip: Backbone, images: torch.Tensor, labels: torch.Tensor, k: int, lambda_: float
) -> list[tuple[str, float]]:
    """Returns words and gains of the method as it is written down."""

    def loss(words: list[str]) -> float:
        ending = f", with emphasis on: {', '.join(words)}" if words else ""
        texts = library_features(siglip, [f"a photo of a {name}{ending}" for name in NAMES])
        return cross_entropy(siglip.logit_scale * images @ texts.T, labels).item()

    e = dict(zip(FEW.words, library_features(siglip, list(FEW.words)), strict=True))
    chosen: list[tuple[str, float]] = []
    for _ in range(k):
        words = [word for word, _ in chosen]
        before = loss(words)
        gains = {
            word: before
            - loss([*words, word])
            - lambda_ * sum(float(e[word] @ e[other]) for other in words)
            for word in FEW.words
            if word not in words
        }
        best = max(gains, key=gains.__getitem__)
        chosen.append((best, gains[best]))
    return chosen


@pytest.fixture(scope="module")
def folder_of_images() -> tuple[torch.Tensor, torch.Tensor]:
    features = torch.randn(9, 32, generator=torch.Generator().manual_seed(4))
    return normalize(features, dim=-1), torch.arange(9) % 3


@pytest.mark.parametrize("mode", ["exact", "exhaustive", "screen", "lazy"])
def test_siglip_against_a_plain_loop(
    siglip: SiglipBackbone, folder_of_images: tuple[torch.Tensor, torch.Tensor], mode: str
) -> None:
    said = io.StringIO()
    scorer = CandidateScorer(siglip, NAMES, *folder_of_images)
    found = greedy_search(
        scorer,
        FEW,
        2,
        Objective(0.3),
        Search(mode),
        reporter=Reporter(console=Console(file=said, width=500)),
    )
    assert "tiny siglip has no causal text tower: every prompt is run" in said.getvalue()
    expected = plain_search(siglip, *folder_of_images, k=2, lambda_=0.3)
    assert found.words == tuple(word for word, _ in expected)
    for step, (_, gain) in zip(found.steps, expected, strict=True):
        assert step.gain == pytest.approx(gain, abs=2e-4)
    assert scorer.half is None


def test_the_room_of_a_siglip_is_counted_without_an_opening(
    siglip: SiglipBackbone, folder_of_images: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """The largest k that is let through fills the positions to the last but one at most."""
    scorer = CandidateScorer(siglip, NAMES, *folder_of_images)
    sentence = f"a photo of a {NAMES[1]}, with emphasis on: "
    fits = [
        k
        for k in range(1, 12)
        if len(siglip.tokenize(sentence + ", ".join(["blue"] * k))) + 1 <= POSITIONS
    ]
    check_room(scorer.template, scorer.backbone, scorer.class_names, max(fits))
    with pytest.raises(ConfigError, match=f"but tiny siglip has {POSITIONS} positions"):
        check_room(scorer.template, scorer.backbone, scorer.class_names, max(fits) + 1)


def test_select_words_on_siglip(drawn: Dataset, siglip: SiglipBackbone) -> None:
    few = Pool.from_words(FEW.words[:12], "test")
    found = select_words(drawn, 1, backbone=siglip, pool=few, shots=1, search="exact")
    every = select_words(drawn, 1, backbone=siglip, pool=few, shots=1, search="exhaustive")
    assert found.words == every.words
    assert found.steps[0].gain == pytest.approx(every.steps[0].gain, abs=1e-9)
