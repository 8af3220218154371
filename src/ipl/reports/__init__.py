"""What people see: tables and short texts about words, prompts and accuracies."""

from ipl.reports.fit import fit_report
from ipl.reports.learners import learners_table
from ipl.reports.predictions import predictions_table
from ipl.reports.results import methods_summary, methods_table
from ipl.reports.words import selection_report, words_table

__all__ = [
    "fit_report",
    "learners_table",
    "methods_summary",
    "methods_table",
    "predictions_table",
    "selection_report",
    "words_table",
]
