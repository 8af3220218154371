"""The towers against `transformers`' own forward."""

from __future__ import annotations

import pytest
import torch
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.image_tower import embed_patches
from ipl.backbone.loading import load_backbone
from ipl.backbone.replaced_rows import ReplacedRows, run_layers
from ipl.backbone.shared_prefix import SharedPrompts
from ipl.support.errors import BackboneError

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


def test_many_texts_are_encoded_in_parts(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pocket.encode_texts(TEXTS)
    monkeypatch.setattr("ipl.backbone.backbone.TEXTS_AT_ONCE", 2)
    torch.testing.assert_close(pocket.encode_texts(TEXTS), whole, atol=1e-5, rtol=0)


def test_pocket_pools_where_the_library_pools(pocket: Backbone) -> None:
    """The EOS row we read is the one that get_text_features reads."""
    tokens = [[pocket.sos, *pocket.tokenize(text), pocket.eos] for text in TEXTS]
    longest = max(map(len, tokens))
    ids = torch.tensor([row + [pocket.eos] * (longest - len(row)) for row in tokens])
    with torch.no_grad():
        library = pocket.model.get_text_features(input_ids=ids, return_dict=True).pooler_output
    torch.testing.assert_close(pocket.encode_texts(TEXTS), library, atol=1e-5, rtol=0)


def test_image_features_are_the_librarys(backbone: Backbone) -> None:
    size = backbone.model.config.vision_config.image_size
    pixels = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        library = backbone.model.get_image_features(pixels, return_dict=True).pooler_output
        ours = backbone.encode_image(pixels)
    torch.testing.assert_close(ours, library, atol=1e-5, rtol=0)


def test_text_is_not_padded_to_77(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    encode = Backbone.encode_text

    def spy(self: Backbone, embeddings: torch.Tensor, *args: object) -> torch.Tensor:
        seen.append(tuple(embeddings.shape))
        return encode(self, embeddings, *args)

    monkeypatch.setattr(Backbone, "encode_text", spy)
    pocket.encode_texts(["a cat", "a photo of a cat"])
    assert seen == [(2, 7, 192)]  # SOS + 5 tokens + EOS


@pytest.mark.parametrize("shared", [1, 3, 4])
def test_a_shared_beginning_changes_nothing(backbone: Backbone, shared: int) -> None:
    ids = [[backbone.sos, *backbone.tokenize(f"a photo of {t}"), backbone.eos] for t in TEXTS]
    longest = max(map(len, ids))
    eos = torch.tensor([len(row) - 1 for row in ids])
    rows = backbone.embed(
        torch.tensor([row + [backbone.eos] * (longest - len(row)) for row in ids])
    ).requires_grad_()
    plain = backbone.encode_text(rows, eos)
    once = backbone.encode_shared(SharedPrompts(rows[:1, :shared], rows[:, shared:], eos))
    torch.testing.assert_close(once, plain, atol=1e-5, rtol=0)


def test_gradients_through_a_shared_beginning(pocket: Backbone) -> None:
    """What every class has in common gets the sum of all classes' gradients."""
    ids = torch.tensor([[pocket.sos, *pocket.tokenize(t), pocket.eos] for t in ("cat", "dog")])
    eos = torch.tensor([2, 2])
    soft = torch.randn(3, 192, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def features(once: bool) -> torch.Tensor:
        rows = pocket.embed(ids)
        start = torch.cat([rows[0, :1], soft])[None]
        prompts = SharedPrompts(start, rows[:, 1:], eos + 3)
        return (
            pocket.encode_shared(prompts) if once else pocket.encode_text(prompts.whole(), eos + 3)
        )

    (plain,) = torch.autograd.grad(features(False).square().sum(), soft)
    (once,) = torch.autograd.grad(features(True).square().sum(), soft)
    torch.testing.assert_close(once, plain, atol=1e-3, rtol=1e-4)


def test_padding_after_eos_is_never_seen(pocket: Backbone) -> None:
    ids = torch.tensor([[pocket.sos, *pocket.tokenize("a cat"), pocket.eos, 7, 8, 9]])
    rows = pocket.embed(ids)
    eos = torch.tensor([3])
    other = rows.clone()
    other[:, 4:] = 5.0
    assert torch.equal(pocket.encode_text(rows, eos), pocket.encode_text(other, eos))


def test_text_prompts_enter_before_any_layer(pocket: Backbone) -> None:
    ids = torch.tensor([[pocket.sos, *pocket.tokenize("a photo of a cat"), pocket.eos]])
    rows, eos = pocket.embed(ids), torch.tensor([ids.shape[1] - 1])
    calls: list[int] = []

    def enter(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        calls.append(layer)
        if layer == 3:
            hidden = hidden.clone()
            hidden[:, 1] = 0.0
        return hidden

    changed = pocket.encode_text(rows, eos, enter)
    assert calls == list(range(len(pocket.text_layers)))
    assert not torch.allclose(changed, pocket.encode_text(rows, eos), atol=1e-3)


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


def test_dimensions_come_from_the_model(vit_b16: Backbone, pocket: Backbone) -> None:
    assert (vit_b16.text_width, vit_b16.image_width, vit_b16.feature_dim) == (512, 768, 512)
    assert (pocket.text_width, pocket.image_width, pocket.feature_dim) == (192, 256, 512)
    assert vit_b16.positions == pocket.positions == 77


def test_too_long_a_text_is_refused(pocket: Backbone) -> None:
    with pytest.raises(BackboneError, match="82 tokens .* 77 positions"):
        pocket.encode_texts(["cat " * 80])


def test_the_image_tower_of_a_gpu_gives_the_librarys_features_and_gradients(
    backbone: Backbone,
) -> None:
    """Prompts enter the first layer and replace rows of the second."""
    assert isinstance(backbone, ClipBackbone)
    size = backbone.model.config.vision_config.image_size
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randn(2, 3, size, size, generator=generator)
    found = []
    for folded in (False, True):
        generator.manual_seed(2)
        prompts = torch.randn(2, 3, backbone.image_width, generator=generator, requires_grad=True)
        enter = ReplacedRows(-3, prompts[1:])
        hidden = backbone.model.vision_model.pre_layrnorm(backbone._patch_rows(pixels, prompts[0]))
        if folded:
            first = backbone.image_tower.run(hidden, enter)
        else:
            first = run_layers(backbone.image_layers, hidden, enter)[:, 0]
        (gradients,) = torch.autograd.grad(first.sin().sum(), prompts)
        found.append((first.detach(), gradients))
    (features, gradients), (expected, expected_gradients) = found
    torch.testing.assert_close(features, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(gradients, expected_gradients, atol=2e-5, rtol=1e-3)


def test_patches_as_a_product() -> None:
    convolution = torch.nn.Conv2d(3, 10, kernel_size=4, stride=4)
    pixels = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    expected = convolution(pixels).flatten(2).transpose(1, 2)
    torch.testing.assert_close(embed_patches(convolution, pixels), expected)
