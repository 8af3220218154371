"""The interface to one frozen vision-language model: tokens, features, where prompts enter.

Each family implements it in a file of its own (`ClipBackbone`, `SiglipBackbone`, ...), and
`load_backbone` chooses between them. Learners, the word search, prompts and inference know this
class alone. What it says about the modules of a model is true of most models of transformers; a
family overrides what differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad
from torch.utils.checkpoint import checkpoint

from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.replaced_rows import Enter
from ipl.backbone.shared_prefix import SharedPrompts, run_shared
from ipl.backbone.text_tower import TextTower
from ipl.support.errors import BackboneError, ConfigError, DataError

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Bytes of activations kept for gradients; beyond it, parts run again in the backward pass.
ACTIVATION_BYTES = 4 << 30
TEXTS_AT_ONCE = 1024  # plain strings that are encoded together


class Backbone(ABC):
    """Both towers of one model, frozen, with its tokenizer and image transform.

    Features leave as fp32 and unnormalised, whatever precision the towers compute in.

    Parameters
    ----------
    name : str
        The name or folder that the model was loaded from.
    model : torch.nn.Module
        The model with both towers. It is frozen and moved to the device.
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer, or one with the same methods.
    preprocessing : Preprocessing
        The model's image transform.
    device : torch.device or str, default="cpu"
        Where the towers run.
    precision : {"fp32", "bf16", "fp16"}, default="fp32"
        Precision of the weights. A CPU computes in fp32 with the rounded weights.

    Attributes
    ----------
    causal : bool
        Whether a row of the text tower sees only itself and the rows before it, so that beginnings
        can be shared between prompts.
    fills_positions : bool
        Whether a text always has all positions: the rows after EOS are padding, and are seen.
    dtype : torch.dtype
        The precision in which the towers compute.
    logit_scale : float
        The factor 1/tau of the cosine in `logits`.
    weights_sha256 : str
        A hash of all weights, the same for every precision and device.
    """

    causal: bool
    fills_positions: bool = False

    def __init__(
        self,
        name: str,
        model: Any,
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
        # Half precision is slow on a CPU, and crashes virtual machines that announce AMX without
        # having it: there, weights are rounded to half and computed with in fp32.
        self.dtype = dtype if self.device.type != "cpu" else torch.float32
        self.weights_sha256 = hash_weights(model)  # before the cast: one hash for every precision
        # Token embeddings stay fp32, because the prompts that are made of them do.
        self._token_embeddings = self._token_table(model).detach().float().to(self.device)
        self.logit_scale = float(model.logit_scale.detach().exp())
        self.model = model.eval().requires_grad_(False).to(dtype).to(self.device, self.dtype)
        self._word_tokens: dict[str, int] = {}

    # -- dimensions, read from the model --------------------------------------------------------

    @property
    def family(self) -> str:
        """Returns the family of the model, as `ipl backbones` lists them."""
        return str(self.model.config.model_type)

    @property
    def text_width(self) -> int:
        """Returns the width of the text tower."""
        return int(self.model.config.text_config.hidden_size)

    @property
    def image_width(self) -> int:
        """Returns the width of the image tower; 0 if it takes no prompts."""
        return int(self.model.config.vision_config.hidden_size)

    @property
    @abstractmethod
    def feature_dim(self) -> int:
        """Returns the dimension of the space that both towers share."""

    @property
    def positions(self) -> int:
        """Returns the number of tokens that a text may have, special tokens included."""
        return int(self.model.config.text_config.max_position_embeddings)

    @property
    def text_layers(self) -> Any:
        """Returns the layers of the text tower."""
        return self.model.text_model.encoder.layers

    @property
    def image_layers(self) -> Any:
        """Returns the layers of the image tower that prompts can enter; empty if there are none."""
        return self.model.vision_model.encoder.layers

    @staticmethod
    def _token_table(model: Any) -> Tensor:
        """Returns the embedding (tokens, width) of each token."""
        table: Tensor = model.text_model.embeddings.token_embedding.weight
        return table

    @property
    def _position_table(self) -> Tensor:
        """Returns the embedding (positions, width) of each position of a text."""
        table: Tensor = self.model.text_model.embeddings.position_embedding.weight
        return table

    @property
    def _mlp_width(self) -> int:
        """Returns the width of the text tower's MLPs."""
        return int(self.model.config.text_config.intermediate_size)

    # -- identity -------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """Returns a SHA-256 of everything but the device that decides a feature, for cache keys."""
        parts = [self.weights_sha256, self.precision, self.preprocessing.as_dict()]
        parts += [self._architecture(), self.tokenizer.get_vocab()]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _architecture(self) -> dict[str, Any]:
        """Returns what decides a feature beside the weights, as plain values."""
        config = self.model.config.to_dict()
        names = ("text_config", "vision_config", "projection_dim")
        towers = {name: config.get(name) for name in names}
        for tower in towers.values():  # where it was loaded from, and by which version, is no part
            if isinstance(tower, dict):
                for key in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
                    tower.pop(key, None)
        return towers

    # -- tokens ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def opening(self) -> tuple[int, ...]:
        """Returns the token ids that stand before every text; empty if there are none."""

    @cached_property
    def eos(self) -> int:
        """Returns the id of the token that ends a text."""
        return int(self.tokenizer.eos_token_id)

    def tokenize(self, text: str) -> list[int]:
        """Tokenize a text, without the special tokens around it.

        Parameters
        ----------
        text : str
            Any text that the tokenizer can read.

        Returns
        -------
        list of int
            Token ids.

        Raises
        ------
        DataError
            If the text contains a special token or a character unknown to the tokenizer.
        """
        return self._tokenize([text])[0]

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each text."""
        given = list(texts)
        ids = self.tokenizer(given, add_special_tokens=False, verbose=False)["input_ids"]
        # An unknown character becomes CLIP's EOS token, which would end the prompt right there.
        special = {self.eos, *self.opening}
        for text, row in zip(given, ids, strict=True):
            if not special.isdisjoint(row):
                raise DataError(
                    f"{text!r} contains a special token or a character that {self.name} cannot "
                    "read."
                )
        return [list(row) for row in ids]

    def tokenize_words(self, words: Sequence[str]) -> list[int]:
        """Tokenize words that are one token each; the ids are remembered.

        Parameters
        ----------
        words : sequence of str
            Candidate words.

        Returns
        -------
        list of int
            One token id per word.

        Raises
        ------
        ConfigError
            If a word is more than one token, or a special one.
        """
        new = [word for word in words if word not in self._word_tokens]
        if new:
            token_lists = self.tokenizer(new, add_special_tokens=False)["input_ids"]
            for word, ids in zip(new, token_lists, strict=True):
                if len(ids) != 1 or ids[0] in (self.eos, *self.opening):
                    raise ConfigError(
                        f"{word!r} is {len(ids)} tokens of {self.name}, or a special one; a "
                        "candidate must be exactly one ordinary token."
                    )
                self._word_tokens[word] = int(ids[0])
        return [self._word_tokens[word] for word in words]

    def embed(self, ids: Sequence[int] | Tensor) -> Tensor:
        """Look up token embeddings, without positions.

        Parameters
        ----------
        ids : sequence of int or Tensor
            Token ids of any shape.

        Returns
        -------
        Tensor
            Embeddings in fp32, of the shape of `ids` and the text width.
        """
        indices = torch.as_tensor(ids, dtype=torch.long, device=self.device)
        embeddings: Tensor = self._token_embeddings[indices]
        return embeddings

    # -- text -----------------------------------------------------------------------------------

    def encode_text(self, embeddings: Tensor, eos: Tensor, enter: Enter | None = None) -> Tensor:
        """Encode prompts that are given as token embeddings.

        Gradients flow to the embeddings. If the activations for them would not fit in memory, the
        prompts are run in parts, each a second time in the backward pass.

        Parameters
        ----------
        embeddings : Tensor of shape (prompts, tokens, width)
            Token embeddings, from the opening tokens to EOS; the rows after EOS are padding and
            do not change the result.
        eos : Tensor of shape (prompts,)
            The row of each prompt's EOS token.
        enter : callable, optional
            Called as `enter(layer, hidden)` before each layer; what it returns takes the place of
            the hidden states.

        Returns
        -------
        Tensor of shape (prompts, feature_dim)
            Features in fp32, not normalised.

        Raises
        ------
        BackboneError
            If a prompt is longer than `positions`.
        """
        fit = self._prompts_that_fit(
            self.positions if self.fills_positions else embeddings.shape[1], embeddings
        )
        if len(embeddings) <= fit:
            return self._encode_prompts(embeddings, eos, enter)
        parts = zip(embeddings.split(fit // 4 or 1), eos.split(fit // 4 or 1), strict=True)
        return torch.cat([_run_again(self._encode_prompts, *part, enter) for part in parts])

    def encode_shared(self, prompts: SharedPrompts, enter: Enter | None = None) -> Tensor:
        """Encode prompts with the same beginning, which a causal tower runs once for all.

        Parameters
        ----------
        prompts : SharedPrompts
            The prompts. Gradients flow to their beginnings and endings, as in `encode_text`.
        enter : callable, optional
            As in `encode_text`; in a causal tower it gets the beginnings alone.

        Returns
        -------
        Tensor of shape (prompts, feature_dim)
            Features in fp32, not normalised: those of `encode_text`, up to rounding.

        Raises
        ------
        BackboneError
            If a prompt is longer than `positions`.
        """
        if not self.causal or not prompts.beginnings.shape[1]:
            return self.encode_text(prompts.whole(), prompts.eos, enter)
        fit = self._prompts_that_fit(prompts.endings.shape[1], prompts.beginnings, prompts.endings)
        if len(prompts.endings) <= fit:
            return self._encode_shared(prompts, enter)
        parts = prompts.parts(fit // 4 or 1)
        return torch.cat([_run_again(self._encode_shared, part, enter) for part in parts])

    def _prompts_that_fit(self, tokens: int, *embeddings: Tensor) -> int:
        """Returns how many prompts of so many rows of their own can be run at once."""
        if not (torch.is_grad_enabled() and any(each.requires_grad for each in embeddings)):
            return sys.maxsize
        row_activations = 8 * self.text_width + self._mlp_width  # numbers per layer
        row_bytes = row_activations * len(self.text_layers) * self.dtype.itemsize
        return ACTIVATION_BYTES // (tokens * row_bytes)

    @abstractmethod
    def _encode_prompts(self, embeddings: Tensor, eos: Tensor, enter: Enter | None) -> Tensor:
        """Returns the features (prompts, dim) of prompts that fit in memory."""

    def _encode_shared(self, prompts: SharedPrompts, enter: Enter | None) -> Tensor:
        """Returns the features (prompts, dim) of prompts that fit in memory, in a causal tower."""
        beginnings, endings, eos, own_rows = prompts
        rows = SharedPrompts(
            self._with_positions(beginnings),
            self._with_positions(endings, beginnings.shape[1]),
            eos,
            own_rows,
        )
        return self._project(run_shared(self.text_tower(self.dtype), rows, enter))

    @abstractmethod
    def _project(self, rows: Tensor) -> Tensor:
        """Returns the features (prompts, dim) of the rows (prompts, width) they are read from."""

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encode plain strings, without gradients.

        Parameters
        ----------
        texts : sequence of str
            One or more texts.

        Returns
        -------
        Tensor of shape (texts, feature_dim)
            Features in fp32, not normalised.

        Raises
        ------
        BackboneError
            If a text is longer than `positions`.
        DataError
            If a text contains a special token or a character unknown to the tokenizer.
        """
        ids = [[*self.opening, *row, self.eos] for row in self._tokenize(texts)]
        parts = (ids[start : start + TEXTS_AT_ONCE] for start in range(0, len(ids), TEXTS_AT_ONCE))
        with torch.no_grad():
            return torch.cat([self._encode_ids(part) for part in parts])

    def _encode_ids(self, ids: Sequence[list[int]]) -> Tensor:
        """Returns the features (texts, dim) of token ids from the first to EOS."""
        longest = max(len(row) for row in ids)
        padded = torch.tensor([row + [self.eos] * (longest - len(row)) for row in ids])
        eos = torch.tensor([len(row) - 1 for row in ids], device=self.device)
        return self.encode_text(self.embed(padded), eos)

    def text_tower(self, dtype: torch.dtype) -> TextTower:
        """Returns the causal text tower as plain matrices in a precision, built once."""
        del dtype
        raise BackboneError(f"The text tower of {self.name} has no causal form.")

    def _with_positions(self, embeddings: Tensor, first: int = 0) -> Tensor:
        """Returns embeddings (prompts, tokens, width) from a position on, with that added."""
        tokens = first + embeddings.shape[1]
        if tokens > self.positions:
            raise BackboneError(
                f"A prompt of {tokens} tokens does not fit the {self.positions} positions of "
                f"{self.name}."
            )
        return embeddings.to(self.dtype) + self._position_table[first:tokens]

    def _fill_positions(self, embeddings: Tensor, eos: Tensor, padding: Tensor) -> Tensor:
        """Returns embeddings (prompts, positions, width) with `padding` (1, width) after EOS."""
        rows = pad(embeddings, (0, 0, 0, max(0, self.positions - embeddings.shape[1])))
        after_eos = torch.arange(rows.shape[1], device=self.device) > eos[:, None]
        return torch.where(after_eos[..., None], padding, rows)

    # -- images ---------------------------------------------------------------------------------

    @abstractmethod
    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, enter: Enter | None = None
    ) -> Tensor:
        """Encode images.

        Parameters
        ----------
        pixels : Tensor of shape (batch, 3, height, width)
            Normalised pixels, as `preprocessing.normalise` returns them.
        prompts : Tensor of shape (rows, width) or (batch, rows, width), optional
            Rows that are appended after the patch rows, behind the position embedding.
        enter : callable, optional
            Called as `enter(layer, hidden)` before each layer; what it returns takes the place of
            the hidden states.

        Returns
        -------
        Tensor of shape (batch, feature_dim)
            Features in fp32, not normalised.
        """

    def _patch_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        """Returns the first rows (batch, rows, width) of the image tower, prompts at the end."""
        hidden: Tensor = self.model.vision_model.embeddings(pixels.to(self.device, self.dtype))
        return self._append_prompts(hidden, prompts)

    def _append_prompts(self, hidden: Tensor, prompts: Tensor | None) -> Tensor:
        """Returns rows (batch, rows, width) with the prompts after them."""
        if prompts is None:
            return hidden
        rows = prompts.to(self.dtype).expand(hidden.shape[0], *prompts.shape[-2:])
        return torch.cat([hidden, rows], dim=1)

    def no_features(self) -> Tensor:
        """Returns the features (0, dim) of no image."""
        return torch.zeros(0, self.feature_dim, device=self.device)

    # -- together -------------------------------------------------------------------------------

    def logits(self, image_features: Tensor, text_features: Tensor) -> Tensor:
        """Compare image and text features: the scaled cosine cos(u, y) / tau.

        Parameters
        ----------
        image_features : Tensor of shape (..., images, feature_dim)
            Image features, normalised or not.
        text_features : Tensor of shape (..., classes, feature_dim)
            Text features, normalised or not.

        Returns
        -------
        Tensor of shape (..., images, classes)
            Logits.
        """
        images, texts = normalize(image_features, dim=-1), normalize(text_features, dim=-1)
        return self.logit_scale * images @ texts.transpose(-1, -2)


# -- helpers of all families ----------------------------------------------------------------------


def check_precision(precision: str) -> None:
    """Raises ConfigError unless the precision is a known one."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision is {precision!r}; allowed are {', '.join(PRECISIONS)}.")


def hash_weights(model: Any) -> str:
    """Returns a SHA-256 of all weights as fp32, whatever file, order or names they came in."""
    digests = []
    for tensor in model.state_dict().values():
        value = tensor.detach().to("cpu", torch.float32).contiguous()
        digest = hashlib.sha256(repr(tuple(value.shape)).encode())
        digest.update(memoryview(value.reshape(-1).numpy()).cast("B"))
        digests.append(digest.digest())
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def _run_again(encode: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Returns encode(*arguments), which runs a second time in the backward pass."""
    features: Tensor = checkpoint(encode, *arguments, use_reentrant=False, preserve_rng_state=False)
    return features
