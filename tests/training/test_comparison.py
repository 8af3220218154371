"""The verdict on constructed cases, counts against direct ones, and what is kept of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.linear_probe import LinearProbe
from ipl.datasets.dataset import Item
from ipl.metrics import paired_difference
from ipl.support.errors import ConfigError
from ipl.training.comparison import (
    HEAD,
    LINEAR_PROBE,
    PROMPT,
    WITHOUT_WORDS,
    ZERO_SHOT,
    Comparison,
    Method,
    _note_duplicates,
    _note_offset,
    compare_predictions,
    near_duplicates,
)

CLASSES = ("cat", "dog")


def compare(gains: dict[str, tuple[int, int]], images: int = 200) -> Comparison:
    """Returns a comparison of two classes, with (gained, lost) of the prompt over each baseline."""
    prompt = images // 2
    methods = [
        Method(name, "", (prompt - gained + lost, 0), gained, lost)
        for name, (gained, lost) in gains.items()
    ]
    methods.append(Method(PROMPT, "", (prompt, 0)))
    return Comparison(CLASSES, (images, 0), tuple(methods))


def test_the_verdict_names_every_baseline() -> None:
    cases = {ZERO_SHOT: (60, 12), LINEAR_PROBE: (2, 22), WITHOUT_WORDS: (5, 3)}
    assert compare(cases).verdict == (
        "Better than zero-shot by 24 points (16 to 32).",
        "A linear probe is better by 10 points (5 to 16).",
        compare(cases).recommendation,
    )
    assert compare(cases).recommendation.startswith("Recommendation: a linear probe (")


def test_what_is_recommended_follows_from_the_numbers() -> None:
    better = compare({ZERO_SHOT: (60, 12), LINEAR_PROBE: (9, 7)}).recommendation
    assert better == (
        "Recommendation: the prompt alone; here it is not clearly better than a linear probe."
    )
    assert "zero-shot" in compare({ZERO_SHOT: (6, 4)}).recommendation
    right = torch.eye(2)[[0] * 50 + [1] * 50]
    labels = right.argmax(1)
    half = torch.eye(2)[[0] * 100]
    methods = [(ZERO_SHOT, "", half), (WITHOUT_WORDS, "", right), (PROMPT, "", half)]
    comparison = compare_predictions([*methods, (HEAD, "", right)], labels, CLASSES)
    assert comparison.recommendation.startswith("Recommendation: the prompt with its head")
    assert comparison.accuracy() == 1.0
    # The head does not count in what the words are worth.
    assert comparison.difference(comparison.methods[1]).value == -0.5


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (5, 0), (0, 5), (30, 20)])
def test_nobody_is_called_better_by_chance(gained: int, lost: int) -> None:
    sentence, _ = compare({ZERO_SHOT: (gained, lost)}).verdict
    assert sentence.startswith("Not distinguishable from zero-shot (")


def test_rounding_does_not_hide_on_which_side_of_0_an_interval_ends() -> None:
    many = compare({ZERO_SHOT: (130, 60)}, images=20_000)
    assert many.difference(many.methods[0]).low > 0
    assert many.verdict[:1] == ("Better than zero-shot by 0.4 points (0.2 to 0.5).",)
    least = next(g for g in range(7, 60) if paired_difference(g, 7, 200).is_clear)
    close = compare({ZERO_SHOT: (least, 7)})
    low = 100 * close.difference(close.methods[0]).low
    assert 0 < low < 0.5
    assert f"({low:.1f} to " in close.verdict[0]


def _random_predictions(
    count: int = 60,
) -> tuple[list[tuple[str, str, torch.Tensor]], torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 3, (count,), generator=generator)
    names = (ZERO_SHOT, LINEAR_PROBE, PROMPT)
    predictions = [(name, name, torch.randn(count, 3, generator=generator)) for name in names]
    return predictions, labels


def test_counts_as_counted_one_by_one() -> None:
    predictions, labels = _random_predictions()
    comparison = compare_predictions(predictions, labels, ("a", "b", "c"))
    right = {
        name: [int(row.argmax()) == int(label) for row, label in zip(values, labels, strict=True)]
        for name, _, values in predictions
    }
    for method in comparison.methods:
        own, prompt = right[method.name], right[PROMPT]
        assert method.correct == tuple(
            sum(own[i] for i in range(60) if labels[i] == label) for label in range(3)
        )
        assert method.gained == sum(p and not o for p, o in zip(prompt, own, strict=True))
        assert method.lost == sum(o and not p for p, o in zip(prompt, own, strict=True))
        assert comparison.accuracy(method) == sum(own) / 60
        low, high = comparison.interval(method)
        assert low < comparison.accuracy(method) < high
    assert comparison.prompt.gained == comparison.prompt.lost == 0
    assert sum(comparison.images) == comparison.total == 60


def test_what_is_written_is_read_back() -> None:
    predictions, labels = _random_predictions()
    comparison = compare_predictions(predictions, labels, ("a", "b", "c"), ["A note."])
    values = json.loads(json.dumps(comparison.as_dict()))
    assert Comparison.from_dict(values, ("a", "b", "c")) == comparison
    assert values["verdict"] == list(comparison.verdict)
    zero_shot = values["methods"][0]
    difference = paired_difference(zero_shot["gained"], zero_shot["lost"], 60)
    assert zero_shot["learnt_minus_this"] == vars(difference)
    assert zero_shot["interval"] == list(comparison.interval(comparison.methods[0]))


def test_contradicting_counts_are_refused() -> None:
    good = compare({ZERO_SHOT: (6, 2)})
    bad = [
        {"images": (0, 0)},
        {"images": (200,)},
        {"methods": ()},
        {"methods": good.methods[:1]},
        {"methods": (replace(good.methods[0], correct=(201, 0)), good.prompt)},
        {"methods": (replace(good.methods[0], gained=7), good.prompt)},
    ]
    for values in bad:
        with pytest.raises(ConfigError, match="contradict"):
            replace(good, **values)


def test_classes_are_worst_first_and_a_collapse_is_named() -> None:
    before = Method(ZERO_SHOT, "", (36, 10, 5, 0, 9), 20, 16)
    after = Method(PROMPT, "", (22, 30, 5, 0, 7))
    names = ("Persian", "Bengal", "Sphynx", "Birman", "Ragdoll")
    comparison = Comparison(names, (44, 44, 10, 0, 10), (before, after))
    assert comparison.collapsed() == (0,)  # two of ten images may be chance
    assert "Much worse than zero-shot for Persian (36 to 22 of 44)." in comparison.verdict
    table = comparison.class_table()
    assert [row[0] for row in table.rows] == ["Persian", "Ragdoll", "Sphynx", "Bengal"]
    assert list(table.rows[0]) == [
        *("Persian", "44", "36", "22", "50.0\N{NO-BREAK SPACE}%"),
        *("\N{MINUS SIGN}31.8 points", "collapses"),
    ]
    assert table.notes == ["No held-out image of Birman."]


def test_the_table_has_every_number() -> None:
    comparison = compare({ZERO_SHOT: (60, 12), LINEAR_PROBE: (2, 22)})
    rows = comparison.table().rows
    assert [row[0] for row in rows] == ["zero-shot CLIP", "linear probe", "this prompt"]
    assert rows[0][3:] == ("+24.0 points", "+15.8 to +32.2")
    assert rows[2][1:] == ("50.0\N{NO-BREAK SPACE}%", "43.1 to 56.9", "", "")


def test_confusions_are_named_pairs() -> None:
    logits = torch.tensor([[0.0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]])
    labels = torch.tensor([0, 0, 0, 1])
    comparison = compare_predictions([(PROMPT, "", logits)], labels, ("cat", "dog", "fox"))
    assert comparison.confusions == "Most often confused: cat taken for dog (2 of 3)."


@pytest.mark.parametrize(
    ("alphas", "says"),
    [((0.5, 0.0), None), ((0.0, 0.5), "zero-shot's logits instead of"), ((0.0, 0.0), "no text's")],
)
def test_a_head_without_the_prompts_logits_is_noted(
    alphas: tuple[float, float], says: str | None
) -> None:
    alpha, names_alpha = alphas
    head = LinearProbe(torch.zeros(2, 4), torch.zeros(2), 1.0, 5, alpha, names_alpha)
    notes = _note_offset(head)
    assert len(notes) == (says is not None)
    assert all(str(says) in note for note in notes)


def test_near_duplicates_are_found_where_images_differ_and_not_where_all_look_alike() -> None:
    generator = torch.Generator().manual_seed(0)
    shots = torch.nn.functional.normalize(torch.randn(20, 64, generator=generator), dim=1)
    noise = torch.randn(2, 64, generator=generator)
    copy = torch.nn.functional.normalize(shots[[7, 3]] + 0.01 * noise, dim=1)
    others = torch.nn.functional.normalize(torch.randn(5, 64, generator=generator), dim=1)
    held_out = torch.cat([others, copy])
    assert near_duplicates(shots, held_out) == [(5, 7), (6, 3)]
    items = tuple(Item(Path(f"{index}.png"), 0) for index in range(20))
    (note,) = _note_duplicates(
        LabelledFeatures(items, shots, ()), LabelledFeatures(items[:7], held_out, ())
    )
    assert note.startswith("2 of 7 held-out images repeat a training image")
    alike = torch.nn.functional.normalize(
        torch.ones(30, 64) + 0.05 * torch.randn(30, 64, generator=generator), dim=1
    )
    assert float((alike[20:] @ alike[:20].T).max(1).values.min()) > 0.99
    assert near_duplicates(alike[:20], alike[20:]) == []
    assert [image for image, _ in near_duplicates(alike[[0, 1, 0]], alike[:2])] == [0, 1]  # twice
    assert near_duplicates(shots[:0], others) == []
    assert near_duplicates(shots[:1], shots[:1]) == [(0, 0)]
