"""The model behind the service gives the classifier's own answers, and caches text features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipl import PromptClassifier
from ipl.apps.serve.model import Model, Question
from ipl.learners.registry import learner_class
from tests.helpers.scenes import open_scene

IMAGES = [open_scene(scene, 5) for scene in ("beach", "forest", "mountain", "castle")]
OTHER = ("cat", "dog")


def in_order(answer: Any, names: list[str]) -> list[float]:
    assert not isinstance(answer, Exception), answer
    probabilities = {entry["name"]: entry["probability"] for entry in answer}
    return [probabilities[name] for name in names]


@pytest.mark.parametrize("learner", ["coop", "cocoop", "kgcoop", "maple", "promptsrc"])
def test_answers_are_those_of_the_classifier(
    learner: str, make_classifier: Callable[[str], PromptClassifier]
) -> None:
    classifier = make_classifier(learner)
    other = classifier.with_classes(OTHER)
    questions = [Question(p, OTHER if i % 2 else None, 9) for i, p in enumerate(IMAGES)]
    answers = Model(classifier, 4).answer(questions)
    own, new = classifier.predict_proba(IMAGES), other.predict_proba(IMAGES)
    for i, answer in enumerate(answers):
        names, expected = (other.classes_, new) if i % 2 else (classifier.classes_, own)
        # In fp32 one rounding of a cosine moves a logit by 70 * 1e-7.
        np.testing.assert_allclose(in_order(answer, names), expected[i], atol=1e-5)


def test_text_features_are_computed_once_and_the_longest_unused_forgotten(
    classifier: PromptClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = learner_class("coop")
    computed: list[tuple[str, ...]] = []
    encode = kind.encode_prompts

    def count(learner: Any, *more: Any) -> Any:
        computed.append(tuple(learner.prompts.class_names))
        return encode(learner, *more)

    monkeypatch.setattr(kind, "encode_prompts", count)
    model = Model(classifier, class_lists=2)
    a, b, c = ("a", "x"), ("b", "x"), ("c", "x")
    for classes in (None, a, None, a, b, a, c, a, None):  # c puts b out, not a
        model.answer([Question(IMAGES[0], classes, 1)])
    assert computed == [tuple(classifier.classes_), a, b, c]
    model.answer([Question(IMAGES[0], b, 1)])
    assert computed[-1] == b


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/clip-vit-base-patch16", "openai/clip-vit-base-patch16"),
        ("/home/someone/models/clip", "clip"),
        ("models/here/clip", "clip"),
    ],
)
def test_paths_of_this_machine_stay_hidden(
    name: str, expected: str, classifier: PromptClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(classifier, 4)
    monkeypatch.setattr(model.backbone, "name", name)
    assert model.about()["backbone"] == expected
    (error,) = model.answer([Question(IMAGES[0], ("cat", "<|endoftext|>"), 1)])
    assert isinstance(error, Exception)
    assert "/home" not in str(error)
    assert expected in str(error)
