"""A frozen CLIP from `transformers`, walked layer by layer so that prompts can enter anywhere.

Features leave as fp32 and unnormalised, whatever precision the towers compute in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.chunks import in_parts
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.shared_prefix import run_shared
from ipl.backbone.text_tower import TextTower
from ipl.support.errors import BackboneError, ConfigError, DataError

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Called before each layer with (layer, hidden states); returns the hidden states to go on with.
Enter = Callable[[int, Tensor], Tensor]


class Backbone:
    """Both towers of one CLIP, frozen, with its tokenizer and image transform."""

    causal = True  # a text row sees only itself and the rows before it

    def __init__(
        self,
        name: str,
        clip: Any,  # transformers.CLIPModel
        tokenizer: Any,
        preprocessing: Preprocessing,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
    ) -> None:
        check_precision(precision)
        self.name = name
        self.tokenizer = tokenizer
        self.preprocessing = preprocessing
        self.device = torch.device(device)
        self.precision = precision
        dtype = PRECISIONS[precision]
        # Half precision on a CPU is slow, and virtual machines that promise AMX without having it
        # die of it: there, weights are rounded to half and computed with in fp32.
        self.dtype = dtype if self.device.type != "cpu" else torch.float32
        self.weights_sha256 = hash_weights(clip)  # before the cast: one hash for every precision
        # Token rows stay fp32: they are what prompts are made of, and prompts are kept in fp32.
        self._token_rows = clip.text_model.embeddings.token_embedding.weight.detach().float()
        self._token_rows = self._token_rows.to(self.device)
        self.logit_scale = float(clip.logit_scale.detach().exp())
        if not getattr(clip.config.text_config, "is_causal", True):
            self.causal = False
        self.clip = clip.eval().requires_grad_(False).to(dtype).to(self.device, self.dtype)
        self._towers: dict[torch.dtype, TextTower] = {}
        self._word_tokens: dict[str, int] = {}

    # -- dimensions, read from the model --------------------------------------------------------

    @property
    def text_width(self) -> int:
        """Returns the width of the text tower."""
        return int(self.clip.config.text_config.hidden_size)

    @property
    def image_width(self) -> int:
        """Returns the width of the image tower."""
        return int(self.clip.config.vision_config.hidden_size)

    @property
    def feature_dim(self) -> int:
        """Returns the dimension of the shared space."""
        return int(self.clip.config.projection_dim)

    @property
    def positions(self) -> int:
        """Returns how many tokens a text may have, SOS and EOS included."""
        return int(self.clip.config.text_config.max_position_embeddings)

    @property
    def text_layers(self) -> Any:
        """Returns the layers of the text tower."""
        return self.clip.text_model.encoder.layers

    @property
    def image_layers(self) -> Any:
        """Returns the layers of the image tower."""
        return self.clip.vision_model.encoder.layers

    # -- text -----------------------------------------------------------------------------------

    @cached_property
    def sos(self) -> int:
        """Returns the id of the token that opens a text."""
        return int(self.tokenizer.bos_token_id)

    @property
    def opening(self) -> tuple[int, ...]:
        """Returns the ids that stand before every text."""
        return (self.sos,)

    @cached_property
    def eos(self) -> int:
        """Returns the id of the token that closes a text and carries its feature."""
        return int(self.tokenizer.eos_token_id)

    def tokenize(self, text: str) -> list[int]:
        """Returns the token ids of a text, without SOS and EOS."""
        ids = list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        # An unknown character becomes CLIP's EOS token, which would end the prompt right there.
        if self.eos in ids or self.sos in ids:
            raise DataError(
                f"{text!r} holds a special token, or a character that {self.name} cannot read."
            )
        return ids

    def tokenize_words(self, words: Sequence[str]) -> list[int]:
        """Returns the one token of each word; a whole pool costs its time only once."""
        new = [word for word in words if word not in self._word_tokens]
        if new:
            found = self.tokenizer(new, add_special_tokens=False)["input_ids"]
            for word, ids in zip(new, found, strict=True):
                if len(ids) != 1 or ids[0] in (self.eos, *self.opening):
                    raise ConfigError(
                        f"{word!r} is {len(ids)} tokens of {self.name}, or a special one; a "
                        "candidate must be one."
                    )
                self._word_tokens[word] = int(ids[0])
        return [self._word_tokens[word] for word in words]

    def embed(self, ids: Sequence[int] | Tensor) -> Tensor:
        """Returns the token embeddings of ids in fp32, a row each; positions are added later."""
        rows: Tensor = self._token_rows[torch.as_tensor(ids, dtype=torch.long, device=self.device)]
        return rows

    def encode_text(
        self,
        embeddings: Tensor,
        eos: Tensor,
        enter: Enter | None = None,
        shared: int = 0,
        groups: int = 1,
    ) -> Tensor:
        """Returns features (prompts, dim) of token embeddings (prompts, tokens, width).

        `eos` holds each prompt's EOS row; what stands after it is padding, which that row never
        sees. `shared` says how many first rows are the same in every prompt (of each of `groups`
        equal parts); a causal tower then runs them once. `enter` may rewrite rows before any layer;
        with `shared`, those rows alone.
        """
        if not self.causal:
            shared = 0

        def encode(rows: Tensor, places: Tensor, parts: int) -> Tensor:
            return self._encode_text(rows, places, enter, shared, parts)

        text = self.clip.config.text_config
        kept = 8 * text.hidden_size + text.intermediate_size  # numbers per row and layer
        tokens = embeddings.shape[1] - shared if self.causal else self.positions
        each_bytes = tokens * kept * len(self.text_layers) * self.dtype.itemsize
        return in_parts(encode, embeddings, eos, groups, each_bytes)

    def _encode_text(
        self, embeddings: Tensor, eos: Tensor, enter: Enter | None, shared: int, groups: int
    ) -> Tensor:
        text = self.clip.text_model
        hidden = self._with_positions(embeddings)
        if shared:
            hidden = run_shared(self.text_tower(self.dtype), hidden, shared, enter, groups)
            eos = eos - shared
        else:
            seen = None
            if not self.causal:  # then padding has to be hidden: (prompts, 1, 1, tokens)
                tokens = torch.arange(hidden.shape[1], device=self.device)
                seen = (tokens <= eos[:, None])[:, None, None]
            hidden = run_layers(self.text_layers, hidden, enter, seen, self.causal)
        hidden = hidden[torch.arange(len(hidden), device=self.device), eos]
        features: Tensor = self.clip.text_projection(text.final_layer_norm(hidden))
        return features.float()

    def _with_positions(self, embeddings: Tensor) -> Tensor:
        tokens = embeddings.shape[1]
        if tokens > self.positions:
            raise BackboneError(
                f"A prompt of {tokens} tokens does not fit the {self.positions} positions of "
                f"{self.name}."
            )
        positions: Tensor = self.clip.text_model.embeddings.position_embedding.weight[:tokens]
        return embeddings.to(self.dtype) + positions

    @cached_property
    def fingerprint(self) -> str:
        """Returns a SHA-256 of all that decides a feature but the device: for keys of a cache."""
        config = self.clip.config.to_dict()
        ours = {key: config.get(key) for key in ("text_config", "vision_config", "projection_dim")}
        for part in ours.values():  # where it was loaded from, and by what version, is no matter
            if isinstance(part, dict):
                for key in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
                    part.pop(key, None)
        parts = [self.weights_sha256, self.precision, self.preprocessing.as_dict(), ours]
        parts.append(self.tokenizer.get_vocab())
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def text_tower(self, dtype: torch.dtype) -> TextTower:
        """Returns a causal text tower as plain matrices in a precision, made once."""
        if dtype not in self._towers:
            self._towers[dtype] = TextTower(self.clip, dtype)
        return self._towers[dtype]

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Returns features (texts, dim) of plain strings, padded only to the longest of them."""
        ids = [[*self.opening, *self.tokenize(text), self.eos] for text in texts]
        longest = max(len(row) for row in ids)
        padded = torch.tensor([row + [self.eos] * (longest - len(row)) for row in ids])
        eos = torch.tensor([len(row) - 1 for row in ids], device=self.device)
        with torch.no_grad():
            return self.encode_text(self.embed(padded), eos)

    # -- images ---------------------------------------------------------------------------------

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, enter: Enter | None = None
    ) -> Tensor:
        """Returns features (batch, dim) of normalised pixels (batch, 3, height, width).

        `prompts` (rows, width) or (batch, rows, width) are appended after the patch rows, after
        the position embedding and before the pre-norm; `enter` may rewrite rows before any layer.
        """
        vision = self.clip.vision_model
        hidden = vision.pre_layrnorm(self._patch_rows(pixels, prompts))
        hidden = run_layers(self.image_layers, hidden, enter)
        features: Tensor = self.clip.visual_projection(vision.post_layernorm(hidden[:, 0]))
        return features.float()

    def _patch_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        """Returns the first rows (batch, rows, width) of the image tower, prompts at the end."""
        hidden: Tensor = self.clip.vision_model.embeddings(pixels.to(self.device, self.dtype))
        if prompts is None:
            return hidden
        rows = prompts.to(self.dtype).expand(hidden.shape[0], *prompts.shape[-2:])
        return torch.cat([hidden, rows], dim=1)

    def no_features(self) -> Tensor:
        """Returns the features (0, dim) of no image."""
        return torch.zeros(0, self.feature_dim, device=self.device)

    # -- together -------------------------------------------------------------------------------

    def logits(self, image_features: Tensor, text_features: Tensor) -> Tensor:
        """Returns cos(u, y)/tau for features (..., images, dim) and (..., classes, dim)."""
        images, texts = normalize(image_features, dim=-1), normalize(text_features, dim=-1)
        return self.logit_scale * images @ texts.transpose(-1, -2)


def run_layers(
    layers: Any,
    hidden: Tensor,
    enter: Enter | None = None,
    seen: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """Returns the rows (batch, rows, width) after all layers; `seen` masks what they attend to."""
    for number, layer in enumerate(layers):
        if enter is not None:
            hidden = enter(number, hidden)
        hidden = layer(hidden, seen, is_causal=causal)
    return hidden


def check_precision(precision: str) -> None:
    """Raises ConfigError unless the precision is one we know."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision is {precision!r}; allowed are {', '.join(PRECISIONS)}.")


def hash_weights(clip: Any) -> str:
    """Returns a SHA-256 of all weights as fp32, whatever file, order or names they came in."""
    digests = []
    for tensor in clip.state_dict().values():
        value = tensor.detach().to("cpu", torch.float32).contiguous()
        digest = hashlib.sha256(repr(tuple(value.shape)).encode())
        digest.update(memoryview(value.reshape(-1).numpy()).cast("B"))
        digests.append(digest.digest())
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()
