"""A frozen model of open_clip, run layer by layer so that prompts can enter anywhere.

Its text towers are causal like CLIP's, or fill all positions like SigLIP's. Its image towers are
vision transformers, which prompts can enter, or ResNets and models of timm, which they cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ipl.backbone.backbone import Backbone
from ipl.backbone.families import OPEN_CLIP
from ipl.backbone.folded_layers import TowerLayer, WeightAndBias
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.replaced_rows import Enter
from ipl.backbone.text_tower import CausalText, TextTower
from ipl.support.errors import BackboneError


class OpenClipTokenizer:
    """A tokenizer of open_clip with the methods of transformers that ipl uses.

    Parameters
    ----------
    tokenize : callable
        Returns the token ids of a text, without special tokens.
    vocabulary : dict
        The id of each token.
    opening : tuple of int
        The token ids that stand before every text.
    eos, padding : int
        The tokens that end a text and fill it up.
    special : sequence of int
        The ids of all special tokens.
    """

    def __init__(
        self,
        tokenize: Callable[[str], list[int]],
        vocabulary: dict[str, int],
        opening: tuple[int, ...],
        eos: int,
        padding: int,
        special: Sequence[int],
    ) -> None:
        self._tokenize, self._vocabulary = tokenize, vocabulary
        self.opening, self.eos_token_id, self.pad_token_id = opening, eos, padding
        self.all_special_ids = list(special)

    def __call__(
        self, texts: str | Sequence[str], add_special_tokens: bool = False, verbose: bool = False
    ) -> dict[str, Any]:
        """Returns the token ids of a text, or of each text, as "input_ids"."""
        if isinstance(texts, str):
            return {"input_ids": self.encode(texts, add_special_tokens, verbose)}
        return {"input_ids": [self.encode(text, add_special_tokens, verbose) for text in texts]}

    def encode(
        self, text: str, add_special_tokens: bool = False, verbose: bool = False
    ) -> list[int]:
        """Returns the token ids of a text."""
        del verbose
        ids = self._tokenize(text)
        return [*self.opening, *ids, self.eos_token_id] if add_special_tokens else ids

    def get_vocab(self) -> dict[str, int]:
        """Returns the id of each token."""
        return self._vocabulary


class OpenClipBackbone(Backbone):
    """Both towers of one model of open_clip.

    The parameters are those of `Backbone`, and `config`, the architecture as open_clip describes
    it; `model` is an `open_clip.CLIP` or an `open_clip.CustomTextCLIP`.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: OpenClipTokenizer,
        preprocessing: Preprocessing,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
        config: dict[str, Any] | None = None,
    ) -> None:
        self.config = config or {}
        super().__init__(name, model, tokenizer, preprocessing, device, precision)
        text = _text_of(model)
        # CLIP keeps its text tower's settings under names of their own.
        self._pooling = text.pool_type if text is not model else model.text_pool_type
        self._sees_backwards_only = text.attn_mask is not None
        self.fills_positions = not self._sees_backwards_only or self._pooling == "last"
        self.causal = not self.fills_positions and _is_plain(text)
        self._takes_prompts = hasattr(model.visual, "transformer")
        self._towers: dict[torch.dtype, TextTower] = {}

    # -- dimensions, read from the model --------------------------------------------------------

    @property
    def family(self) -> str:
        """Returns the family of the model, as `ipl backbones` lists them."""
        return OPEN_CLIP

    @property
    def text_width(self) -> int:
        """Returns the width of the text tower."""
        return int(self._token_embeddings.shape[1])

    @property
    def image_width(self) -> int:
        """Returns the width of the image tower; 0 if it takes no prompts."""
        return int(self.model.visual.class_embedding.shape[0]) if self._takes_prompts else 0

    @property
    def feature_dim(self) -> int:
        """Returns the dimension of the space that both towers share."""
        text = _text_of(self.model)
        if text.text_projection is None:
            return self.text_width
        return int(_projection(text).weight.shape[0])

    @property
    def positions(self) -> int:
        """Returns the number of tokens that a text may have, special tokens included."""
        return len(self._position_table)

    @property
    def text_layers(self) -> Any:
        """Returns the layers of the text tower."""
        return _text_of(self.model).transformer.resblocks

    @property
    def image_layers(self) -> Any:
        """Returns the layers of the image tower that prompts can enter; empty if there are none."""
        return self.model.visual.transformer.resblocks if self._takes_prompts else ()

    @staticmethod
    def _token_table(model: Any) -> Tensor:
        """Returns the embedding (tokens, width) of each token."""
        table: Tensor = _text_of(model).token_embedding.weight
        return table

    @property
    def _position_table(self) -> Tensor:
        """Returns the embedding (positions, width) of each position of a text."""
        table: Tensor = _text_of(self.model).positional_embedding
        return table

    @property
    def _mlp_width(self) -> int:
        """Returns the width of the text tower's MLPs."""
        return int(self.text_layers[0].mlp.c_fc.out_features)

    def _architecture(self) -> dict[str, Any]:
        """Returns what decides a feature beside the weights, as plain values."""
        return self.config

    @property
    def opening(self) -> tuple[int, ...]:
        """Returns the token ids that stand before every text; empty if there are none."""
        opening: tuple[int, ...] = self.tokenizer.opening
        return opening

    # -- text -----------------------------------------------------------------------------------

    def text_tower(self, dtype: torch.dtype) -> TextTower:
        """Returns the causal text tower as plain matrices in a precision, built once."""
        if not self.causal:
            return super().text_tower(dtype)
        if dtype not in self._towers:
            self._towers[dtype] = TextTower(_causal_text(_text_of(self.model)), dtype)
        return self._towers[dtype]

    def _encode_prompts(self, embeddings: Tensor, eos: Tensor, enter: Enter | None) -> Tensor:
        """Returns the features (prompts, dim) of prompts that fit in memory."""
        text = _text_of(self.model)
        if self.fills_positions:
            padding = self.embed([self.tokenizer.pad_token_id])
            embeddings = self._fill_positions(embeddings, eos, padding)
        hidden = self._with_positions(embeddings)
        tokens = hidden.shape[1]
        mask = text.attn_mask[:tokens, :tokens] if self._sees_backwards_only else None
        hidden = _run_blocks(self.text_layers, hidden, enter, mask)
        rows = {"first": 0, "last": -1}.get(self._pooling, eos)
        return self._project(hidden[torch.arange(len(hidden), device=self.device), rows])

    def _project(self, rows: Tensor) -> Tensor:
        """Returns the features (prompts, dim) of the rows (prompts, width) that are pooled."""
        text = _text_of(self.model)
        features: Tensor = text.ln_final(rows)
        if text.text_projection is not None:
            features = nn.functional.linear(features, *_projection(text))
        return features.float()

    # -- images ---------------------------------------------------------------------------------

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, enter: Enter | None = None
    ) -> Tensor:
        """Encode images, as described in `Backbone`; prompts pass the pre-norm like patch rows.

        Raises
        ------
        BackboneError
            If there are prompts, and the image tower is not a vision transformer.
        """
        visual, pixels = self.model.visual, pixels.to(self.device, self.dtype)
        features: Tensor
        if not self._takes_prompts:
            if prompts is not None or enter is not None:
                raise BackboneError(f"The image tower of {self.name} takes no prompts.")
            features = visual(pixels)
            return features.float()
        hidden = visual.ln_pre(self._patch_rows(pixels, prompts))
        pooled, _ = visual._pool(_run_blocks(self.image_layers, hidden, enter))
        features = pooled @ visual.proj
        return features.float()

    def _patch_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        """Returns the first rows (batch, rows, width) of the image tower, prompts at the end."""
        visual = self.model.visual
        patches = visual.conv1(pixels).flatten(2).transpose(1, 2)
        start = visual.class_embedding.expand(patches.shape[0], 1, -1)  # no len: ONNX
        hidden = torch.cat([start, patches], dim=1) + visual.positional_embedding
        return self._append_prompts(hidden, prompts)


