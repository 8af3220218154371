"""A frozen SigLIP: a text tower that looks both ways, and image rows pooled by attention.

Three things differ from CLIP. No token opens a text. A text always fills all positions, and its
feature is read at the last of them, padding or not. The image feature is pooled from all rows
instead of read at one.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from ipl.backbone.clip import Backbone, Enter, run_layers


class SiglipBackbone(Backbone):
    """Both towers of one SigLIP, frozen, with its tokenizer and image transform."""

    # Logits stay scale * cosine: SigLIP's bias is one number for all classes and cancels in their
    # softmax.
    causal = False
    # A tokenizer may know such a token (SigLIP 2's does), but SigLIP never sees it.
    sos = None  # type: ignore[assignment]
    opening = ()

    @property
    def feature_dim(self) -> int:
        """Returns the dimension of the shared space."""
        return int(self.clip.text_model.head.out_features)

    @cached_property
    def pad(self) -> int:
        """Returns the id of the token that fills a text up to all positions."""
        return int(self.tokenizer.pad_token_id)

    def _encode_text(
        self, embeddings: Tensor, eos: Tensor, enter: Enter | None, shared: int, groups: int
    ) -> Tensor:
        """Returns features (prompts, dim) of token embeddings (prompts, tokens, width).

        Rows after each prompt's EOS become the pad token's, up to all positions, and every row
        sees them, as in SigLIP's training: no beginning can be run once for all.
        """
        del shared, groups
        room = max(0, self.positions - embeddings.shape[1])
        rows = functional.pad(embeddings, (0, 0, 0, room))
        after = torch.arange(rows.shape[1], device=self.device) > eos[:, None]
        hidden = self._with_positions(torch.where(after[..., None], self.embed([self.pad]), rows))
        hidden = run_layers(self.text_layers, hidden, enter)
        text = self.clip.text_model
        features: Tensor = text.head(text.final_layer_norm(hidden[:, -1]))
        return features.float()

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, enter: Enter | None = None
    ) -> Tensor:
        """Returns features (batch, dim) of normalised pixels (batch, 3, height, width).

        `prompts` (rows, width) or (batch, rows, width) are appended after the patch rows, after
        the position embedding, and pooled with them; `enter` may rewrite rows before any layer.
        """
        vision = self.clip.vision_model
        hidden = run_layers(self.image_layers, self._patch_rows(pixels, prompts), enter)
        features: Tensor = vision.head(vision.post_layernorm(hidden))
        return features.float()
