"""Tokenizers with PocketCLIP's words, as other models have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ipl.backbone.families import POCKET_FOLDER


def write_tokenizer(folder: Path, opens: bool, padding: str | None = None) -> None:
    """Writes PocketCLIP's words with a token at the end, and one in front where a text opens."""
    values = json.loads((POCKET_FOLDER / "tokenizer.json").read_text())
    start, end = values["added_tokens"][-2:]
    special = [start, end] if opens else [end]
    single: list[dict[str, Any]] = [{"Sequence": {"id": "A", "type_id": 0}}]
    single.append({"SpecialToken": {"id": end["content"], "type_id": 0}})
    if opens:
        single.insert(0, {"SpecialToken": {"id": start["content"], "type_id": 0}})
    values["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {
            token["content"]: {
                "id": token["content"],
                "ids": [token["id"]],
                "tokens": [token["content"]],
            }
            for token in special
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(values))
    config = dict.fromkeys(("eos_token", "sep_token", "unk_token"), end["content"])
    config |= {"pad_token": padding or end["content"], "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
