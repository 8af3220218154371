"""What the JSON of a report leaves out."""

from __future__ import annotations

import json

from ipl.display.markdown import as_markdown
from ipl.explain.report import Analysis, report_document
from ipl.explain.report_values import report_values


def test_hashes_of_images_are_not_in_a_report(analysis: Analysis) -> None:
    hashes = [each for of_class in analysis.run.result.image_hashes for each in of_class]
    assert hashes
    shown = json.dumps(report_values(analysis)) + as_markdown(report_document(analysis))
    assert not any(digest in shown for digest in hashes)
