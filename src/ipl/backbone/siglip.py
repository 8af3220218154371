"""A frozen SigLIP from `transformers`, run layer by layer so that prompts can enter anywhere.

Three things differ from CLIP. No token opens a text. A text always fills all positions, every row
sees every other, and the feature is read at the last one, padding or not. The image feature is
pooled from all rows by attention instead of read at one.
"""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.replaced_rows import Enter, run_layers


class SiglipBackbone(Backbone):
    """Both towers of one SigLIP, with a text tower that attends in both directions.

    The parameters are those of `Backbone`; `model` is a `transformers.SiglipModel`. Logits stay
    scaled cosines: SigLIP's bias is one number for all classes and cancels in their softmax.
    """

    causal = False
    fills_positions = True

    @property
    def feature_dim(self) -> int:
        """Returns the dimension of the space that both towers share."""
        return int(self.model.text_model.head.out_features)

    @property
    def opening(self) -> tuple[int, ...]:
        """Returns no token: SigLIP never sees SOS, even if its tokenizer has one."""
        return ()

    @cached_property
    def pad(self) -> int:
        """Returns the id of the token that fills a text up to all positions."""
        return int(self.tokenizer.pad_token_id)

    def _encode_prompts(self, embeddings: Tensor, eos: Tensor, enter: Enter | None) -> Tensor:
        """Returns the features (prompts, dim) of prompts that fit in memory.

        Rows after each prompt's EOS become the pad token's, up to all positions, and every row
        sees them, as in SigLIP's training: a shared beginning cannot be run once for all.
        """
        rows = self._fill_positions(embeddings, eos, self.embed([self.pad]))
        hidden = run_layers(self.text_layers, self._with_positions(rows), enter)
        return self._project(hidden[:, -1])

    def _project(self, rows: Tensor) -> Tensor:
        """Returns the features (prompts, dim) of the last rows (prompts, width)."""
        text = self.model.text_model
        features: Tensor = text.head(text.final_layer_norm(rows))
        return features.float()

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, enter: Enter | None = None
    ) -> Tensor:
        """Encode images, as described in `Backbone`; prompts are pooled like patch rows."""
        vision = self.model.vision_model
        hidden = run_layers(self.image_layers, self._patch_rows(pixels, prompts), enter)
        features: Tensor = vision.head(vision.post_layernorm(hidden))
        return features.float()
