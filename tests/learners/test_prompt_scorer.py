"""Losses of words in the slots of learners, beside a plain loop over full prompts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_cache import ROWS_AT_ONCE
from ipl.learners.cocoop import CoCoOp
from ipl.learners.coop import CoOp
from ipl.learners.learner import Learner
from ipl.learners.prompt_scorer import PromptScorer, ScoredPrompts, check_scorable
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError
from ipl.words.greedy import greedy_search
from ipl.words.modes import Search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from tests.helpers.reference_loss import Images

NAMES = ["cat", "starry night", "pirate ship in a bottle", "ox"]
POOL = Pool.from_words(["furry", "blue", "adopt", "pile", "phone", "social", "sand"], "test")
LEARNERS = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")


def make(
    backbone: Backbone, name: str, words: Sequence[str], seed: int = 1, names: Sequence[str] = NAMES
) -> Learner:
    """Returns a learner with three slots whose vectors are far from where they start."""
    kind = learner_class(name)
    learner = kind.from_hyperparameters(backbone, names, 3, kind.hyperparameters(3), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    for word in words:
        learner.place_word(word)
    return learner


@pytest.fixture
def parts(few_images: Images) -> list[tuple[Tensor, Tensor]]:
    features, _ = few_images
    return [(features[:7], torch.arange(7) % 4), (features[7:], torch.arange(5) % 4)]


def full_loss(learner: Learner, word: str | None, features: Tensor, labels: Tensor) -> Tensor:
    """Returns the summed cross-entropy of the whole prompts with a word in the next slot."""
    words = [*learner.words, word] if word else learner.words
    changed = learner.rebuilt(words=words)
    texts = changed.encode_prompts(changed.soft_for(features))
    logits = learner.backbone.logits(features, texts)
    return cross_entropy(logits.double(), labels, reduction="sum")


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("selected", [(), ("furry", "blue")])
def test_losses_are_those_of_full_prompts(
    pocket: Backbone, parts: list[tuple[Tensor, Tensor]], name: str, selected: tuple[str, ...]
) -> None:
    learners = [make(pocket, name, selected, seed) for seed in (1, 2)]
    scorer = PromptScorer(
        [ScoredPrompts(one, *part) for one, part in zip(learners, parts, strict=True)]
    )
    words = ["adopt", "pile", "phone"]
    with torch.no_grad():
        expected = [
            float(
                sum(full_loss(one, word, *part) for one, part in zip(learners, parts, strict=True))
                / 12
            )
            for word in (None, *words)
        ]
    assert [scorer.loss(selected), *scorer.score(selected, words).tolist()] == pytest.approx(
        expected, abs=1e-5
    )
    images = scorer.image_losses(selected, words)
    assert images.shape == (3, 12)
    assert images.mean(1).tolist() == pytest.approx(expected[1:], abs=1e-5)
    assert float(scorer.losses_without(selected).mean()) == pytest.approx(expected[0], abs=1e-5)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_exact_search_finds_the_words_of_a_plain_loop(
    pocket: Backbone, parts: list[tuple[Tensor, Tensor]], name: str
) -> None:
    class Steps:
        """Learners whose vectors change between the steps, as training changes them."""

        backbone, question, facts = pocket, {"classes": NAMES, "labels": []}, {"template": "x"}

        def check_room(self, k: int) -> None:
            assert k == 3

        def for_step(self, words: tuple[str, ...]) -> PromptScorer:
            self.learners = [make(pocket, name, words, len(words) + seed) for seed in (1, 5)]
            return PromptScorer(
                [ScoredPrompts(one, *part) for one, part in zip(self.learners, parts, strict=True)]
            )

    steps, objective = Steps(), Objective(0.05)
    found = greedy_search(steps, POOL, 3, objective, Search("exact"))
    embeddings = objective.embed_words(pocket, POOL.words)
    words: tuple[str, ...] = ()
    with torch.no_grad():
        for step in found.steps:
            steps.for_step(words)
            pairs = list(zip(steps.learners, parts, strict=True))
            empty = sum(full_loss(one, None, *part) for one, part in pairs) / 12
            redundancy = objective.redundancy(embeddings, [POOL.words.index(w) for w in words])
            gains = {
                word: float(
                    empty
                    - sum(full_loss(one, word, *part) for one, part in pairs) / 12
                    - 0.05 * redundancy[index]
                )
                for index, word in enumerate(POOL.words)
                if word not in words
            }
            assert step.word == max(gains, key=gains.__getitem__)
            assert step.gain == pytest.approx(gains[step.word], abs=1e-4)
            words = (*words, step.word)
    assert found.certified


def test_small_chunks_and_other_classes_change_nothing(
    pocket: Backbone, parts: list[tuple[Tensor, Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make(pocket, "maple", ("furry",)).rebuilt(class_names=["ox", "big red bus", "elk"])
    part = ScoredPrompts(learner, parts[0][0], torch.arange(7) % 3)
    words = POOL.words[:6]
    at_once = PromptScorer([part]).score(["furry"], words)
    monkeypatch.setitem(ROWS_AT_ONCE, "cpu", 30)
    scorer = PromptScorer([part])
    assert len(list(scorer.features(["furry"], words))) == 6
    torch.testing.assert_close(scorer.score(["furry"], words), at_once, atol=1e-6, rtol=0)


def test_half_precision_is_near(pocket: Backbone, parts: list[tuple[Tensor, Tensor]]) -> None:
    """bf16 on a CPU goes through the same code as fp16 on a GPU."""
    scorer = PromptScorer([ScoredPrompts(make(pocket, "promptsrc", ()), *parts[0])])
    words = POOL.words[:4]
    rough = scorer.score([], words, None, torch.bfloat16)
    torch.testing.assert_close(rough, scorer.score([], words), atol=0.1, rtol=0)


def test_a_tower_that_is_not_causal_encodes_whole_prompts(siglip: Backbone) -> None:
    features = torch.nn.functional.normalize(torch.eye(6, siglip.feature_dim), dim=-1)
    labels = torch.arange(6) % 4
    learner = make(siglip, "maple", ("furry",))
    scorer = PromptScorer([ScoredPrompts(learner, features, labels)])
    with torch.no_grad():
        expected = [
            float(full_loss(learner, word, features, labels) / 6) for word in (None, "blue", "pile")
        ]
    found = [scorer.loss(["furry"]), *scorer.score(["furry"], ["blue", "pile"]).tolist()]
    assert found == pytest.approx(expected, abs=1e-5)


def test_cocoop_is_scored_at_the_mean_image(pocket: Backbone, few_images: Images) -> None:
    learner, features = make(pocket, "cocoop", ()), few_images[0]
    mean = torch.nn.functional.normalize(features.mean(0, keepdim=True), dim=-1)
    with torch.no_grad():
        texts = learner.encode_prompts(learner.soft_for(features))
        expected = learner.logits(mean)
    torch.testing.assert_close(pocket.logits(mean, texts), expected, atol=1e-3, rtol=0)


def test_learners_with_prompts_of_their_own_kind_are_refused() -> None:
    class OwnTexts(CoOp):
        def text_features(self) -> Tensor:
            return super().text_features()

    class OwnLogits(CoOp):
        def logits(self, image_features: Tensor) -> Tensor:
            return super().logits(image_features)

    check_scorable(CoOp, "prompt")
    check_scorable(CoCoOp, "prompt")
    for kind in (OwnTexts, OwnLogits):
        with pytest.raises(ConfigError, match="select_in is 'unseen'; coop computes"):
            check_scorable(kind, "unseen")
