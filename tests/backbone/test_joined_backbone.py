"""Computations that go through the towers together: the same features and gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ipl.backbone import backbone as backbone_module
from ipl.backbone.backbone import Backbone
from ipl.backbone.joined_backbone import JoinedBackbone, run_joined
from ipl.backbone.replaced_rows import ReplacedRows
from ipl.prompts.bound_prompts import bind
from ipl.prompts.layout import PromptLayout

NAMES = ["cat", "starry night", "pirate ship"]


def counted(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets the number of prompts or images of every call of a tower."""
    sizes: list[int] = []
    for name in ("encode_shared", "encode_image"):
        tower = getattr(backbone, name)

        def call(first, *rest, tower=tower):  # type: ignore[no-untyped-def]
            sizes.append(len(getattr(first, "endings", first)))
            return tower(first, *rest)

        monkeypatch.setattr(backbone, name, call)
    return sizes


def texts(backbone: Backbone, soft: Tensor, deep: Tensor | None) -> Callable[..., Tensor]:
    prompts = bind(PromptLayout.parse("[V V] {cls}.")[0], backbone, NAMES)
    enter = None if deep is None else ReplacedRows(1, deep)
    return lambda towers: towers.encode_shared(prompts.split(soft), enter)


def compare(
    backbone: Backbone,
    parameters: list[list[Tensor]],
    make: Callable[..., Callable[..., Tensor]],
) -> None:
    """Compares features and gradients of functions joined with those of each alone."""
    found = []
    for joined in (False, True):
        given = [[p.clone().requires_grad_() for p in own] for own in parameters]
        functions = [make(*own) for own in given]
        features = (
            run_joined(backbone, functions) if joined else [run(backbone) for run in functions]
        )
        weights = torch.randn(features[0].shape, generator=torch.Generator().manual_seed(7))
        torch.autograd.backward([(each * weights).sum() for each in features])
        found.append([*features, *(p.grad for own in given for p in own)])
    for alone, together in zip(*found, strict=True):
        torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("groups", [1, 2], ids=["one prompt", "a prompt for each image"])
def test_prompts(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch, deep: bool, groups: int
) -> None:
    width, generator = pocket.text_width, torch.Generator().manual_seed(0)
    parameters = [
        [
            0.1 * torch.randn(groups, 2, width, generator=generator),
            *([0.1 * torch.randn(2, 2, width, generator=generator)] if deep else []),
        ]
        for _ in range(3)
    ]
    sizes = counted(pocket, monkeypatch)
    compare(pocket, parameters, lambda soft, deep=None: texts(pocket, soft, deep))
    assert sizes == [len(NAMES) * groups] * 3 + [3 * len(NAMES) * groups]


