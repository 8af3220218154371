"""Deep prompts: what enters which layer of both towers, against layers run by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers import CLIPConfig, CLIPModel, SiglipConfig, SiglipModel

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.replaced_rows import ReplacedRows
from ipl.backbone.shared_prefix import SharedPrompts
from ipl.backbone.siglip import SiglipBackbone
from ipl.learners.learner import Learner
from ipl.learners.maple import MaPLe
from ipl.learners.promptsrc import PromptSRC


def random_rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# -- ReplacedRows alone --------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "rows"), [(2, [2, 3]), (0, [0, 1]), (-2, [5, 6]), (5, [5, 6])])
def test_exactly_these_rows_before_exactly_these_layers(start: int, rows: list[int]) -> None:
    deep, hidden = random_rows(3, 2, 4), random_rows(5, 7, 4, seed=1)
    enter, original = ReplacedRows(start, deep), hidden.clone()
    for layer in range(6):
        after = enter(layer, hidden)
        expected = hidden.clone()
        if layer in (1, 2, 3):
            expected[:, rows] = deep[layer - 1]
        assert torch.equal(after, expected)
        assert torch.equal(hidden, original)  # what came in is not written on


def test_no_deep_vectors_change_nothing() -> None:
    hidden = random_rows(2, 3, 4)
    for empty in (torch.zeros(0, 2, 4), torch.zeros(0, 0, 4)):
        assert all(ReplacedRows(-1, empty)(layer, hidden) is hidden for layer in range(4))


def test_gradients_go_into_the_vectors_and_past_them_but_not_through() -> None:
    deep, hidden = random_rows(2, 2, 4).requires_grad_(), random_rows(3, 5, 4).requires_grad_()
    ReplacedRows(1, deep)(2, hidden).sum().backward()
    assert torch.equal(deep.grad[1], torch.full((2, 4), 3.0))  # once for each prompt
    assert not deep.grad[0].any()
    assert torch.equal(hidden.grad.sum((0, 2)), torch.tensor([12.0, 0.0, 0.0, 12.0, 12.0]))


def test_vectors_take_the_towers_precision() -> None:
    after = ReplacedRows(0, random_rows(1, 1, 4))(1, random_rows(2, 3, 4).bfloat16())
    assert after.dtype == torch.bfloat16
    assert torch.equal(after[1, 0], random_rows(1, 1, 4)[0, 0].bfloat16())


def test_any_function_may_take_the_place_of_replaced_rows(pocket: Backbone) -> None:
    width = pocket.text_width
    prompts = SharedPrompts(
        random_rows(1, 4, width), random_rows(3, 2, width), torch.tensor([5, 4, 5])
    )
    replaced = ReplacedRows(1, random_rows(2, 2, width, seed=1))
    found = pocket.encode_shared(prompts, lambda *at: replaced(*at))
    torch.testing.assert_close(found, pocket.encode_shared(prompts, replaced))
    assert not torch.allclose(found, pocket.encode_shared(prompts))


# -- a shared beginning, with deep prompts and with groups ---------------------------------------


@pytest.mark.parametrize("deep_layers", [0, 2, 5])
@pytest.mark.parametrize("groups", [1, 3])
def test_a_shared_run_is_the_full_run(pocket: Backbone, groups: int, deep_layers: int) -> None:
    """In features and in gradients, though own rows and beginnings differ from group to group."""
    width, shared, each = pocket.text_width, 4, 2
    starts = (0.3 * random_rows(groups, shared, width)).requires_grad_()
    own = (0.3 * random_rows(groups * each, 5, width, seed=1)).requires_grad_()
    deep = (0.3 * random_rows(deep_layers, 2, width, seed=2)).requires_grad_()
    eos = torch.tensor([4, 8, 7, 5, 6, 8])[: groups * each]
    weights = random_rows(groups * each, pocket.feature_dim, seed=3)

    def run(once: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        prompts, enter = SharedPrompts(starts, own, eos), ReplacedRows(1, deep)
        if once:
            features = pocket.encode_shared(prompts, enter)
        else:
            features = pocket.encode_text(prompts.whole(), eos, enter)
        wanted = (starts, own, deep)
        return features, torch.autograd.grad((features * weights).sum(), wanted, allow_unused=True)

    full, full_gradients = run(False)
    once, once_gradients = run(True)
    torch.testing.assert_close(once, full, atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(once_gradients, full_gradients, strict=True):
        if ours is not None or theirs is not None:  # None: no deep vectors
            torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-3)


def test_enter_is_shown_the_beginning_of_each_group(pocket: Backbone) -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []

    def enter(layer: int, hidden: Tensor) -> Tensor:
        seen.append((layer, tuple(hidden.shape)))
        return hidden

    width = pocket.text_width
    beginnings, endings = random_rows(2, 3, width), random_rows(6, 2, width, seed=1)
    pocket.encode_shared(SharedPrompts(beginnings, endings, torch.full((6,), 4)), enter)
    assert seen == [(layer, (2, 3, pocket.text_width)) for layer in range(6)]


# -- both towers of the deep learners --------------------------------------------------------------

NAMES = ["cat", "starry night", "pirate ship"]

WORDS = ["furry", "blue"]

BOTH = pytest.mark.parametrize("kind", [MaPLe, PromptSRC])


def make(
    kind: type[Learner], backbone: Backbone, words: int = 0, depth: int = 9, seed: int = 1
) -> Any:
    learner = kind(
        backbone, kind.layout_for(words, kind.hyperparameters(words).m), NAMES, seed, depth=depth
    )
    for word in WORDS[:words]:
        learner.place_word(word)
    return learner


def text_by_hand(learner: Any) -> Tensor:
    """Returns normalised features: every prompt alone and in full, rows written in a plain loop."""
    backbone, features = learner.backbone, []
    text, m = backbone.model.text_model, learner.layout.groups[-1].size
    for name in NAMES:
        pieces = [backbone.embed([backbone.sos])]
        groups = iter(learner.soft.split(m))
        for word in learner.words:
            pieces += [next(groups), backbone.embed(backbone.tokenize(word))]
        first = sum(map(len, pieces))  # of the class-side group
        rest = f"of a {name}." if learner.name == "maple" and not learner.words else f"{name}."
        end = [*backbone.tokenize(rest), backbone.eos]
        hidden = torch.cat([*pieces, next(groups), backbone.embed(end)])[None]
        tokens = hidden.shape[1]
        hidden = hidden + text.embeddings.position_embedding.weight[:tokens]
        mask = torch.full((tokens, tokens), -torch.inf).triu(1)[None, None]
        for number, layer in enumerate(backbone.text_layers):
            if 1 <= number < min(learner.depth, len(backbone.text_layers)):
                new = learner.deep[number - 1][None]
                hidden = torch.cat([hidden[:, :first], new, hidden[:, first + m :]], dim=1)
            hidden = layer(hidden, mask)
        features.append(backbone.model.text_projection(text.final_layer_norm(hidden[0, -1])))
    return normalize(torch.stack(features), dim=-1)


def image_prompts(learner: Any) -> list[Tensor]:
    """Returns the image prompts of each prompted layer."""
    if learner.name == "promptsrc":
        return list(learner.image)
    m = learner.layout.groups[-1].size
    sources = [learner.soft[-m:], *learner.deep]
    return [
        rows @ layer.weight.T + layer.bias
        for layer, rows in zip(learner.couple, sources, strict=False)
    ]


def image_by_hand(learner: Any, pixels: Tensor) -> Tensor:
    vision, clip = learner.backbone.model.vision_model, learner.backbone.model
    prompts = image_prompts(learner)
    rows = vision.embeddings(pixels)  # patches and CLS, positions added
    patches = rows.shape[1]
    hidden = torch.cat([rows, torch.stack([prompts[0]] * len(pixels))], dim=1)
    hidden = vision.pre_layrnorm(hidden)
    for number, layer in enumerate(vision.encoder.layers):
        if 1 <= number < len(prompts):
            new = torch.stack([prompts[number]] * len(pixels))
            hidden = torch.cat([hidden[:, :patches], new], dim=1)
        hidden = layer(hidden, None)
    return normalize(clip.visual_projection(vision.post_layernorm(hidden[:, 0])), dim=-1)


@BOTH
@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.parametrize("depth", [1, 3, 9])
def test_both_towers_by_hand(pocket: Backbone, kind: type[Learner], words: int, depth: int) -> None:
    learner = make(kind, pocket, words, depth)
    pixels = random_rows(2, 3, 64, 64)
    pairs = [
        (learner.text_features(), text_by_hand(learner)),
        (learner.image_features(pixels), image_by_hand(learner, pixels)),
    ]
    parameters = list(learner.parameters())
    for ours, by_hand in pairs:
        torch.testing.assert_close(ours, by_hand, atol=1e-5, rtol=0)
        weights = random_rows(*ours.shape, seed=4)
        gradients = [
            torch.autograd.grad((side * weights).sum(), parameters, materialize_grads=True)
            for side in (ours, by_hand)
        ]
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


@contextmanager
def watched(layers: Sequence[Any]) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Yields what goes into and what comes out of each layer."""
    into: list[Tensor] = []
    out: list[Tensor] = []

    def keep(_: Any, args: tuple[Tensor, ...], result: Tensor) -> None:
        into.append(args[0])
        out.append(result)

    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_hook(keep).remove)
        yield into, out


