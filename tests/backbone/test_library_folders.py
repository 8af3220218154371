"""Folders of MetaCLIP 2 and SigLIP against `transformers`' own forward; models that are refused."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers import utils as transformers_utils
from transformers.models.auto import tokenization_auto

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone, load_tokenizer
from ipl.backbone.ops import Endings
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.inference.exports.onnx import export_onnx
from ipl.inference.exports.transformers import export_transformers
from ipl.learners.coop import CoOp
from ipl.support.errors import BackboneError, ConfigError
from tests.helpers.library_folders import POSITIONS, SIZE, WIDTH, write_model

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ["a photo of a cat.", "a dog", "a centered satellite photo of annual crop land."]
NAMES = ["cat", "starry night", "pirate ship"]
Processor = (
    getattr(transformers, "SiglipImageProcessorPil", None) or transformers.SiglipImageProcessor
)


@pytest.fixture(scope="module", autouse=True)
def _no_sentencepiece_needed() -> Iterator[None]:
    """transformers 5.0 stumbles over a missing sentencepiece even where nothing needs it."""
    names = tokenization_auto.TOKENIZER_MAPPING_NAMES
    with pytest.MonkeyPatch.context() as patch:
        if names["siglip"] is None:
            patch.setitem(names, "siglip", "SiglipTokenizer")
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    kinds = ("metaclip_2", "siglip")
    return {kind: write_model(tmp_path_factory.mktemp(kind), kind) for kind in kinds}


@pytest.fixture(scope="module")
def metaclip(folders: dict[str, Path]) -> Backbone:
    return load_backbone(str(folders["metaclip_2"]), "cpu")


@pytest.fixture(scope="module")
def siglip_folder(folders: dict[str, Path]) -> Backbone:
    return load_backbone(str(folders["siglip"]), "cpu")


def pooled(output: Any) -> torch.Tensor:
    """Returns features, which some versions of the library wrap in an object."""
    return getattr(output, "pooler_output", output)


def pixels(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("of", ["metaclip", "siglip_folder"])
@torch.no_grad()
def test_features_and_logits_are_the_librarys(of: str, request: pytest.FixtureRequest) -> None:
    backbone: Backbone = request.getfixturevalue(of)
    library = transformers.AutoModel.from_pretrained(backbone.name).eval()
    rows = [[*backbone.opening, *backbone.tokenize(text), backbone.eos] for text in TEXTS]
    padding = 1 if backbone.causal else backbone.eos
    ids = torch.tensor([row + [padding] * (POSITIONS - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(POSITIONS) < lengths[:, None]).long() if backbone.causal else None
    texts, images = backbone.encode_texts(TEXTS), backbone.encode_image(pixels())
    expected = pooled(library.get_text_features(input_ids=ids, attention_mask=mask))
    torch.testing.assert_close(texts, expected, atol=1e-5, rtol=0)
    expected = pooled(library.get_image_features(pixel_values=pixels()))
    torch.testing.assert_close(images, expected, atol=1e-5, rtol=0)
    found = library(input_ids=ids, attention_mask=mask, pixel_values=pixels()).logits_per_image
    bias = getattr(library, "logit_bias", 0.0)
    torch.testing.assert_close(backbone.logits(images, texts), found - bias, atol=1e-4, rtol=0)
    assert load_tokenizer(backbone.name)("cat")["input_ids"][-1] == backbone.eos


# -- MetaCLIP 2 -----------------------------------------------------------------------------------


def test_exports(metaclip: Backbone, scenes: Dataset, tmp_path: Path) -> None:
    few = scenes.only(range(3), "three scenes")
    classifier = PromptClassifier(
        metaclip, "coop", 0, m=2, shots=1, epochs=1, views=0, cache=False
    ).fit(few)
    with pytest.raises(ConfigError, match="it is not a CLIP of transformers"):
        export_transformers(classifier, tmp_path / "transformers")
    pytest.importorskip("onnxruntime")
    content = export_onnx(classifier, tmp_path / "onnx")
    assert content["checked"]["fp32"]["largest_difference"] < 1e-4


# -- SigLIP ---------------------------------------------------------------------------------------


def test_prompts_with_a_shared_beginning(siglip_folder: Backbone) -> None:
    """There is no sharing: every prompt is run whole, with padding after EOS, in every group."""
    siglip, texts = siglip_folder, ["a cat", "a starry night"]
    ids = [[*siglip.tokenize(text), siglip.eos] for text in texts]
    endings = Endings(1, [len(row) - 1 for row in ids], torch.device("cpu"))
    rows = siglip.embed([ids[0][0], *ids[0][1:], *ids[1][1:]]).requires_grad_()
    found = siglip.encode_prompts(torch.stack([rows, rows.roll(1, 0)]), endings)
    torch.testing.assert_close(found[0].detach(), siglip.encode_texts(texts))
    assert not torch.allclose(found[1], found[0], atol=1e-3)
    found[0].square().sum().backward()
    assert rows.grad is not None
    assert (rows.grad.abs().sum(-1) > 0).all()


def test_prompts_enter_both_towers(siglip_folder: Backbone) -> None:
    siglip, seen = siglip_folder, list[tuple[int, ...]]()
    prompts = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(3))

    def hook(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        if hidden.shape[1] == 16 + 3 and layer == 0:
            torch.testing.assert_close(hidden[:, 16:], prompts.expand(2, -1, -1))
        seen.append((layer, *hidden.shape))
        return hidden + torch.linspace(0, layer, WIDTH)

    with torch.no_grad():
        siglip.encode_image(pixels(), prompts, hook)
        prompt = siglip.embed([[5, 6, siglip.eos]]), Endings(0, [3], torch.device("cpu"))
        changed = siglip.encode_prompts(*prompt, hook)
        assert not torch.allclose(changed, siglip.encode_prompts(*prompt), atol=1e-3)
    shapes = [(2, 19, WIDTH), (1, POSITIONS, WIDTH)]
    assert seen == [(layer, *shape) for shape in shapes for layer in (0, 1)]


@pytest.mark.parametrize("size", [(96, 96), (32, 32), (200, 81), (2, 90)])
def test_images_are_squashed_as_the_library_does(
    siglip_folder: Backbone, size: tuple[int, int]
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image, ours = Image.fromarray(noise), siglip_folder.preprocessing
    expected = Processor.from_pretrained(siglip_folder.name)(image, return_tensors="np")
    found = ours.normalise(torch.from_numpy(ours.evaluate(image).copy())[None])
    expected = torch.tensor(np.array(expected["pixel_values"]))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert ours.augment(image, random.Random(0)).size == (SIZE, SIZE)


def test_the_plain_learner_starts_as_zero_shot_siglip(siglip_folder: Backbone) -> None:
    learner = CoOp(siglip_folder, CoOp.layout_for(0, 4), NAMES)
    assert learner.prompts.soft_rows.tolist() == [0, 1, 2, 3]  # no row before them
    images = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(0))
    texts = siglip_folder.encode_texts([f"a photo of a {name}." for name in NAMES])
    ours = learner.logits(images).detach()
    torch.testing.assert_close(ours, siglip_folder.logits(images, texts), atol=1e-4, rtol=0)


# -- what is refused ------------------------------------------------------------------------------


def test_a_missing_package_is_named(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Path(shutil.copytree(folders["siglip"], tmp_path / "siglip"))
    (broken / "tokenizer.json").unlink()
    (broken / "spiece.model").write_bytes(b"")
    config = json.dumps({"tokenizer_class": "SiglipTokenizer"})
    (broken / "tokenizer_config.json").write_text(config)
    monkeypatch.setattr(transformers_utils, "is_sentencepiece_available", lambda: False)
    monkeypatch.setattr(transformers_utils, "is_protobuf_available", lambda: True)
    for load in (load_backbone, load_tokenizer):
        with pytest.raises(BackboneError, match="`pip install sentencepiece protobuf`"):
            load(str(broken))


@pytest.mark.parametrize(
    ("kind", "says"), [("siglip2", "NaFlex"), ("bert", "'bert' model; ipl needs a CLIP")]
)
def test_other_models_are_refused_in_one_sentence(tmp_path: Path, kind: str, says: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(BackboneError, match=says):
        load_backbone(str(tmp_path), "cpu")
