"""A saved prompt classifies as the library does, on the weights that it was trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.config import FitConfig
from ipl.saving.format import write_run
from ipl.support.errors import BackboneError, SavedRunError
from ipl.training.result import identity_of
from tests.helpers.saved_runs import make_result

NAMES = ("beach", "snowfield", "castle")
SOFT = 0.05 * torch.randn(3, 192, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def image() -> Image.Image:
    """Returns a slope of light that no version of Pillow draws differently."""
    slope = np.add.outer(np.arange(64) * 2, np.arange(64) * 2)[..., None] * np.array([1, 0.8, 0.6])
    return Image.fromarray(slope.clip(0, 255).astype(np.uint8))


@pytest.fixture
def run(tmp_path: Path, pocket: Backbone) -> Path:
    """Returns the folder of a saved prompt for PocketCLIP."""
    result = make_result(
        config=FitConfig(words_given="dark, wall"),
        prompt="[V] *dark* [V] *wall* [V] {cls}.",
        words=("dark", "wall"),
        backbone=identity_of(pocket),
        preprocessing=pocket.preprocessing.as_dict(),
        classes=NAMES,
        selection=None,
        tensors={"soft": SOFT},
    )
    write_run(tmp_path / "run", result)
    return tmp_path / "run"


def _by_the_library(pocket: Backbone, image: Image.Image, names: list[str]) -> np.ndarray:
    """Returns the probabilities of the prompt by the library's own forward."""
    (stand_in,) = pocket.tokenize("x")
    scaled = np.asarray(image) / 255  # 64 x 64, as the tower takes it
    scaled = (scaled - pocket.preprocessing.mean) / pocket.preprocessing.std
    pixels = torch.tensor(scaled, dtype=torch.float32).permute(2, 0, 1)[None]

    def put_vectors(_: Any, args: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        output[args[0] == stand_in] = SOFT
        return output

    texts = []
    hook = pocket.model.text_model.embeddings.token_embedding.register_forward_hook(put_vectors)
    try:
        with torch.no_grad():
            for name in names:
                tokens = pocket.tokenize(f"x dark x wall x {name}.")
                ids = torch.tensor([[pocket.sos, *tokens, pocket.eos]])
                texts.append(pocket.model.get_text_features(ids, return_dict=True).pooler_output)
            seen = pocket.model.get_image_features(pixels, return_dict=True).pooler_output
            cosines = torch.cosine_similarity(seen, torch.cat(texts))
            return (pocket.model.logit_scale.exp() * cosines).softmax(0).numpy()
    finally:
        hook.remove()


def test_a_saved_prompt_classifies_as_the_library_does(
    run: Path, pocket: Backbone, image: Image.Image
) -> None:
    loaded = PromptClassifier.from_pretrained(run, pocket)
    assert loaded.prompt_ == "[V] *dark* [V] *wall* [V] {cls}."
    assert loaded.classes_ == list(NAMES)
    for classifier in (loaded, loaded.with_classes(["lake", "bridge"])):
        expected = _by_the_library(pocket, image, classifier.classes_)
        assert expected.max() < 0.999  # so that a wrong prompt can be told
        np.testing.assert_allclose(classifier.predict_proba([image]), [expected], atol=1e-5)


@pytest.mark.parametrize("field", ["weights", "resize"])
def test_another_backbone_only_when_told(field: str, run: Path, pocket: Backbone) -> None:
    config = json.loads((run / "config.json").read_text())
    if field == "weights":
        config["backbone"]["weights_sha256"] = "0" * 64
    else:
        config["preprocessing"]["resize"] = 72
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(BackboneError, match=f"{field}.*--any-backbone"):
        PromptClassifier.from_pretrained(run, pocket)
    loaded = PromptClassifier.from_pretrained(run, pocket, any_backbone=True)
    assert loaded.as_dict()["backbone"]["weights_sha256"] == pocket.weights_sha256


@pytest.mark.parametrize("damage", ["shape", "more"])
def test_every_tensor_is_checked(damage: str, run: Path, pocket: Backbone) -> None:
    tensors = load_file(run / "prompt.safetensors")
    soft = tensors["soft"]
    assert soft.shape == (3, 192)
    changed = {"soft": soft[:2].clone()}
    if damage == "more":
        changed = {"soft": soft, "deep": torch.zeros(1)}
    save_file(changed, run / "prompt.safetensors")
    with pytest.raises(SavedRunError, match="the prompt needs"):
        PromptClassifier.from_pretrained(run, pocket)
