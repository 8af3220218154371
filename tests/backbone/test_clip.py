"""The towers against `transformers`' own forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.loading import load_backbone
from ipl.backbone.ops import Endings
from ipl.backbone.tower import DeepPrompts
from ipl.support.errors import BackboneError
from tests.helpers.library_towers import library_text

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ["a photo of a cat.", "a dog", "a centered satellite photo of annual crop land."]


@pytest.fixture(scope="module")
def vit_b16(pocket: Backbone) -> Backbone:
    """Returns CLIP ViT-B/16's shape with random weights and the bundled tokenizer."""
    torch.manual_seed(0)
    config = CLIPConfig(
        text_config=CLIPTextConfig(vocab_size=49408).to_dict(),
        vision_config=CLIPVisionConfig(patch_size=16).to_dict(),
        projection_dim=512,
    )
    model = CLIPModel._from_config(config, attn_implementation="sdpa").eval()
    return ClipBackbone("random ViT-B/16", model, pocket.tokenizer, pocket.preprocessing)


@pytest.fixture(params=["pocket", "vit_b16"])
def backbone(request: pytest.FixtureRequest) -> Backbone:
    return request.getfixturevalue(request.param)


def library_text_features(backbone: Backbone, texts: list[str]) -> torch.Tensor:
    """Returns the library's own features, padded to 77 tokens as its processor does."""
    ids = torch.full((len(texts), 77), backbone.eos)
    eos = []
    for row, text in enumerate(texts):
        tokens = [backbone.sos, *backbone.tokenize(text), backbone.eos]
        ids[row, : len(tokens)] = torch.tensor(tokens)
        eos.append(len(tokens) - 1)
    with torch.no_grad():
        hidden = backbone.model.text_model(input_ids=ids).last_hidden_state
        return backbone.model.text_projection(hidden[torch.arange(len(texts)), torch.tensor(eos)])


def test_text_features_are_the_librarys(backbone: Backbone) -> None:
    ours = backbone.encode_texts(TEXTS)
    torch.testing.assert_close(ours, library_text_features(backbone, TEXTS), atol=1e-5, rtol=0)


@pytest.mark.parametrize("at_once", [1, 2])
def test_many_texts_are_encoded_in_parts(
    pocket: Backbone, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pocket.encode_texts(TEXTS)
    monkeypatch.setattr("ipl.backbone.backbone.TEXTS_AT_ONCE", at_once)
    torch.testing.assert_close(pocket.encode_texts(TEXTS), whole, atol=1e-5, rtol=0)


def test_image_features_are_the_librarys(backbone: Backbone) -> None:
    size = backbone.model.config.vision_config.image_size
    pixels = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        library = backbone.model.get_image_features(pixels, return_dict=True).pooler_output
        ours = backbone.encode_image(pixels)
    torch.testing.assert_close(ours, library, atol=1e-5, rtol=0)


def random_rows(*shape: int, seed: int = 0) -> Tensor:
    return 0.3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("deep_layers", [0, 2, 5])
@pytest.mark.parametrize(("groups", "shared"), [(1, 4), (3, 4), (2, 0)])
def test_a_shared_beginning_changes_nothing(
    pocket: Backbone, groups: int, shared: int, deep_layers: int
) -> None:
    """In features and gradients, with endings of several lengths and prompts in deeper layers."""
    width, endings = pocket.text_width, Endings(shared, [5, 1, 3], torch.device("cpu"))
    rows = random_rows(groups, endings.rows, width).requires_grad_()
    deep = random_rows(deep_layers, 2, width, seed=2).requires_grad_()
    enter = DeepPrompts(1, deep.unbind() if shared else ())
    weights = random_rows(groups, 3, pocket.feature_dim, seed=3)
    once = pocket.encode_prompts(rows, endings, enter)
    whole = []
    for group in rows:
        beginning, *own = group.split([shared, *endings.lengths])
        prompts = [torch.cat([beginning, ending]) for ending in own]
        whole.append(torch.stack([library_text(pocket, prompt, enter) for prompt in prompts]))
    full = torch.stack(whole)
    torch.testing.assert_close(once, full, atol=1e-5, rtol=1e-4)
    found = [
        torch.autograd.grad((features * weights).sum(), [rows, deep], materialize_grads=True)
        for features in (once, full)
    ]
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-3)


def test_image_prompts_follow_the_patches(pocket: Backbone) -> None:
    pixels = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    prompts = torch.randn(3, pocket.image_width, generator=torch.Generator().manual_seed(3))
    shapes: list[tuple[int, ...]] = []

    def enter(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        if layer == 0:
            normed = pocket.model.vision_model.pre_layrnorm(prompts)  # they pass the pre-norm too
            torch.testing.assert_close(hidden[:, -3:], normed.expand(2, -1, -1))
        shapes.append(tuple(hidden.shape))
        return hidden

    with torch.no_grad():
        prompted = pocket.encode_image(pixels, prompts, enter)
        plain = pocket.encode_image(pixels)
    assert set(shapes) == {(2, 1 + 64 + 3, pocket.image_width)}
    assert not torch.allclose(prompted, plain, atol=1e-3)


@pytest.mark.parametrize(("precision", "tolerance"), [("bf16", 0.05), ("fp16", 0.01)])
def test_half_precision_is_close_and_leaves_in_fp32(
    pocket: Backbone, precision: str, tolerance: float
) -> None:
    half = load_backbone("pocket", "cpu", precision)
    ours, exact = half.encode_texts(TEXTS), pocket.encode_texts(TEXTS)
    assert ours.dtype == torch.float32
    assert half.embed([1]).dtype == torch.float32
    assert half.weights_sha256 == pocket.weights_sha256
    cosine = torch.nn.functional.cosine_similarity(ours, exact)
    assert (1 - cosine).max() < tolerance


def test_too_long_a_text_is_refused(pocket: Backbone) -> None:
    with pytest.raises(BackboneError, match="82 tokens .* 77 positions"):
        pocket.encode_texts(["cat " * 80])
