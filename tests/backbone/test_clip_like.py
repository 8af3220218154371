"""MetaCLIP 2 against `transformers`' own forward, and models that are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers

from ipl.backbone import loading
from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.inference.exports.onnx import export_onnx
from ipl.inference.exports.transformers import export_transformers
from ipl.support.errors import BackboneError, ConfigError

pytestmark = pytest.mark.usefixtures("one_thread")

POCKET = Path(loading.__file__).parent / "pocket"
TEXTS = ["a photo of a cat.", "a dog", "a centered satellite photo of annual crop land."]
BOS, EOS, PAD, SIZE = 21519, 21520, 1, 64
TOWER = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TEXT = {**TOWER, "hidden_size": 32, "vocab_size": 21521}
TEXT |= {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
VISION = {**TOWER, "hidden_size": 48, "image_size": SIZE, "patch_size": 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a saved model with small towers, random weights and PocketCLIP's words."""
    folder = tmp_path_factory.mktemp("metaclip_2")
    torch.manual_seed(0)
    text = {**TEXT, "max_position_embeddings": 77, "hidden_act": "gelu"}
    config = transformers.MetaClip2Config(text_config=text, vision_config=VISION, projection_dim=24)
    model = transformers.MetaClip2Model(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
        shutil.copy(POCKET / file, folder)
    return folder


@pytest.fixture(scope="module")
def backbone(folder: Path) -> Backbone:
    return load_backbone(str(folder), "cpu")


@torch.no_grad()
def test_features_are_the_librarys(backbone: Backbone) -> None:
    rows = [[*backbone.opening, *backbone.tokenize(text), backbone.eos] for text in TEXTS]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(longest) < lengths[:, None]).long()
    texts = backbone.model.get_text_features(input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(
        backbone.encode_texts(TEXTS), getattr(texts, "pooler_output", texts), atol=1e-5, rtol=0
    )
    pixels = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    images = backbone.model.get_image_features(pixel_values=pixels)
    torch.testing.assert_close(
        backbone.encode_image(pixels), getattr(images, "pooler_output", images), atol=1e-5, rtol=0
    )


def test_exports(backbone: Backbone, scenes: Dataset, tmp_path: Path) -> None:
    few = scenes.only(range(3), "three scenes")
    classifier = PromptClassifier(
        backbone, "coop", 0, m=2, shots=1, epochs=1, views=0, cache=False
    ).fit(few)
    with pytest.raises(ConfigError, match="it is not a CLIP of transformers"):
        export_transformers(classifier, tmp_path / "transformers")
    pytest.importorskip("onnxruntime")
    content = export_onnx(classifier, tmp_path / "onnx")
    assert content["checked"]["fp32"]["largest_difference"] < 1e-4


@pytest.mark.parametrize(
    ("model_type", "says"),
    [
        ("siglip2", "NaFlex"),
        ("chinese_clip", "ipl needs a CLIP or a model of its kind: CLIP, MetaCLIP, MetaCLIP 2"),
    ],
)
def test_other_models_are_refused_in_one_sentence(
    tmp_path: Path, model_type: str, says: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    with pytest.raises(BackboneError, match=says):
        load_backbone(str(tmp_path), "cpu")
