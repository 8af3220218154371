"""The tokens nearest to vectors, against a plain loop over the vocabulary."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from ipl.backbone.backbone import Backbone
from ipl.bench.records import RunRecord
from ipl.bench.tables.tokens import PROMPTS, TENSORS, token_rows
from ipl.bench.tables.words_table import words_table
from tests.helpers.records import record


def test_nearest_of_the_whole_vocabulary(pocket: Backbone) -> None:
    generator = torch.Generator().manual_seed(0)
    ids = pocket.tokenize("furry")
    vectors = pocket.embed(ids) + 1e-4
    vectors = torch.cat([vectors, torch.randn(2, vectors.shape[1], generator=generator)])
    found = [first for (first,) in pocket.nearest_tokens(vectors)]
    assert found[0] == "furry"
    for vector, token in zip(vectors, found, strict=True):
        distances = [
            float((pocket.embed([i])[0] - vector).norm())
            for i in range(0, len(pocket.tokenizer), 97)
        ]
        (own,) = pocket.tokenizer.convert_tokens_to_ids([f"{token}</w>"])
        own_distance = float((pocket.embed([own])[0] - vector).norm())
        assert own_distance <= min(distances) + 1e-5 or token not in pocket.tokenizer.get_vocab()


def test_the_table_reads_the_prompts_that_were_kept(tmp_path: Path, pocket: Backbone) -> None:
    plain = RunRecord.from_dict(record(words=0, backbone="pocket"))
    assert token_rows(tmp_path, [plain]) == []
    folder = tmp_path / PROMPTS / plain.id
    folder.mkdir(parents=True)
    save_file({"soft": pocket.embed(pocket.tokenize("furry cat")).clone()}, folder / TENSORS)
    table = words_table(token_rows(tmp_path, [plain]))
    assert [row[1:4] for row in table.rows] == [
        ("CoOp: nearest tokens", "1", "furry, cat"),
        ("paper: nearest tokens", "", "tosc, enjoyment"),
    ]