def check_rows(into: list[Tensor], out: list[Tensor], rows: Sequence[int], new: Any) -> None:
    """Asserts that between layers these rows become new[layer], as far as it goes, and no other."""
    for number in range(1, len(into)):
        expected = out[number - 1].clone()
        if number < len(new):
            expected[:, rows] = new[number]
        assert torch.equal(into[number], expected), number


# -- depth is capped by each tower ---------------------------------------------------------------


def tiny(pocket: Backbone, text_layers: int, image_layers: int, siglip: bool = False) -> Backbone:
    """Returns random towers of these depths and of different widths."""
    torch.manual_seed(0)
    small = {"num_attention_heads": 2, "intermediate_size": 32}
    special = {"bos_token_id": pocket.sos, "eos_token_id": pocket.eos, "pad_token_id": pocket.eos}
    width = 24 if siglip else 16
    text = {"vocab_size": 21521, "hidden_size": width, "num_hidden_layers": text_layers}
    vision = {"hidden_size": 24, "num_hidden_layers": image_layers, "patch_size": 32}
    parts = {
        "text_config": {**small, **special, **text},
        "vision_config": {**small, **vision, "image_size": 64},
    }
    if siglip:
        parts["text_config"].update(max_position_embeddings=24, projection_size=width)
        model = SiglipModel._from_config(SiglipConfig(**parts), attn_implementation="sdpa")
        return SiglipBackbone("tiny", model.eval(), pocket.tokenizer, pocket.preprocessing)
    config = CLIPConfig(**parts, projection_dim=16)
    model = CLIPModel._from_config(config, attn_implementation="sdpa").eval()
    return ClipBackbone("tiny", model, pocket.tokenizer, pocket.preprocessing)


