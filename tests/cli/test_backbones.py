"""`ipl backbones`."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO

from rich.console import Console
from typer.testing import CliRunner

from ipl.backbone.families import FAMILIES
from ipl.cli.backbones import families_tables
from ipl.cli.main import app

# What the command runs, and then whether it has loaded anything heavy.
SCRIPT = """
import sys
from ipl.cli.main import app
app(["backbones"], standalone_mode=False)
heavy = {"torch", "transformers", "matplotlib"} & set(sys.modules)
sys.exit(", ".join(sorted(heavy)) or 0)
"""


def test_every_family_with_what_it_allows() -> None:
    text = CliRunner().invoke(app, ["backbones"]).stdout
    for family in FAMILIES.values():
        assert family.title in text
    assert "open_clip:ViT-B-16/laion2b_s34b_b88k" in text
    assert text.index("Weights on this machine") < text.index("pocket")


def test_on_a_narrow_terminal_no_name_is_cut() -> None:
    for table in families_tables():
        console = Console(width=80, file=StringIO())
        console.print(table.to_terminal())
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        assert "\N{HORIZONTAL ELLIPSIS}" not in shown
        for family in FAMILIES.values():
            assert family.title in shown
        if "--backbone, for example" in table.columns:
            assert "facebook/metaclip-2-worldwide-huge-quickgelu" in shown


def test_json() -> None:
    shown = json.loads(CliRunner().invoke(app, ["backbones", "--json"]).stdout)
    assert [each["family"] for each in shown["families"]] == list(FAMILIES)
    clip, siglip = shown["families"][0], shown["families"][2]
    assert clip["exports"] == ["text", "classifier", "onnx", "transformers"]
    assert (clip["search"], siglip["search"]) == ("prefix cache", "whole prompts")
    assert siglip["needs"] == "sentencepiece protobuf"
    assert shown["weights"][0]["name"] == "pocket"
    assert shown["weights"][0]["folder"].endswith("pocket")


def test_it_answers_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
