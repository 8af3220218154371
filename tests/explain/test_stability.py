"""The words of other shots are those that the search gives for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ipl.backbone.backbone import Backbone
from ipl.datasets.fewshot import sample_shots
from ipl.explain.report import Analysis, ReportSettings, analyse_run
from ipl.select import select_words
from ipl.words.pool import Pool

MakeRun = Callable[..., Path]


def test_shots_all_used_are_drawn_with_replacement(analysis: Analysis) -> None:
    assert analysis.stability is not None
    assert "with replacement" in analysis.stability.how
    assert analysis.stability.shared is None
    assert sum(times for _, times in analysis.stability.counts) == 4


def test_other_shots_give_the_words_of_their_seed(
    pocket: Backbone, make_run: MakeRun, six_scenes: Path, pool_file: Path, pool: Pool
) -> None:
    run = make_run("coop", 2, shots=2)
    settings = ReportSettings(resamples=1)
    analysis = analyse_run(run, six_scenes, settings, pocket, words_file=pool_file, cache=False)
    assert analysis.stability is not None
    assert analysis.run_images is not None
    again = select_words(
        analysis.run_images.dataset, 2, backbone=pocket, shots=2, seed=2, pool=pool, cache=False
    )
    assert analysis.stability.resamples[0].words == again.words
    items = analysis.run_images.dataset.train
    one, two = (set(sample_shots(items, 2, seed=seed)) for seed in (1, 2))
    assert analysis.stability.shared == len(one & two) / 8 > 0
    assert f"on average {100 * analysis.stability.shared:.0f} % of a draw" in analysis.stability.how
