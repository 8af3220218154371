"""Which words to put into the prompt: objective, candidate scorer and greedy search."""

from ipl.selection.greedy import check_k, select_words
from ipl.selection.objective import Objective
from ipl.selection.scorer import CandidateScorer
from ipl.selection.template import DEFAULT_TEMPLATE, Template
from ipl.selection.trace import RankedWord, Selection, SelectionStep

__all__ = [
    "DEFAULT_TEMPLATE",
    "CandidateScorer",
    "Objective",
    "RankedWord",
    "Selection",
    "SelectionStep",
    "Template",
    "check_k",
    "select_words",
]
