"""The JSON of a report keeps its keys."""

from __future__ import annotations

import json

from ipl.display.markdown import as_markdown
from ipl.explain.report import Analysis, report_document
from ipl.explain.report_values import report_values


def test_the_keys_of_the_json_stay(analysis: Analysis) -> None:
    values = report_values(analysis)
    assert set(values) == {
        *("run", "prompt", "words", "classes", "classes_as_saved", "notes", "data", "chosen"),
        *("results_when_trained", "diminishing_returns", "held_out", "effects", "chance"),
        *(
            "stopped_before",
            "stability",
            "outcomes",
            "vectors",
            "plain_learner",
            "made",
            "missing",
        ),
        "doubtful_images",
    }
    keys = {
        "chosen": "word gain utility redundancy loss best place lead earlier certified sense "
        "certainty how_sure",
        "effects": "frequency prompt words change replacements",
        "chance": "frequency chosen draws places_by_loss of",
        "stability": "how shared resamples counts near",
        "outcomes": "methods classes images novel_classes novel_images why_no_novel comparison",
        "vectors": "vectors others word_norm",
        "plain_learner": "how vectors",
        "made": "settings times versions losses about_losses command unsaid",
    }
    for part, names in keys.items():
        value = values[part][0] if isinstance(values[part], list) else values[part]
        assert list(value) == names.split(), part
    effect, draw = values["effects"]["words"][0], values["chance"]["draws"][0]
    assert " ".join(effect) == (
        "word change replacements classes_helped classes_hurt images_helped images_hurt"
    )
    assert list(effect["change"]) == ["mean", "low", "high"]
    assert list(effect["replacements"][0]) == ["words", "score"]
    assert list(draw) == ["words", "shots_loss", "test_loss", "prompt"]
    methods, vector = values["outcomes"]["methods"], values["vectors"]["vectors"][0]
    assert [method["name"] for method in methods] == ["zero-shot", "plain", "prompt"]
    compared = values["outcomes"]["comparison"]["methods"]
    assert [method["name"] for method in compared] == [
        "zero-shot",
        "linear-probe",
        "plain",
        "prompt",
    ]
    assert " ".join(methods[0]) == "name how test calibration confused counts novel"
    assert " ".join(vector) == "group number norm nearest nearest_at_start moved start_norm"


def test_hashes_of_images_are_not_in_a_report(analysis: Analysis) -> None:
    hashes = [each for of_class in analysis.run.result.image_hashes for each in of_class]
    assert hashes
    shown = json.dumps(report_values(analysis)) + as_markdown(report_document(analysis))
    assert not any(digest in shown for digest in hashes)
