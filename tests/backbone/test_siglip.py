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

from ipl.backbone import loading
from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone, load_tokenizer
from ipl.backbone.shared_prefix import SharedPrompts
from ipl.backbone.siglip import SiglipBackbone
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.support.errors import BackboneError, DataError
from ipl.training.loop import train
from ipl.training.views import BankedViews

pytestmark = pytest.mark.usefixtures("one_thread")

POCKET = Path(loading.__file__).parent / "pocket"
POSITIONS, WIDTH, SIZE = 20, 32, 32
TEXTS = ["a photo of a cat.", "a dog", "a centered satellite photo of annual crop land."]
NAMES = ["cat", "starry night", "pirate ship"]
Processor = (
    getattr(transformers, "SiglipImageProcessorPil", None) or transformers.SiglipImageProcessor
)


def write_tokenizer(folder: Path) -> None:
    """Writes PocketCLIP's words as SigLIP reads them: no SOS, one EOS, which also pads."""
    values = json.loads((POCKET / "tokenizer.json").read_text())
    end = values["added_tokens"][-1]
    values["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": end["content"], "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {
            end["content"]: {"id": end["content"], "ids": [end["id"]], "tokens": [end["content"]]}
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(values))
    config = dict.fromkeys(("eos_token", "pad_token", "unk_token"), end["content"])
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": POSITIONS}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


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
    write_tokenizer(folder)
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
    return tokenizer(texts, padding="max_length", return_tensors="pt")["input_ids"]


def pooled(output: object) -> torch.Tensor:
    """Returns features, which some versions of the library wrap in an object."""
    return getattr(output, "pooler_output", output)


