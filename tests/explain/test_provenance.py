"""The command that makes a run again."""

from __future__ import annotations

import copy
import shlex
from dataclasses import replace

from ipl.config import FitConfig, fit_settings
from ipl.explain.inputs import LoadedRun, ReportData
from ipl.explain.provenance import provenance_section
from tests.helpers.saved_runs import make_result


def test_every_setting_that_is_no_default_is_named(loaded: LoadedRun) -> None:
    config = FitConfig(
        backbone="o/clip", words=1, epochs=12, lr=0.1, shots=4, views="fresh", precision="bf16",
        placeholder="zero", lambda_=0.5, preset="reference", word_embedding="token",
        search="exhaustive", template="a {cls}; {words}", device="cpu", cache=False,
    )  # fmt: skip
    classifier = copy.copy(loaded.classifier)
    classifier.result_ = make_result(config=config)
    section = provenance_section(ReportData(replace(loaded, classifier=classifier), None))
    options = shlex.split(section.values["command"])
    assert options[:3] == ["ipl", "fit", "DATA"]
    for setting in fit_settings():
        value = getattr(config, setting.name)
        named = setting.changes_result and value != setting.default
        assert (setting.flag in options) == named
        if named:
            assert options[options.index(str(setting.flag)) + 1] == str(value)