def _text_of(model: Any) -> Any:
    """Returns the module that has the text tower: CLIP itself, or a part of CustomTextCLIP."""
    return getattr(model, "text", model)


def _projection(text: Any) -> WeightAndBias:
    """Returns the projection of a text tower, a Linear or a matrix (width, dim)."""
    projection = text.text_projection
    if isinstance(projection, nn.Linear):
        return WeightAndBias(projection.weight, projection.bias)
    return WeightAndBias(projection.T, None)


def _run_blocks(
    blocks: Any, hidden: Tensor, enter: Enter | None, mask: Tensor | None = None
) -> Tensor:
    """Returns the rows (batch, rows, width) after all blocks; `mask` is added to the scores."""
    for index, block in enumerate(blocks):
        if enter is not None:
            hidden = enter(index, hidden)
        hidden = block(hidden, attn_mask=mask)
    return hidden


def _is_plain(text: Any) -> bool:
    """Returns whether a text tower is built of CLIP's layers, which `TextTower` knows."""
    return text.text_projection is not None and all(
        isinstance(block.attn, nn.MultiheadAttention) and isinstance(block.ls_1, nn.Identity)
        for block in text.transformer.resblocks
    )


def _causal_text(text: Any) -> CausalText:
    """Returns the modules of a plain text tower."""
    blocks, layers = text.transformer.resblocks, []
    for block in blocks:
        weights = block.attn.in_proj_weight.chunk(3)
        biases = block.attn.in_proj_bias.chunk(3)
        query, key, value = map(WeightAndBias, weights, biases)
        mlp = block.mlp
        layers.append(
            TowerLayer(
                block.ln_1, query, key, value, block.attn.out_proj, block.ln_2, mlp.c_fc, mlp.c_proj
            )
        )
    activation = blocks[0].mlp.gelu
    return CausalText(
        text.positional_embedding,
        layers,
        int(blocks[0].attn.num_heads),
        activation,
        type(activation).__name__ == "QuickGELU",
        text.ln_final,
        _projection(text),
    )
