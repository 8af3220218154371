"""Methods: which runs are one row, and what the row is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.helpers.records import record
from tests.helpers.result_tables import result_table


def labels(folder: Path, *records: dict[str, Any]) -> list[str]:
    return [method.label for method in result_table(folder, *records).methods]


def test_different_settings_are_different_rows(tmp_path: Path) -> None:
    runs = [record(seed=seed, lr=lr) for seed in (1, 2) for lr in (0.01, 0.002)]
    runs += [record(words=0), record(words=3), record(backbone="pocket", lr=0.002)]
    name = "openai/clip-vit-base-patch16"
    assert labels(tmp_path, *runs) == [
        "CoOp",
        f"CoOp + IPL (lr 0.002, words 3, backbone {name})",
        f"CoOp + IPL (lr 0.002, words paper, backbone {name})",
        "CoOp + IPL (lr 0.002, words paper, backbone pocket)",
        f"CoOp + IPL (lr 0.01, words paper, backbone {name})",
    ]


def test_a_setting_that_changes_with_the_dataset_is_one_row_and_a_note(tmp_path: Path) -> None:
    table = result_table(tmp_path, record("oxford_pets", words=3), record("eurosat", words=1))
    assert [method.label for method in table.methods] == ["CoOp + IPL"]
    assert table.notes[:-1] == ()  # so it is in the paper
    runs = [record("oxford_pets", epochs=20), record("eurosat", epochs=40)]
    other = result_table(tmp_path / "other", *runs)
    assert [method.label for method in other.methods] == ["CoOp + IPL"]
    assert other.notes[:-1] == (
        "CoOp + IPL has different epochs for datasets (40: eurosat; 20: oxford_pets).",
    )


def test_order_and_names(tmp_path: Path) -> None:
    learners = ("promptsrc", "maple", "zero-shot", "kgcoop", "coop", "cocoop")
    assert labels(tmp_path, *(record(learner=name, words=0) for name in learners)) == [
        "zero-shot CLIP",
        "CoOp",
        "CoCoOp",
        "KgCoOp",
        "MaPLe",
        "PromptSRC",
    ]


def test_a_run_that_failed_before_the_weights_were_read_is_in_its_row(tmp_path: Path) -> None:
    failed = record(seed=1, error="The backbone is gone.")
    failed["backbone"]["weights_sha256"] = None
    runs = [failed, record(seed=2), *(record(words=0, seed=seed) for seed in (1, 2))]
    table = result_table(tmp_path, *runs)
    assert [method.label for method in table.methods] == ["CoOp", "CoOp + IPL"]
    assert len(table.gains) == 1


def test_other_weights_under_the_same_name_are_another_row(tmp_path: Path) -> None:
    other = record(seed=2)
    other["backbone"]["weights_sha256"] = "cd" * 32
    assert labels(tmp_path, record(seed=1), other) == [
        "CoOp + IPL (weights abababab)",
        "CoOp + IPL (weights cdcdcdcd)",
    ]
