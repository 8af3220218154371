"""A frozen AltCLIP from `transformers`: CLIP's image tower beside a RoBERTa for many languages.

The text tower attends in both directions, its norms come after each addition, and the feature is
read at the first row instead of at EOS.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ipl.backbone.clip import ClipBackbone
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.replaced_rows import Enter, run_layers


class AltClipBackbone(ClipBackbone):
    """Both towers of one AltCLIP.

    The parameters are those of `Backbone`; `model` is a `transformers.AltCLIPModel`.
    """

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
        self.causal = False

    @property
    def positions(self) -> int:
        """Returns the number of tokens that a text may have, special tokens included."""
        return len(self._position_table)

    @property
    def text_layers(self) -> Any:
        """Returns the layers of the text tower."""
        return self.model.text_model.roberta.encoder.layers

    @staticmethod
    def _token_table(model: Any) -> Tensor:
        """Returns the embedding (tokens, width) of each token."""
        table: Tensor = model.text_model.roberta.embeddings.word_embeddings.weight
        return table

    @property
    def _position_table(self) -> Tensor:
        """Returns the embedding (positions, width) of each position of a text."""
        embeddings = self.model.text_model.roberta.embeddings
        table: Tensor = embeddings.position_embeddings.weight
        return table[embeddings.padding_idx + 1 :]  # RoBERTa counts from behind the padding

    def _encode_prompts(self, embeddings: Tensor, eos: Tensor, enter: Enter | None) -> Tensor:
        """Returns the features (prompts, dim) of prompts that fit in memory."""
        first = self.model.text_model.roberta.embeddings
        hidden = self._with_positions(embeddings) + first.token_type_embeddings.weight[0]
        tokens = torch.arange(hidden.shape[1], device=self.device)
        mask = (tokens <= eos[:, None])[:, None, None]  # (prompts, 1, 1, tokens): no padding
        hidden = run_layers(self.text_layers, first.LayerNorm(hidden), enter, mask)
        return self._project(hidden[:, 0])

    def _project(self, rows: Tensor) -> Tensor:
        """Returns the features (prompts, dim) of the first rows (prompts, width)."""
        text = self.model.text_model
        features: Tensor = self.model.text_projection(text.transformation(text.pre_LN(rows)))
        return features.float()
