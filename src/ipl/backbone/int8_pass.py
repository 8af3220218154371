"""Candidates in 8-bit integers: a Hopper GPU's fastest products, precise enough to rule words out.

Eight bits are too few for the rows of a tower as they are, because most of a row is the same for
every candidate. So a sample of candidates is run in half precision first. What is rounded is the
difference of a row from the mean of that sample; the product of the mean with the matrix is known
beforehand and added. Errors are then small compared with what distinguishes the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, pad

from ipl.backbone.backbone import Backbone
from ipl.backbone.candidate_pass import CandidatePass, last_rows
from ipl.backbone.folded_layers import Linear, silu_in_place
from ipl.backbone.prefix_attention import Prefix, is_hopper
from ipl.backbone.text_tower import TextTower

SAMPLE = 64  # candidates whose mean is subtracted
# Many prompts need memory for themselves: then fewer rows are run at once.
ROWS_AT_ONCE = {"few prompts": 131072, "many prompts": 65536}
FEW = 128
TILES = 2  # of candidates that a chunk has at least; many prompts are divided into groups for it
NARROWEST = 512  # text tower that gains from it


def int8_kernels(backbone: Backbone) -> ModuleType | None:
    """Returns the Triton kernels; None if they cannot run or do not suit the text tower."""
    if not (backbone.causal and is_hopper(backbone.device)):
        return None
    with suppress(ImportError):  # not every build of torch has Triton, nor every Triton TMA
        from ipl.backbone import int8_kernels as kernels

        tower = backbone.text_tower(torch.float32)
        quick = tower.activation is silu_in_place
        if quick and backbone.text_width >= NARROWEST and kernels.fits(tower):
            return kernels
    return None


class Centre(NamedTuple):
    """What is subtracted from the rows of a product before they are rounded.

    It belongs to a block: a row and a prompt, all candidates.
    """

    rows: Tensor  # (rows, prompts, in), fp16
    product: Tensor  # (rows, prompts, out), fp16: of the rows and the matrix, with its bias
    unit: Tensor  # (rows, prompts), fp32: of the integers, unless each row has one of its own

    def last(self, count: int) -> Centre:
        """Returns the centre of the last rows."""
        return Centre(*(values[-count:] for values in self))


class LayerCentres(NamedTuple):
    """The centres of a layer's four products."""

    qkv: Centre
    out: Centre
    up: Centre
    down: Centre


