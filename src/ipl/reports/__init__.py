"""What people see: tables and short texts about words, prompts and accuracies."""

from ipl.reports.fit import fit_report
from ipl.reports.learners import learners_table
from ipl.reports.predictions import (
    CsvWriter,
    JsonLinesWriter,
    ParquetWriter,
    TableWriter,
    Writer,
)
from ipl.reports.results import methods_summary, methods_table
from ipl.reports.words import selection_report, words_table

__all__ = [
    "CsvWriter",
    "JsonLinesWriter",
    "ParquetWriter",
    "TableWriter",
    "Writer",
    "fit_report",
    "learners_table",
    "methods_summary",
    "methods_table",
    "selection_report",
    "words_table",
]
