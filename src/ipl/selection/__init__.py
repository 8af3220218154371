"""Which words to put into the prompt: objective, candidate scorer and greedy search."""

from ipl.selection.greedy import check_k, greedy_search
from ipl.selection.modes import MODES, Mode, Search, Start, Step
from ipl.selection.objective import Objective
from ipl.selection.pick import WordChoice, select_words
from ipl.selection.scorer import CandidateScorer
from ipl.selection.shots import Seen, draw_shots, look
from ipl.selection.template import DEFAULT_TEMPLATE, Template
from ipl.selection.trace import RankedWord, Selection, SelectionStep

__all__ = [
    "DEFAULT_TEMPLATE",
    "MODES",
    "CandidateScorer",
    "Mode",
    "Objective",
    "RankedWord",
    "Search",
    "Seen",
    "Selection",
    "SelectionStep",
    "Start",
    "Step",
    "Template",
    "WordChoice",
    "check_k",
    "draw_shots",
    "greedy_search",
    "look",
    "select_words",
]
