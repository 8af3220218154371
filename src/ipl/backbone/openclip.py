"""A frozen model of open_clip.

Its text towers are causal like CLIP's, or fill all positions like SigLIP's. Its image towers are
vision transformers, which prompts can enter, or ResNets and models of timm, which run as open_clip
runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ipl.backbone.backbone import Backbone
from ipl.backbone.families import OPEN_CLIP
from ipl.backbone.tower import LayerHook, LayerParts, Linear, TextTower, Tower
from ipl.support.errors import BackboneError


@dataclass(frozen=True, eq=False)
class OpenClipTokenizer:
    """A tokenizer of open_clip with the methods of transformers that ipl uses.

    It never adds special tokens, whatever the options of transformers say.
    """

    tokenize: Callable[[str], list[int]]
    vocabulary: dict[str, int]
    opening: tuple[int, ...]  # before every text
    eos_token_id: int
    pad_token_id: int
    all_special_ids: list[int]

    def __call__(self, texts: Sequence[str], **_: bool) -> dict[str, Any]:
        return {"input_ids": [self.tokenize(text) for text in texts]}

    def encode(self, text: str, **_: bool) -> list[int]:
        return self.tokenize(text)

    def get_vocab(self) -> dict[str, int]:
        return self.vocabulary


class OpenClipBackbone(Backbone):
    """Both towers of one model of open_clip.

    The parameters are those of `Backbone`, and `config`, the architecture as open_clip describes
    it; `model` is an `open_clip.CLIP` or an `open_clip.CustomTextCLIP`.
    """

    def __init__(self, *arguments: Any, config: dict[str, Any]) -> None:
        super().__init__(*arguments)
        self.config = config
        text, transformer = _text_of(self.model), getattr(self.model.visual, "transformer", None)
        if not _is_plain(text.transformer):
            raise BackboneError(
                f"{self.name} has a text tower whose layers are not those of a CLIP."
            )
        # CLIP keeps its text tower's settings under names of their own.
        pooling = text.pool_type if text is not self.model else text.text_pool_type
        self.text_row = {"first": 0, "last": -1}.get(pooling)
        self.causal = text.attn_mask is not None and self.text_row is None
        self.takes_image_prompts = transformer is not None and _is_plain(transformer)

    @property
    def family(self) -> str:
        return OPEN_CLIP

    @staticmethod
    def _token_table(model: Any) -> Tensor:
        table: Tensor = _text_of(model).token_embedding.weight
        return table

    def _architecture(self) -> dict[str, Any]:
        return self.config

    @property
    def opening(self) -> tuple[int, ...]:
        opening: tuple[int, ...] = self.tokenizer.opening
        return opening

    def _build_text_tower(self, dtype: torch.dtype) -> TextTower:
        text = _text_of(self.model)
        return TextTower(
            _tower(text.transformer.resblocks, text.attn_mask is not None, dtype),
            text.positional_embedding.detach().to(dtype),
            _projection(text).fold_norm(text.ln_final).to(dtype),
        )

    def _build_image_tower(self) -> Tower:
        return _tower(self.model.visual.transformer.resblocks, False, self.dtype)

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, hook: LayerHook | None = None
    ) -> Tensor:
        if self.takes_image_prompts:
            return super().encode_image(pixels, prompts, hook)
        if prompts is not None or hook is not None:
            raise BackboneError(f"The image tower of {self.name} takes no prompts.")
        features: Tensor = self.model.visual(pixels.to(self.device, self.dtype))
        return features.float()

    def _image_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        visual = self.model.visual
        patches = visual.conv1(pixels).flatten(2).transpose(1, 2)
        start = visual.class_embedding.expand(patches.shape[0], 1, -1)  # no len: ONNX
        rows = torch.cat([start, patches], dim=1) + visual.positional_embedding
        normed: Tensor = visual.ln_pre(self._append_prompts(rows, prompts))
        return normed

    def _pool_image(self, rows: Tensor) -> Tensor:
        visual = self.model.visual
        pooled, _ = visual._pool(rows)
        features: Tensor = pooled @ visual.proj
        return features


def _text_of(model: Any) -> Any:
    """The module that has the text tower: CLIP itself, or a part of CustomTextCLIP."""
    return getattr(model, "text", model)


def _projection(text: Any) -> Linear:
    """The projection of a text tower: a Linear, a matrix (width, dim), or none."""
    projection = text.text_projection
    if projection is None:
        width = text.token_embedding.weight.shape[1]
        return Linear(torch.eye(width, device=text.token_embedding.weight.device), None)
    if isinstance(projection, nn.Linear):
        return Linear(projection.weight, projection.bias)
    return Linear(projection.T, None)


def _is_plain(transformer: Any) -> bool:
    """Whether a tower is built of CLIP's layers, perhaps with a LayerScale."""
    return all(
        isinstance(block.attn, nn.MultiheadAttention) and hasattr(block, "ls_1")
        for block in transformer.resblocks
    )


def _tower(blocks: Any, causal: bool, dtype: torch.dtype) -> Tower:
    layers = []
    for block in blocks:
        weights = block.attn.in_proj_weight.chunk(3)
        biases = block.attn.in_proj_bias.chunk(3)
        query, key, value = map(Linear, weights, biases)
        out, down = (
            Linear(part.weight, part.bias).scaled(getattr(scale, "gamma", 1.0))
            for part, scale in ((block.attn.out_proj, block.ls_1), (block.mlp.c_proj, block.ls_2))
        )
        layers.append(
            LayerParts(block.ln_1, query, key, value, out, block.ln_2, block.mlp.c_fc, down)
        )
    activation = blocks[0].mlp.gelu
    quick = type(activation).__name__ == "QuickGELU"
    heads = int(blocks[0].attn.num_heads)
    return Tower.build(layers, heads, None if quick else activation, causal, dtype)
