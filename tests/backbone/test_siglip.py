"""SigLIP's towers against `transformers`' own forward, and a learner on top of them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers import AutoTokenizer, SiglipConfig, SiglipModel
from transformers import utils as transformers_utils
from transformers.models.auto import tokenization_auto

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone, load_tokenizer
from ipl.backbone.ops import Endings
from ipl.backbone.siglip import SiglipBackbone
from ipl.learners.coop import CoOp
from ipl.support.errors import BackboneError
from tests.helpers.tokenizers import write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")

POSITIONS, WIDTH, SIZE = 20, 32, 32
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a saved SigLIP with tiny towers and random weights."""
    folder = tmp_path_factory.mktemp("siglip")
    tower = {
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    text = {"vocab_size": 21521, "max_position_embeddings": POSITIONS, "projection_size": WIDTH}
    special = {"bos_token_id": None, "eos_token_id": 21520, "pad_token_id": 21520}
    config = SiglipConfig(
        text_config={**tower, **text, **special},
        vision_config={**tower, "image_size": SIZE, "patch_size": 8},
    )
    torch.manual_seed(0)
    model = SiglipModel(config)
    with torch.no_grad():
        model.logit_scale.fill_(3.0)
        model.logit_bias.fill_(-5.0)
    model.save_pretrained(folder)
    write_tokenizer(folder, opens=False)
    values = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": "SiglipImageProcessor",
        "image_std": [0.5, 0.5, 0.5],
        "resample": 2,
        "size": {"height": SIZE, "width": SIZE},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(values))
    return folder


@pytest.fixture(scope="module")
def siglip(folder: Path) -> Backbone:
    return load_backbone(str(folder), "cpu")


@pytest.fixture(scope="module")
def library(folder: Path) -> SiglipModel:
    return SiglipModel.from_pretrained(folder).eval()


def library_ids(folder: Path, texts: list[str]) -> torch.Tensor:
    """Returns token ids as SigLIP is used: all positions, and no mask."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer(texts, padding="max_length", max_length=POSITIONS, return_tensors="pt")[
        "input_ids"
    ]


def pooled(output: object) -> torch.Tensor:
    """Returns features, which some versions of the library wrap in an object."""
    return getattr(output, "pooler_output", output)


def pixels(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def test_a_saved_siglip_loads(siglip: Backbone, folder: Path) -> None:
    assert isinstance(siglip, SiglipBackbone)
    assert (siglip.text_width, siglip.image_width, siglip.feature_dim) == (WIDTH, WIDTH, WIDTH)
    assert (siglip.positions, siglip.text_layers, siglip.image_layers) == (POSITIONS, 2, 2)
    assert load_tokenizer(str(folder))("cat")["input_ids"][-1] == siglip.eos


@torch.no_grad()
def test_features_and_logits_are_the_librarys(
    siglip: Backbone, library: SiglipModel, folder: Path
) -> None:
    ids = library_ids(folder, TEXTS)
    texts, images = siglip.encode_texts(TEXTS), siglip.encode_image(pixels())
    expected = pooled(library.get_text_features(input_ids=ids))
    torch.testing.assert_close(texts, expected, atol=1e-5, rtol=0)
    expected = pooled(library.get_image_features(pixels()))
    torch.testing.assert_close(images, expected, atol=1e-5, rtol=0)
    logits = library(input_ids=ids, pixel_values=pixels()).logits_per_image
    ours = siglip.logits(images, texts) - 5.0  # the bias
    torch.testing.assert_close(ours, logits, atol=1e-4, rtol=0)


def test_prompts_with_a_shared_beginning(siglip: Backbone) -> None:
    """There is no sharing: every prompt is run whole, with padding after EOS, in every group."""
    ids = [[*siglip.tokenize(text), siglip.eos] for text in ("a cat", "a starry night")]
    endings = Endings(1, [len(row) - 1 for row in ids], torch.device("cpu"))
    rows = siglip.embed([ids[0][0], *ids[0][1:], *ids[1][1:]]).requires_grad_()
    found = siglip.encode_prompts(torch.stack([rows, rows.roll(1, 0)]), endings)
    expected = siglip.encode_texts(["a cat", "a starry night"])
    torch.testing.assert_close(found[0].detach(), expected)
    assert not torch.allclose(found[1], found[0], atol=1e-3)
    found[0].square().sum().backward()
    assert rows.grad is not None
    assert (rows.grad.abs().sum(-1) > 0).all()


def test_prompts_enter_both_towers(siglip: Backbone) -> None:
    prompts = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(3))
    seen: list[tuple[int, ...]] = []

    def enter(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        if hidden.shape[1] == 16 + 3 and layer == 0:
            torch.testing.assert_close(hidden[:, 16:], prompts.expand(2, -1, -1))
        seen.append((layer, *hidden.shape))
        return hidden + torch.linspace(0, layer, WIDTH)

    with torch.no_grad():
        assert not torch.allclose(
            siglip.encode_image(pixels(), prompts), siglip.encode_image(pixels()), atol=1e-3
        )
        siglip.encode_image(pixels(), prompts, enter)
        prompt = siglip.embed([[5, 6, siglip.eos]]), Endings(0, [3], torch.device("cpu"))
        changed = siglip.encode_prompts(*prompt, enter)
        assert not torch.allclose(changed, siglip.encode_prompts(*prompt), atol=1e-3)
    shapes = [(2, 19, WIDTH), (1, POSITIONS, WIDTH)]
    assert seen == [(layer, *shape) for shape in shapes for layer in (0, 1)]


@pytest.mark.parametrize("size", [(96, 96), (32, 32), (200, 81), (2, 90)])
def test_images_are_squashed_as_the_library_does(
    siglip: Backbone, folder: Path, size: tuple[int, int]
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    expected = Processor.from_pretrained(folder)(image, return_tensors="np")["pixel_values"]
    whole = siglip.preprocessing.evaluate(image)
    ours = siglip.preprocessing.normalise(torch.from_numpy(whole.copy())[None])
    torch.testing.assert_close(ours, torch.tensor(np.array(expected)), atol=1e-5, rtol=0)
    assert siglip.preprocessing.augment(image, random.Random(0)).size == (SIZE, SIZE)


def test_a_missing_package_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "siglip"))
    (broken / "tokenizer.json").unlink()
    (broken / "spiece.model").write_bytes(b"")
    config = json.dumps({"tokenizer_class": "SiglipTokenizer"})
    (broken / "tokenizer_config.json").write_text(config)
    monkeypatch.setattr(transformers_utils, "is_sentencepiece_available", lambda: False)
    monkeypatch.setattr(transformers_utils, "is_protobuf_available", lambda: True)
    for load in (load_backbone, load_tokenizer):
        with pytest.raises(BackboneError, match="`pip install sentencepiece protobuf`"):
            load(str(broken))


def test_the_plain_learner_starts_as_zero_shot_siglip(siglip: Backbone) -> None:
    learner = CoOp(siglip, CoOp.layout_for(0, 4), NAMES)
    assert learner.prompts.soft_rows.tolist() == [0, 1, 2, 3]  # no row before them
    images = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(0))
    texts = siglip.encode_texts([f"a photo of a {name}." for name in NAMES])
    ours = learner.logits(images).detach()
    torch.testing.assert_close(ours, siglip.logits(images, texts), atol=1e-4, rtol=0)
