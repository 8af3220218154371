"""`ipl backbones`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipl.backbone.families import FAMILIES

Call = Callable[..., Any]


def test_every_family_with_what_it_allows(ipl: Call) -> None:
    text = ipl("backbones").out
    for family in FAMILIES.values():
        assert family.title in text
    assert "open_clip:ViT-B-16/laion2b_s34b_b88k" in text
    assert text.index("Weights on this machine") < text.index("pocket")


def test_json(ipl: Call) -> None:
    shown = ipl("backbones", "--json").json
    assert [each["family"] for each in shown["families"]] == list(FAMILIES)
    clip, siglip = shown["families"][0], shown["families"][2]
    assert clip["exports"] == ["text", "classifier", "onnx", "transformers"]
    assert (clip["search"], siglip["search"]) == ("prefix cache", "whole prompts")
    assert siglip["needs"] == "sentencepiece protobuf"
    assert shown["weights"][0]["name"] == "pocket"
    assert shown["weights"][0]["folder"].endswith("pocket")
