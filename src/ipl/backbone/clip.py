"""A frozen CLIP from `transformers`, run layer by layer so that prompts can enter anywhere.

MetaCLIP is saved as a CLIP, and MetaCLIP 2 has the same towers with another tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.folded_layers import TowerLayer
from ipl.backbone.image_tower import ImageTower, embed_patches
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.replaced_rows import Enter, run_layers
from ipl.backbone.text_tower import CausalText, TextTower


class ClipBackbone(Backbone):
    """Both towers of one CLIP: a text opens with SOS, and its feature is read at EOS.

    The parameters are those of `Backbone`; `model` is a `CLIPModel` or `MetaClip2Model`.
    """

    causal = True

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        preprocessing: Preprocessing,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
    ) -> None:
        super().__init__(name, model, tokenizer, preprocessing, device, precision)
        self._towers: dict[torch.dtype, TextTower] = {}

    @property
    def feature_dim(self) -> int:
        """Returns the dimension of the space that both towers share."""
        return int(self.model.config.projection_dim)

    @cached_property
    def sos(self) -> int:
        """Returns the id of the token that opens a text."""
        return int(self.tokenizer.bos_token_id)

    @property
    def opening(self) -> tuple[int, ...]:
        """Returns the token ids that stand before every text: SOS alone."""
        return (self.sos,)

    def text_tower(self, dtype: torch.dtype) -> TextTower:
        """Returns the causal text tower as plain matrices in a precision, built once."""
        if dtype not in self._towers:
            self._towers[dtype] = TextTower(causal_text(self.model), dtype)
        return self._towers[dtype]

    def _encode_prompts(self, embeddings: Tensor, eos: Tensor, enter: Enter | None) -> Tensor:
        """Returns the features (prompts, dim) of prompts that fit in memory."""
        hidden = self._with_positions(embeddings)
        hidden = run_layers(self.text_layers, hidden, enter, causal=True)
        return self._project(hidden[torch.arange(len(hidden), device=self.device), eos])

    def _project(self, rows: Tensor) -> Tensor:
        """Returns the features (prompts, dim) of the rows (prompts, width) at EOS."""
        norm = self.model.text_model.final_layer_norm
        features: Tensor = self.model.text_projection(norm(rows))
        return features.float()

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, enter: Enter | None = None
    ) -> Tensor:
        """Encode images, as described in `Backbone`; prompts pass the pre-norm like patch rows."""
        vision = self.model.vision_model
        hidden = vision.pre_layrnorm(self._patch_rows(pixels, prompts))
        if self.device.type == "cuda":
            first = self.image_tower.run(hidden, enter)
        else:
            first = run_layers(self.image_layers, hidden, enter)[:, 0]
        features: Tensor = self.model.visual_projection(vision.post_layernorm(first))
        return features.float()

    def _patch_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        """Returns the first rows (batch, rows, width) of the image tower, prompts at the end."""
        if self.device.type != "cuda":
            return super()._patch_rows(pixels, prompts)
        first = self.model.vision_model.embeddings
        patches = embed_patches(first.patch_embedding, pixels.to(self.device, self.dtype))
        hidden = torch.cat([first.class_embedding.expand(len(pixels), 1, -1), patches], dim=1)
        return self._append_prompts(hidden + first.position_embedding.weight, prompts)

    @cached_property
    def image_tower(self) -> ImageTower:
        """Returns the layers of the image tower as plain matrices."""
        return ImageTower(*_folded(self.model.vision_model.encoder.layers), self.dtype)


def causal_text(clip: Any) -> CausalText:
    """Returns the modules of a CLIP's text tower."""
    text = clip.text_model
    return CausalText(
        text.embeddings.position_embedding.weight,
        *_folded(text.encoder.layers),
        text.final_layer_norm,
        clip.text_projection,
    )


def _folded(layers: Any) -> tuple[list[TowerLayer], int, Callable[[Tensor], Tensor], bool]:
    """Returns what `FoldedLayers` needs of a tower's layers: modules, heads and activation."""
    modules = [
        TowerLayer(
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
    from transformers.activations import QuickGELUActivation  # seconds, unless a model is loaded

    quick = isinstance(activation, QuickGELUActivation)
    return modules, int(layers[0].self_attn.num_heads), activation, quick