def test_images(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    edge, generator = pocket.preprocessing.crop, torch.Generator().manual_seed(0)
    pixels = [torch.randn(2, 3, edge, edge, generator=generator) for _ in range(3)]
    remaining = iter(pixels * 2)

    def images(first: Tensor, deep: Tensor) -> Callable[..., Tensor]:
        own = next(remaining)
        return lambda towers: towers.encode_image(own, first, ReplacedRows(-2, deep))

    parameters = [
        [0.1 * torch.randn(*shape, pocket.image_width, generator=generator) for shape in SHAPES]
        for _ in range(3)
    ]
    sizes = counted(pocket, monkeypatch)
    compare(pocket, parameters, images)
    assert sizes == [2, 2, 2, 6]


SHAPES = ((2,), (3, 2))  # of the first image prompts, and of those of deeper layers


def test_calls_that_do_not_fit_together(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other numbers of vectors, another order, fewer calls: each has what it would have alone."""
    generator = torch.Generator().manual_seed(0)
    soft = 0.1 * torch.randn(2, pocket.text_width, generator=generator)
    edge = pocket.preprocessing.crop
    pixels = torch.randn(2, 3, edge, edge, generator=generator)
    longer = bind(PromptLayout.parse("[V V] of a {cls}.")[0], pocket, NAMES)

    def short(towers: Backbone | JoinedBackbone) -> list[Tensor]:
        return [texts(pocket, soft, None)(towers), towers.encode_image(pixels)]

    def turned(towers: Backbone | JoinedBackbone) -> list[Tensor]:
        return [towers.encode_image(pixels), texts(pocket, soft, None)(towers)]

    def long(towers: Backbone | JoinedBackbone) -> list[Tensor]:
        return [towers.encode_shared(longer.split(soft))]

    functions = [short, turned, long, lambda towers: []]
    sizes = counted(pocket, monkeypatch)
    together = run_joined(pocket, functions)
    assert sorted(sizes) == [2, 2, 3, 3, 3]
    for ours, function in zip(together, functions, strict=True):
        for one, other in zip(ours, function(pocket), strict=True):
            assert torch.equal(one, other)


def test_too_many_prompts_are_not_joined(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that has to be run in parts costs more than one call after the other."""
    monkeypatch.setattr(type(pocket), "_prompts_that_fit", lambda self, *what: 2 * len(NAMES))
    sizes = counted(pocket, monkeypatch)
    softs = [torch.zeros(2, pocket.text_width) for _ in range(3)]
    run_joined(pocket, [texts(pocket, soft, None) for soft in softs])
    assert sizes == [3, 3, 3]
    sizes.clear()
    run_joined(pocket, [texts(pocket, soft, None) for soft in softs[:2]])
    assert sizes == [6]


@pytest.mark.parametrize("causal", [True, False])
def test_what_fits_is_what_the_tower_runs_at_once(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch, causal: bool
) -> None:
    """A tower that runs whole prompts has room for fewer, and parts would mix the members' rows."""
    monkeypatch.setattr(pocket, "causal", causal)
    width, generator = pocket.text_width, torch.Generator().manual_seed(0)
    parameters = [
        [0.1 * torch.randn(shape, generator=generator) for shape in ((2, width), (2, 2, width))]
        for _ in range(2)
    ]
    probe = bind(PromptLayout.parse("[V V] {cls}.")[0], pocket, NAMES).split(
        parameters[0][0].clone().requires_grad_()
    )
    whole = pocket.prompts_at_once(probe)
    own_bytes = backbone_module.ACTIVATION_BYTES // whole
    for fitting, joined in ((len(NAMES), 0), (2 * len(NAMES), 1)):
        monkeypatch.setattr(backbone_module, "ACTIVATION_BYTES", fitting * own_bytes)
        assert fitting <= pocket.prompts_at_once(probe) < fitting + len(NAMES)
        with monkeypatch.context() as patch:
            sizes = counted(pocket, patch)
            compare(pocket, parameters, lambda soft, deep: texts(pocket, soft, deep))
        assert sizes == [3, 3] + ([6] if joined else [3, 3])


def test_rows_that_cannot_be_divided_are_refused() -> None:
    rows = torch.zeros(1, 2, 4, 8)  # two sets
    with pytest.raises(ValueError, match="3 parts cannot be divided among 2 sets"):
        ReplacedRows(0, rows)(1, torch.zeros(3, 6, 8))


def test_a_stand_in_that_is_kept_works_alone(pocket: Backbone) -> None:
    kept: list[JoinedBackbone] = []
    soft = torch.zeros(2, pocket.text_width)
    run_joined(pocket, [kept.append, kept.append])
    assert torch.equal(texts(pocket, soft, None)(kept[0]), texts(pocket, soft, None)(pocket))


def test_one_at_a_time_and_an_error_ends_all(pocket: Backbone) -> None:
    before, running, most = threading.active_count(), [0], [0]

    def compute(towers: JoinedBackbone, fails: bool) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        running[0] -= 1
        texts(pocket, torch.zeros(2, pocket.text_width), None)(towers)
        if fails:
            raise ValueError("a bug")

    run_joined(pocket, [lambda towers: compute(towers, False)] * 3)
    assert most == [1]
    functions = [lambda towers, fails=fails: compute(towers, fails) for fails in (0, 1, 0)]
    with pytest.raises(ValueError, match="a bug"):
        run_joined(pocket, functions)
    assert threading.active_count() == before


def test_everything_else_is_the_backbones_own(pocket: Backbone) -> None:
    (found,) = run_joined(pocket, [lambda towers: (towers.device, towers.feature_dim)])
    assert found == (pocket.device, pocket.feature_dim)
