"""A frozen CLIP from `transformers`.

MetaCLIP is saved as a CLIP, and MetaCLIP 2 has the same towers with another tokenizer.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.tower import LayerParts, Linear, TextTower, Tower


class ClipBackbone(Backbone):
    """Both towers of one CLIP: a text opens with SOS, and its feature is read at EOS.

    The parameters are those of `Backbone`; `model` is a `CLIPModel` or `MetaClip2Model`.
    """

    causal = True
    image_row = 0

    @cached_property
    def sos(self) -> int:
        return int(self.tokenizer.bos_token_id)

    @property
    def opening(self) -> tuple[int, ...]:
        return (self.sos,)

    def _build_text_tower(self, dtype: torch.dtype) -> TextTower:
        return text_tower(self.model.text_model, self.model.text_projection, True, dtype)

    def _build_image_tower(self) -> Tower:
        return tower(self.model.vision_model.encoder.layers, False, self.dtype)

    def _image_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        vision = self.model.vision_model
        rows: Tensor = vision.pre_layrnorm(self._append_prompts(vision.embeddings(pixels), prompts))
        return rows

    def _pool_image(self, rows: Tensor) -> Tensor:
        norm = self.model.vision_model.post_layernorm
        features: Tensor = self.model.visual_projection(norm(rows[:, 0]))
        return features


def text_tower(text: Any, projection: Any, causal: bool, dtype: torch.dtype) -> TextTower:
    """The text tower of a model of transformers in a precision."""
    return TextTower(
        tower(text.encoder.layers, causal, dtype),
        text.embeddings.position_embedding.weight.detach().to(dtype),
        Linear(projection.weight, projection.bias).fold_norm(text.final_layer_norm).to(dtype),
    )


def tower(layers: Any, causal: bool, dtype: torch.dtype) -> Tower:
    """The layers of a tower of transformers in a precision."""
    from transformers.activations import QuickGELUActivation  # seconds, unless a model is loaded

    parts = [
        LayerParts(
            layer.layer_norm1,
            layer.self_attn.q_proj,
            layer.self_attn.k_proj,
            layer.self_attn.v_proj,
            layer.self_attn.out_proj,
            layer.layer_norm2,
            layer.mlp.fc1,
            layer.mlp.fc2,
        )
        for layer in layers
    ]
    activation = layers[0].mlp.activation_fn
    quick = isinstance(activation, QuickGELUActivation)
    heads = int(layers[0].self_attn.num_heads)
    return Tower.build(parts, heads, None if quick else activation, causal, dtype)
