"""The towers against `transformers`' own forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import CLIPModel

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.backbone.ops import Endings
from ipl.backbone.tower import DeepPrompts
from ipl.support.errors import BackboneError
from tests.helpers.library_towers import library_text
from tests.helpers.tiny_clip import tiny_clip

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ["a photo of a cat.", "a dog", "a centered satellite photo of annual crop land."]


@pytest.fixture(params=["pocket", "quick_gelu", "gelu"])
def backbone(request: pytest.FixtureRequest, pocket: Backbone) -> Backbone:
    return pocket if request.param == "pocket" else tiny_clip(pocket, request.param)


@torch.no_grad()
def test_features_are_the_librarys(backbone: Backbone) -> None:
    clip: CLIPModel = backbone.model
    for text, ours in zip(TEXTS, backbone.encode_texts(TEXTS), strict=True):
        ids = [backbone.sos, *backbone.tokenize(text), backbone.eos]
        hidden = clip.text_model(input_ids=torch.tensor([ids])).last_hidden_state
        expected = clip.text_projection(hidden[0, -1])
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    pixels = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    library = clip.get_image_features(pixels, return_dict=True).pooler_output
    torch.testing.assert_close(backbone.encode_image(pixels), library, atol=1e-5, rtol=1e-5)


def test_many_texts_are_encoded_in_parts(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pocket.encode_texts(TEXTS)
    monkeypatch.setattr("ipl.backbone.backbone.TEXTS_AT_ONCE", 2)
    torch.testing.assert_close(pocket.encode_texts(TEXTS), whole, atol=1e-5, rtol=0)


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
