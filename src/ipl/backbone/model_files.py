"""Where a backbone's files are, and what they say without its weights: sizes and tokens.

Nothing here needs torch, so that a command that computes nothing answers at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipl.backbone.families import BACKBONES, OPEN_CLIP_CONFIG, POCKET, PREFIX
from ipl.support.errors import BackboneError, did_you_mean
from ipl.support.files import is_folder


@dataclass(frozen=True)
class BackboneSizes:
    """The sizes of both towers that decide how many parameters a prompt has."""

    text_width: int
    text_layers: int
    image_width: int
    image_layers: int
    feature_dim: int


def find_model(name: str) -> str:
    """Returns the folder or hub name that a user's name for a backbone means.

    Raises
    ------
    BackboneError
        If it is neither the bundled one, nor a folder with a model, nor a name on the hub.
    """
    if name.startswith(PREFIX):  # open_clip knows its own names
        return name
    if name == POCKET:
        return str(Path(__file__).parent / "pocket")
    if name and is_folder(Path(name)):
        if not (Path(name) / "config.json").is_file():
            if (Path(name) / OPEN_CLIP_CONFIG).is_file():
                raise BackboneError(
                    f"The folder {name} contains a model of open_clip; write {PREFIX}{name}."
                )
            raise BackboneError(
                f"The folder {name} contains no CLIP: config.json is missing. A Hugging Face model "
                "folder has config.json, model.safetensors, tokenizer and preprocessor files."
            )
        return name
    # More slashes than owner/name has, or a leading dot or slash, mean a missing folder.
    owner, _, model = name.partition("/")
    if owner and model and "/" not in model and owner[0] not in "./~":
        return name
    raise BackboneError(f"There is no backbone or folder {name!r}.{did_you_mean(name, BACKBONES)}")


def read_sizes(name: str) -> BackboneSizes | None:
    """Returns the sizes in a backbone's config.json; None if the file does not state them all."""
    path = Path(find_model(name)) / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        text, image = values["text_config"], values["vision_config"]
        sizes = BackboneSizes(
            text["hidden_size"],
            text["num_hidden_layers"],
            image["hidden_size"],
            image["num_hidden_layers"],
            values["projection_dim"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return sizes if all(isinstance(size, int) for size in vars(sizes).values()) else None


class BundledTokenizer:
    """The tokenizer of the bundled backbone, for questions about single words.

    It gives the tokens that the tokenizer of `transformers` gives, which reads the same file.
    """

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        path = Path(find_model(POCKET)) / "tokenizer.json"
        self._tokenizer: Any = Tokenizer.from_file(str(path))
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = [number for number, token in added.items() if token.special]

    @property
    def all_special_ids(self) -> list[int]:
        """Returns the tokens that stand for no text."""
        return self._special

    def encode(self, text: str, *, add_special_tokens: bool, verbose: bool) -> list[int]:
        """Returns the tokens of a text."""
        del verbose
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def vocabulary(self) -> list[str]:
        """Returns the tokens as the file spells them; one that ends a word ends with `</w>`."""
        return list(self._tokenizer.get_vocab())
