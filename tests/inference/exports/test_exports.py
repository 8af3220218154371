"""A matrix, a transformers folder and plain text, each against our own predictions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file

from ipl import PromptClassifier
from ipl.backbone.encode_images import encode_files
from ipl.inference.exports.classifier import class_matrix, export_classifier
from ipl.inference.exports.text import plain_text
from ipl.inference.exports.transformers import export_transformers
from ipl.prompts.layout import PromptLayout
from ipl.support.errors import ConfigError, IplError

Fitted = Callable[..., PromptClassifier]


@pytest.mark.parametrize(("learner", "words"), [("coop", 2), ("kgcoop", 0)])
def test_the_matrix_and_plain_image_features_give_our_probabilities(
    learner: str, words: int, fitted: Fitted, paths: list[Image.Image], tmp_path: Path
) -> None:
    classifier = fitted(learner, words)
    told = export_classifier(classifier, tmp_path / "out")
    weight = load_file(tmp_path / "out" / "classifier.safetensors")["weight"]
    facts = json.loads((tmp_path / "out" / "classifier.json").read_text())
    assert facts == told
    assert facts["classes"] == classifier.classes_
    assert weight.shape == (3, 512) == tuple(facts["shape"])
    assert weight.dtype == np.float32
    images = encode_files(classifier.learner_.backbone, paths).features.numpy()
    logits = facts["logit_scale"] * images @ weight.T
    found = np.exp(logits - logits.max(1, keepdims=True))
    found /= found.sum(1, keepdims=True)
    np.testing.assert_allclose(found, classifier.predict_proba(paths), atol=1e-5)


def test_other_classes_have_their_own_matrix(fitted: Fitted) -> None:
    other = fitted("coop", 2).with_classes(["beach", "castle"])
    matrix = class_matrix(other)
    assert matrix.shape == (2, 512)
    np.testing.assert_allclose(matrix[0], class_matrix(fitted("coop", 2))[0], atol=1e-5)


@pytest.mark.parametrize(
    ("learner", "says"),
    [
        ("cocoop", "its prompts shift with every image"),
        ("maple", "its prompts also enter the image tower"),
        ("promptsrc", "its prompts also enter the image tower"),
    ],
)
def test_what_is_no_matrix_is_refused_with_the_reason(
    learner: str, says: str, fitted: Fitted, tmp_path: Path
) -> None:
    for export in (export_classifier, export_transformers):
        with pytest.raises(ConfigError, match=f"{learner} cannot be exported.*{says}"):
            export(fitted(learner, 0), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [0, 2])
def test_the_zero_shot_pipeline_of_transformers_gives_our_answer(
    words: int, fitted: Fitted, paths: list[Image.Image], tmp_path: Path
) -> None:
    from transformers import pipeline

    classifier = fitted("coop", words)
    told = export_transformers(classifier, tmp_path / "out")
    assert told["largest_difference"] < 1e-5
    prompt = json.loads((tmp_path / "out" / "prompt.json").read_text())
    classify = pipeline("zero-shot-image-classification", model=str(tmp_path / "out"))
    for names in (classifier.classes_, ["St. Bernard!", "lake", "a 2nd-hand car"]):
        found = classify(
            paths,
            candidate_labels=names,
            hypothesis_template=prompt["hypothesis_template"],
        )
        ours = classifier.with_classes(names).predict_proba(paths)
        for answer, row in zip(found, ours, strict=True):
            scores = {one["label"]: one["score"] for one in answer}
            assert [scores[name] for name in names] == pytest.approx(list(row), abs=2e-4)


def test_the_backbone_is_left_as_it_was(fitted: Fitted, tmp_path: Path) -> None:
    backbone = fitted("coop", 2).learner_.backbone
    before, tokens = backbone.model.config.to_dict(), len(backbone.tokenizer)
    rows = backbone.model.text_model.embeddings.token_embedding.weight.shape
    export_transformers(fitted("coop", 2), tmp_path / "out")
    assert backbone.model.config.to_dict() == before
    assert len(backbone.tokenizer) == tokens
    assert backbone.model.text_model.embeddings.token_embedding.weight.shape == rows


def test_an_export_never_replaces_anything(fitted: Fitted, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for export in (export_classifier, export_transformers):
        with pytest.raises(IplError, match="is there already; choose a new folder"):
            export(fitted("coop", 2), tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_plain_text_reads_back_as_the_prompt(fitted: Fitted) -> None:
    classifier = fitted("coop", 2)
    text = plain_text(classifier)
    layout, words = PromptLayout.parse(text.splitlines()[0])
    assert list(words) == classifier.words_
    assert layout.readable(words) == classifier.prompt_
    assert classifier.selection_ is not None
    for step in classifier.selection_.steps:
        assert f"{step.gain:+.4f}" in next(
            line for line in text.splitlines() if line.startswith(f"{step.word} ")
        )
    # The sentence it proposes is the one whose loss the search has computed.
    sentence = next(line for line in text.splitlines() if "{cls}, with" in line)
    sentence = sentence.partition(": ")[2]
    backbone = classifier.learner_.backbone
    texts = backbone.encode_texts([sentence.replace("{cls}", name) for name in classifier.classes_])
    assert torch.isfinite(texts).all()
    assert sentence.endswith(", ".join(classifier.words_))
    assert "no words" in plain_text(fitted("kgcoop", 0))
