"""A frozen SigLIP from `transformers`.

Three things differ from CLIP. No token opens a text. A text always fills all positions, every row
sees every other, and the feature is read at the last one, padding or not. The image feature is
pooled from all rows by attention instead of read at one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import text_tower, tower
from ipl.backbone.tower import TextTower, Tower


class SiglipBackbone(Backbone):
    """Both towers of one SigLIP, with a text tower that attends in both directions.

    The parameters are those of `Backbone`; `model` is a `transformers.SiglipModel`. Logits stay
    scaled cosines: SigLIP's bias is one number for all classes and cancels in their softmax.
    """

    causal = False

    @property
    def opening(self) -> tuple[int, ...]:
        return ()  # SigLIP never sees SOS, even if its tokenizer has one

    def _build_text_tower(self, dtype: torch.dtype) -> TextTower:
        text = self.model.text_model
        return text_tower(text, text.head, False, dtype)

    def _build_image_tower(self) -> Tower:
        return tower(self.model.vision_model.encoder.layers, False, self.dtype)

    def _image_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        return self._append_prompts(self.model.vision_model.embeddings(pixels), prompts)

    def _pool_image(self, rows: Tensor) -> Tensor:
        vision = self.model.vision_model
        features: Tensor = vision.head(vision.post_layernorm(rows))  # attention over all rows
        return features
