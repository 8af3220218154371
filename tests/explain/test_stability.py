"""The words of other draws are those that the search gives for them."""

from __future__ import annotations

from collections import Counter

from ipl.backbone.backbone import Backbone
from ipl.display.document import Document
from ipl.explain.inputs import LoadedRun, RunImages
from ipl.explain.report import report_values
from ipl.explain.stability import draw_with_replacement
from ipl.training.fit import search_settings


def test_the_words_of_a_draw_with_replacement(
    report: Document, run_images: RunImages, loaded: LoadedRun, pocket: Backbone
) -> None:
    found = report_values(report)["sections"]["stability"]["stability"]
    assert [len(words) for words in found["draws"]] == [2, 2]
    shots = run_images.shots
    assert shots is not None
    drawn = draw_with_replacement(shots, 2)
    assert set(drawn.items) < set(shots.items)
    assert Counter(i.label for i in drawn.items) == Counter(i.label for i in shots.items)
    search = search_settings(loaded.result.config, loaded.pool)
    again = search.choose(pocket, loaded.classes, drawn, 2)
    assert found["draws"][0] == list(again.words)
    for word in loaded.words:
        assert found["again"][word] == sum(word in words for words in found["draws"])
