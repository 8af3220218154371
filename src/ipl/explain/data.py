"""What the sections of a report share: the images, and what is computed on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipl.explain.run import RunImages
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import Comparison

if TYPE_CHECKING:
    from ipl.explain.effects import WordEffects


@dataclass(frozen=True)
class ReportData:
    """The images of a report and what several sections need; without images only what is saved."""

    comparison: Comparison | None  # computed now, else as saved with the run
    resamples: int = 5  # draws of the training images for which words are chosen again
    path: Path | None = None  # of the data
    words_file: Path | None = None
    images: RunImages | None = None
    effects: WordEffects | None = None
    reporter: Reporter = SILENT
