"""What a learnt prompt does, in numbers: its words, its vectors, its predictions, its chances."""

from ipl.analysis.analyse import Analysis, Missing, Settings, analyse
from ipl.analysis.chance import Chance, Draw, place_among
from ipl.analysis.compare import Compared, Comparison, compare_runs
from ipl.analysis.effects import ClassEffect, ImageEffect, WordEffect
from ipl.analysis.made import Made
from ipl.analysis.metrics import Calibration, Confused, Score
from ipl.analysis.outcomes import PLAIN, PROMPT, ZERO_SHOT, Method, Outcomes
from ipl.analysis.stability import Stability
from ipl.analysis.vectors import Vector, Vectors
from ipl.analysis.words import WordFacts

__all__ = [
    "PLAIN",
    "PROMPT",
    "ZERO_SHOT",
    "Analysis",
    "Calibration",
    "Chance",
    "ClassEffect",
    "Compared",
    "Comparison",
    "Confused",
    "Draw",
    "ImageEffect",
    "Made",
    "Method",
    "Missing",
    "Outcomes",
    "Score",
    "Settings",
    "Stability",
    "Vector",
    "Vectors",
    "WordEffect",
    "WordFacts",
    "analyse",
    "compare_runs",
    "place_among",
]
