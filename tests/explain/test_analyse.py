"""The parts of an analysis against other ways to compute them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.fewshot import sample_shots
from ipl.explain.analysis import Analysis, ReportSettings, analyse_run
from ipl.explain.outcomes import PLAIN, PROMPT, ZERO_SHOT
from ipl.explain.variants import with_words, without_word
from ipl.metrics import harmonic_mean, score
from ipl.words.pool import Pool
from ipl.words.select import select_words

MakeRun = Callable[..., Path]


@pytest.fixture(scope="module")
def found(pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path) -> Analysis:
    """Returns the analysis of a run with two words, the plain learner trained beside it."""
    settings = ReportSettings(resamples=2, plain="train")
    run = make_run("coop", 2)
    return analyse_run(run, six_scenes, settings, pocket, words_file=pool_file, cache=False)


def test_the_images_are_those_of_training(found: Analysis) -> None:
    assert found.run_images is not None
    assert found.run_images.notes == ()
    assert len(found.run_images.shots.items) == 16
    assert len(found.run_images.test.items) == 16
    saved = found.subject.saved.results["held_out_accuracy"]
    assert found.test is not None
    assert found.test.accuracy == pytest.approx(saved)


def test_an_effect_is_the_score_without_the_word(found: Analysis) -> None:
    assert found.run_images is not None
    assert found.effects is not None
    labels = found.run_images.test.labels
    for place, effect in enumerate(found.effects):
        lacking = without_word(found.subject.learner, place)
        log_p = lacking.log_probabilities(found.run_images.features)
        assert effect.without == score(log_p, labels)
        for one in (*effect.classes_helped, *effect.classes_hurt):
            own = labels == found.subject.saved.classes.index(one.name)
            assert one.loss_without == score(log_p[own], labels[own]).loss
        assert all(i.probability > i.probability_without for i in effect.images_helped)
        assert all(i.probability < i.probability_without for i in effect.images_hurt)
        gains = [i.probability / i.probability_without for i in effect.images_helped]
        assert gains == sorted(gains, reverse=True)


def test_the_median_word_has_the_median_gain(found: Analysis, pool: Pool) -> None:
    assert found.effects is not None
    assert found.run_images is not None
    subject, selection = found.subject, found.subject.selection
    assert selection is not None
    images, labels = found.run_images.shots.features.double(), found.run_images.shots.labels
    backbone = subject.learner.backbone

    def loss(words: list[str]) -> float:
        template = (
            "a photo of a {cls}, with emphasis on: {words}" if words else "a photo of a {cls}"
        )
        texts = [
            template.replace("{cls}", name).replace("{words}", ", ".join(words))
            for name in subject.saved.classes
        ]
        logits = backbone.logits(images, backbone.encode_texts(texts).double())
        return float(torch.nn.functional.cross_entropy(logits, labels))

    def embedded(word: str) -> torch.Tensor:
        return torch.nn.functional.normalize(backbone.encode_texts([word])[0], dim=0)

    first, second = subject.words
    gains = {
        word: loss([first]) - loss([first, word]) - 0.1 * float(embedded(first) @ embedded(word))
        for word in pool.words
        if word != first
    }
    assert gains.pop(second) == pytest.approx(selection.steps[1].gain, abs=1e-4)
    sample = found.effects[1].sample
    assert sample is not None
    order = sorted(gains, key=lambda word: gains[word])
    assert sample.median_word == order[len(order) // 2]
    assert sample.better == 0
    assert sample.sampled == sample.pool == len(pool) - 2
    instead = with_words(subject.learner, (first, sample.median_word))
    log_p = instead.log_probabilities(found.run_images.features)
    assert found.effects[1].with_median == score(log_p, found.run_images.test.labels)


def test_chance_and_its_chosen_words(found: Analysis) -> None:
    chance, selection = found.chance, found.subject.selection
    assert chance is not None
    assert selection is not None
    assert chance.chosen.words == found.subject.words
    assert chance.chosen.shots_loss == pytest.approx(selection.steps[-1].loss, abs=1e-4)
    assert chance.chosen.prompt == found.test
    assert len(chance.draws) == 20
    assert [len(one) for one in chance.singles] == [20, 20]


def test_shots_all_used_are_drawn_with_replacement(found: Analysis) -> None:
    assert found.stability is not None
    assert "with replacement" in found.stability.how
    assert found.stability.shared is None
    assert sum(times for _, times in found.stability.counts) == 4


def test_other_shots_give_the_words_of_their_seed(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path, pool: Pool
) -> None:
    run = make_run("coop", 2, shots=2)
    settings = ReportSettings(resamples=1)
    found = analyse_run(run, six_scenes, settings, pocket, words_file=pool_file, cache=False)
    assert found.stability is not None
    assert found.run_images is not None
    again = select_words(
        found.run_images.dataset, 2, backbone=pocket, shots=2, seed=2, pool=pool, cache=False
    )
    assert found.stability.resamples[0].words == again.words
    items = found.run_images.dataset.train
    one, two = (set(sample_shots(items, 2, seed=seed)) for seed in (1, 2))
    assert found.stability.shared == len(one & two) / 8 > 0
    assert f"on average {100 * found.stability.shared:.0f} % of a draw" in found.stability.how


def test_base_and_novel_as_the_classifier_scores_them(
    found: Analysis, scenes: Dataset, make_run: MakeRun, pocket: Backbone
) -> None:
    outcomes = found.outcomes
    assert outcomes is not None
    assert len(outcomes.novel_classes) == 2
    classifier = PromptClassifier.from_pretrained(make_run("coop", 2), pocket)
    base, novel = scenes.only(range(4), "base"), scenes.only(range(4, 6), "novel")
    store = FeatureStore(pocket)
    prompt, frozen = outcomes.of(PROMPT), outcomes.of(ZERO_SHOT)
    assert prompt is not None
    assert prompt.novel is not None
    assert frozen is not None
    assert frozen.novel is not None
    assert prompt.test.accuracy == pytest.approx(classifier.score(base))
    assert prompt.novel.accuracy == pytest.approx(classifier.with_classes(novel).score(novel))
    assert frozen.test.accuracy == pytest.approx(zero_shot_accuracy(base, store))
    assert frozen.novel.accuracy == pytest.approx(zero_shot_accuracy(novel, store))
    assert prompt.hm == harmonic_mean(prompt.test.accuracy, prompt.novel.accuracy)
    assert prompt.counts is not None
    assert sum(map(sum, prompt.counts)) == 16


def test_the_plain_learner_is_the_one_fit_would_train(
    found: Analysis, make_run: MakeRun, pocket: Backbone
) -> None:
    assert found.plain is not None
    classifier = PromptClassifier.from_pretrained(make_run("coop", 0), pocket)
    assert found.plain.training["m"] == classifier.training_["m"] == 4
    own = found.outcomes.of(PLAIN) if found.outcomes else None
    assert own is not None
    assert own.test.accuracy == pytest.approx(classifier.results_["held_out_accuracy"])
    assert found.plain_vectors is not None
    assert len(found.plain_vectors.vectors) == 4
    assert found.missing == ()
