"""Writes the package's files of frequencies and meanings anew, with wordfreq and WordNet.

    python -m ipl.words.freeze FOLDER

They have every word that passes the filters `alphabetic` and `one token` for the bundled backbone,
in the pool or not, so that such a word needs no dictionary.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ipl.backbone.loading import load_tokenizer
from ipl.support.files import write_text
from ipl.words import senses, zipf
from ipl.words.filters import is_alphabetic, is_one_token


def one_token_words() -> list[str]:
    """Returns the words that are one token of the bundled backbone, sorted."""
    tokenizer = load_tokenizer()
    words = {token.removesuffix("</w>") for token in tokenizer.get_vocab()}
    return sorted(word for word in words if is_alphabetic(word) and is_one_token(word, tokenizer))


def freeze(folder: Path) -> None:
    """Writes both files into a folder."""
    words = one_token_words()
    write_text(folder / zipf.FILE, zipf.zipf_file(words))
    write_text(folder / senses.FILE, senses.senses_file(words))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    freeze(parser.parse_args().folder)