def pixels(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def test_a_saved_siglip_loads(siglip: Backbone, folder: Path) -> None:
    assert isinstance(siglip, SiglipBackbone)
    assert not siglip.causal
    assert (siglip.text_width, siglip.image_width, siglip.feature_dim) == (WIDTH, WIDTH, WIDTH)
    assert (siglip.positions, len(siglip.text_layers), len(siglip.image_layers)) == (
        POSITIONS,
        2,
        2,
    )
    assert siglip.logit_scale == pytest.approx(torch.tensor(3.0).exp().item())
    assert load_tokenizer(str(folder))("cat")["input_ids"][-1] == siglip.eos
    assert not any(parameter.requires_grad for parameter in siglip.model.parameters())


@torch.no_grad()
def test_text_features_are_the_librarys(
    siglip: Backbone, library: SiglipModel, folder: Path
) -> None:
    ids = library_ids(folder, TEXTS)
    assert ids.shape == (3, POSITIONS)
    expected = pooled(library.get_text_features(input_ids=ids))
    torch.testing.assert_close(siglip.encode_texts(TEXTS), expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_image_features_are_the_librarys(siglip: Backbone, library: SiglipModel) -> None:
    expected = pooled(library.get_image_features(pixels()))
    torch.testing.assert_close(siglip.encode_image(pixels()), expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_logits_are_the_librarys_but_for_the_bias(
    siglip: Backbone, library: SiglipModel, folder: Path
) -> None:
    ids = library_ids(folder, TEXTS)
    expected = library(input_ids=ids, pixel_values=pixels()).logits_per_image
    ours = siglip.logits(siglip.encode_image(pixels()), siglip.encode_texts(TEXTS))
    torch.testing.assert_close(ours - 5.0, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(ours.softmax(-1), expected.softmax(-1), atol=1e-5, rtol=0)


def test_what_is_given_after_eos_is_never_seen(siglip: Backbone) -> None:
    ids = torch.tensor([[*siglip.tokenize("a cat"), siglip.eos, 7, 8, 9]])
    rows, eos = siglip.embed(ids), torch.tensor([2])
    other = rows.clone()
    other[:, 3:] = 5.0
    plain = siglip.encode_text(rows, eos)
    assert torch.equal(siglip.encode_text(other, eos), plain)
    torch.testing.assert_close(siglip.encode_text(rows[:, :3], eos), plain)
    shared = SharedPrompts(rows[:, :1], rows[:, 1:], eos)
    assert torch.equal(siglip.encode_shared(shared), plain)  # there is no sharing
    torch.testing.assert_close(plain, siglip.encode_texts(["a cat"]))


def test_gradients_reach_the_rows_before_eos_alone(siglip: Backbone) -> None:
    rows = siglip.embed(torch.tensor([[5, 6, siglip.eos, 7], [5, 6, 9, siglip.eos]]))
    rows.requires_grad_()
    siglip.encode_text(rows, torch.tensor([2, 3])).square().sum().backward()
    assert rows.grad is not None
    reached = rows.grad.abs().sum(-1) > 0
    assert reached.tolist() == [[True, True, True, False], [True] * 4]


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
        rows, eos = siglip.embed([[5, 6, siglip.eos]]), torch.tensor([2])
        changed = siglip.encode_text(rows, eos, enter)
        assert not torch.allclose(changed, siglip.encode_text(rows, eos), atol=1e-3)
    shapes = [(2, 19, WIDTH), (1, POSITIONS, WIDTH)]
    assert seen == [(layer, *shape) for shape in shapes for layer in (0, 1)]


def test_tokens_that_end_a_text_and_texts_too_long(siglip: Backbone) -> None:
    with pytest.raises(DataError, match="endoftext"):
        siglip.tokenize("a <|endoftext|> cat")
    siglip.encode_texts(["cat " * (POSITIONS - 1)])
    with pytest.raises(BackboneError, match=f"{POSITIONS + 1} tokens .* {POSITIONS} positions"):
        siglip.encode_texts(["cat " * POSITIONS])


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


def test_a_transform_says_whether_it_squashes(siglip: Backbone, pocket: Backbone) -> None:
    assert siglip.preprocessing.as_dict()["squash"] is True
    assert siglip.preprocessing.resample == Image.Resampling.BILINEAR
    assert pocket.preprocessing.as_dict()["squash"] is False


@pytest.mark.parametrize(("precision", "tolerance"), [("bf16", 0.05), ("fp16", 0.01)])
def test_half_precision_is_close(
    siglip: Backbone, folder: Path, precision: str, tolerance: float
) -> None:
    half = load_backbone(str(folder), "cpu", precision)
    assert half.weights_sha256 == siglip.weights_sha256
    for ours, exact in [
        (half.encode_texts(TEXTS), siglip.encode_texts(TEXTS)),
        (half.encode_image(pixels()), siglip.encode_image(pixels())),
    ]:
        assert ours.dtype == torch.float32
        assert (1 - torch.nn.functional.cosine_similarity(ours, exact)).max() < tolerance


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
        with pytest.raises(BackboneError, match="`pip install sentencepiece`"):
            load(str(broken))


def test_the_plain_learner_starts_as_zero_shot_siglip(siglip: Backbone) -> None:
    learner = CoOp(siglip, CoOp.layout_for(0, 4), NAMES)
    assert learner.prompts.soft_rows[0].tolist() == [0, 1, 2, 3]  # no row before them
    images = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(0))
    texts = siglip.encode_texts([f"a photo of a {name}." for name in NAMES])
    ours = learner.logits(images).detach()
    torch.testing.assert_close(ours, siglip.logits(images, texts), atol=1e-4, rtol=0)


def test_coop_trains_on_siglip(siglip: Backbone) -> None:
    images = torch.randn(12, WIDTH, generator=torch.Generator().manual_seed(0))
    recipe = Hyperparameters(epochs=20, interval=2, batch=12, lr=0.02, m=2)
    learner = CoOp(siglip, CoOp.layout_for(2, 2), NAMES)
    features = torch.nn.functional.normalize(images, dim=-1)[None]
    views = BankedViews(siglip, torch.arange(12) % 3, 1, features)
    record = train(learner, views, 12, ["furry", "blue"], recipe)
    assert record.epochs[-1].loss < 0.9 * record.epochs[0].loss
    assert learner.words == ("furry", "blue")