class Int8Pass:
    """Runs candidates after prefixes in 8-bit integers.

    Parameters
    ----------
    backbone : Backbone
        A backbone for which `int8_kernels` returns kernels.
    prefixes : sequence of Prefix
        Each layer's keys and values of what stands before the candidate, in fp32.
    tail : sequence of int
        Token ids after the candidate; EOS is the last.
    sample : Tensor of shape (candidates,)
        Token ids of candidates that are run in half precision before the first others.
    memory : float
        GiB that a search may take; half of it is for the rows that are run.
    kernels : module, optional
        The kernels, if not those of `int8_kernels`.
    """

    @torch.no_grad()
    def __init__(
        self,
        backbone: Backbone,
        prefixes: Sequence[Prefix],
        tail: Sequence[int],
        sample: Tensor,
        memory: float,
        kernels: ModuleType | None = None,
    ) -> None:
        kernels = kernels or int8_kernels(backbone)
        assert kernels is not None
        prompts, own_rows = len(prefixes[0].lengths), 1 + len(tail)
        most = ROWS_AT_ONCE["few prompts" if prompts <= FEW else "many prompts"]
        rows = min(most, int(memory / 2 * (1 << 30) // (9 * backbone.text_width))) // own_rows
        parts = -(-prompts // max(1, rows // (TILES * kernels.CANDIDATES)))
        each = -(-prompts // parts)
        self.candidates_at_once = max(1, rows // each // kernels.CANDIDATES) * kernels.CANDIDATES
        tower = backbone.text_tower(torch.float32)
        room = _Room(own_rows * each * self.candidates_at_once, tower, backbone.device)
        self._groups = []
        for first in range(0, prompts, each):
            own = [Prefix(*(values[first : first + each] for values in one)) for one in prefixes]
            run = CandidatePass(backbone, own, tail, torch.float16)
            self._groups.append(_PromptGroup(run, sample, tower, room, kernels))
        self._shape = prompts, backbone.feature_dim

    @property
    @torch.no_grad()
    def sample_features(self) -> Tensor:
        """Returns features (candidates, prompts, dim) of the sample, in fp16."""
        return torch.cat([group.sample_features for group in self._groups], dim=1)

    @torch.no_grad()
    def features(self, candidates: Tensor) -> Tensor:
        """Returns features (candidates, prompts, dim) of token ids (candidates,), in fp16."""
        count = len(candidates)
        padded = pad(candidates, (0, -count % self._groups[0].kernels.CANDIDATES))
        out = torch.empty(count, *self._shape, dtype=torch.float16, device=candidates.device)
        parts = out.split([group.prompts for group in self._groups], dim=1)
        for group, part in zip(self._groups, parts, strict=True):
            part.copy_(group.features(padded)[:count])
        return out


class _Room:
    """The memory that candidates are run in, chunk after chunk.

    Parameters
    ----------
    rows : int
        The most rows.
    tower : TextTower
        The text tower.
    device : torch.device
        Where the memory is.
    """

    def __init__(self, rows: int, tower: TextTower, device: torch.device) -> None:
        width, wide = tower.layers[0].down.T.shape
        self.width, self.wide = width, wide
        self._hidden = torch.empty(rows * width, dtype=torch.float16, device=device)
        self._rounded = torch.empty(rows * width, dtype=torch.int8, device=device)
        self._scales = torch.empty(rows, dtype=torch.float32, device=device)
        # Queries, keys and values are no longer needed when the MLP is run.
        size = rows * max(6 * width, wide)
        self._shared = torch.empty(size, dtype=torch.int8, device=device)

    def views(self, *shape: int) -> dict[str, Tensor]:
        """Returns the memory of rows (rows, prompts, candidates)."""
        count = math.prod(shape)
        qkv = self._shared[: 6 * count * self.width].view(torch.float16)
        return {
            "hidden": self._hidden[: count * self.width].view(*shape, self.width),
            "rounded": self._rounded[: count * self.width].view(*shape, self.width),
            "scales": self._scales[:count].view(*shape),
            "qkv": qkv.view(*shape, 3 * self.width),
            "active": self._shared[: count * self.wide].view(*shape, self.wide),
        }


class _PromptGroup:
    """Runs candidates after the prefixes of as many prompts as are run together."""

    def __init__(
        self,
        run: CandidatePass,
        sample: Tensor,
        tower: TextTower,
        room: _Room,
        kernels: ModuleType,
    ) -> None:
        self.run, self.room, self.kernels = run, room, kernels
        self.prompts = len(run.lengths)
        self.layers = tower.int8_layers
        self._sample = sample  # its rows as they leave the last layer that was measured
        self._centres: list[LayerCentres] = []

    @property
    def sample_features(self) -> Tensor:
        """Returns features (candidates, prompts, dim) of the sample, in half precision."""
        for index in range(len(self.layers)):
            self._centres_of(index)
        run = self.run
        return run.tower.project(run.norm(self._sample, 2 * len(self.layers))[:, 0])

    def _centres_of(self, index: int) -> LayerCentres:
        """Returns the centres of a layer, measured when it is first run.

        So a GPU has candidates to run while the next layer's measurement is launched.
        """
        if index == len(self._centres):
            self._centres.append(self._measure(index))
        return self._centres[index]

    def _measure(self, index: int) -> LayerCentres:
        """Takes the sample through a layer in half precision and returns the centres in it."""
        run, tower, centre_of = self.run, self.run.tower, self.kernels.centre_of
        if not index:
            self._sample = run.first_rows(self._sample)
        layer, (out_bias, down_bias) = tower.layers[index], tower.biases[index]
        normed = run.norm(self._sample, 2 * index)
        mixed = run.attend(normed, index, normed.shape[1])
        qkv, out = centre_of(normed, layer.qkv), centre_of(mixed, Linear(layer.out, out_bias))
        self._sample = tower.add(self._sample, mixed, layer.out)
        del mixed
        normed = run.norm(self._sample, 2 * index + 1)
        active = tower.activation(layer.up(normed))
        up, down = centre_of(normed, layer.up), centre_of(active, Linear(layer.down, down_bias))
        self._sample = tower.add(self._sample, active, layer.down)
        if index + 1 == len(self.layers):
            self._sample = last_rows(self._sample, 1)  # EOS
        return LayerCentres(qkv, out, up, down)

    def features(self, candidates: Tensor) -> Tensor:
        """Returns features (candidates, prompts, dim) of token ids (candidates,)."""
        tower, count = self.run.tower, len(candidates)
        views = self.room.views(1 + len(self.run.tail), self.prompts, count)
        self.run.first_rows(candidates, out=views["hidden"])
        self._run_layers(**views)
        hidden = views["hidden"][-1]  # EOS
        normed = layer_norm(hidden, hidden.shape[-1:], eps=tower.eps)
        return tower.project(normed).transpose(0, 1)

    def _run_layers(
        self, hidden: Tensor, rounded: Tensor, scales: Tensor, qkv: Tensor, active: Tensor
    ) -> None:
        """Takes the hidden rows (rows, prompts, candidates, width) through all layers."""
        kernels, tower = self.kernels, self.run.tower
        for index, layer in enumerate(self.layers):
            centres = self._centres_of(index)
            kernels.norm(rounded, scales, hidden, centres.qkv, tower.eps)
            kernels.project(qkv, rounded, scales, layer.qkv, centres.qkv)
            if index + 1 == len(self.layers):  # only EOS has to leave the last layer
                hidden, rounded, scales = hidden[-1:], rounded[-1:], scales[-1:]
                active, centres = active[-1:], LayerCentres(*(each.last(1) for each in centres))
            kernels.attend(rounded, qkv, self.run.prefixes[index], tower.heads, centres.out)
            kernels.add_product(hidden, rounded, layer.out, centres.out)
            kernels.norm(rounded, scales, hidden, centres.up, tower.eps)
            kernels.activate(active, rounded, scales, layer.up, centres.up, centres.down)
            kernels.add_product(hidden, active, layer.down, centres.down)
