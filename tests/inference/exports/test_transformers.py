"""The zero-shot pipeline of transformers, with the exported folder, gives our own answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from ipl import PromptClassifier
from ipl.inference.exports.transformers import export_transformers

Fitted = Callable[..., PromptClassifier]


def test_the_zero_shot_pipeline_of_transformers_gives_our_answer(
    fitted: Fitted, images: list[Image.Image], tmp_path: Path
) -> None:
    from transformers import pipeline

    classifier = fitted("coop", 2)
    content = export_transformers(classifier, tmp_path / "out")
    assert content["largest_difference"] < 1e-5
    prompt = json.loads((tmp_path / "out" / "prompt.json").read_text())
    classify = pipeline("zero-shot-image-classification", model=str(tmp_path / "out"))
    for names in (classifier.classes_, ["St. Bernard!", "lake", "a 2nd-hand car"]):
        answers = classify(
            images,
            candidate_labels=names,
            hypothesis_template=prompt["hypothesis_template"],
        )
        learner = classifier.with_classes(names).learner_  # the prompt alone
        ours = learner.log_probabilities(classifier.encode(images)).exp()
        for answer, row in zip(answers, ours.tolist(), strict=True):
            scores = {entry["label"]: entry["score"] for entry in answer}
            assert [scores[name] for name in names] == pytest.approx(row, abs=2e-4)


def test_the_example_in_the_readme_gives_the_answers_of_the_head(
    fitted: Fitted, images: list[Image.Image], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = fitted("coop", 2)
    export_transformers(classifier, tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    images[0].save("image.png")
    code = Path("README.md").read_text().split("```")[-2].removeprefix("python")
    values = {"prompt": json.loads(Path("prompt.json").read_text())}
    exec(code.replace("image.jpg", "image.png"), values)
    found = values["logits"].softmax(-1)[0].tolist()
    assert found == pytest.approx(list(classifier.predict_proba(images[:1])[0]), abs=1e-3)


def test_the_backbone_is_left_as_it_was(fitted: Fitted, tmp_path: Path) -> None:
    backbone = fitted("coop", 2).learner_.backbone
    before, tokens = backbone.model.config.to_dict(), len(backbone.tokenizer)
    rows = backbone.model.text_model.embeddings.token_embedding.weight.shape
    export_transformers(fitted("coop", 2), tmp_path / "out")
    assert backbone.model.config.to_dict() == before
    assert len(backbone.tokenizer) == tokens
    assert backbone.model.text_model.embeddings.token_embedding.weight.shape == rows