@pytest.mark.parametrize(("text", "image"), [(2, 4), (4, 2), (1, 3), (3, 1)])
def test_depth_is_capped_by_each_tower(pocket: Backbone, text: int, image: int) -> None:
    backbone = tiny(pocket, text, image)
    pixels = random_rows(2, 3, 64, 64)
    maple, promptsrc = (make(kind, backbone, depth=9) for kind in (MaPLe, PromptSRC))
    assert maple.deep.shape == (text - 1, 2, 16)
    assert len(maple.couple) == min(text, image)  # a layer of both towers each
    assert promptsrc.deep.shape == (text - 1, 4, 16)
    assert promptsrc.image.shape == (image, 4, 24)
    for learner in (maple, promptsrc):
        torch.testing.assert_close(
            learner.text_features(), text_by_hand(learner), atol=1e-5, rtol=0
        )
        torch.testing.assert_close(
            learner.image_features(pixels), image_by_hand(learner, pixels), atol=1e-5, rtol=0
        )


@BOTH
@pytest.mark.parametrize("words", [0, 2])
def test_a_tower_that_looks_both_ways(pocket: Backbone, kind: type[Learner], words: int) -> None:
    """SigLIP has no SOS, so all rows stand one earlier; its image feature is pooled."""
    backbone = tiny(pocket, 3, 3, siglip=True)
    learner = make(kind, backbone, words, depth=9)
    m, first = learner.group_size, words * (learner.group_size + 1)
    with torch.no_grad(), watched(backbone.text_layers) as (into, out):
        learner.text_features()
    check_rows(into, out, range(first, first + m), [None, *learner.deep])
    with torch.no_grad(), watched(backbone.image_layers) as (into, out):
        learner.image_features(random_rows(2, 3, 64, 64))
    torch.testing.assert_close(into[0][1, 4:], image_prompts(learner)[0])
    check_rows(into, out, range(4, 4 + m), [rows[0, 4:] for rows in into])
