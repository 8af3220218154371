"""`ipl serve` says what is wrong before it takes a port; what it serves is tested in serving/."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ipl.apps.hosts import listen
from ipl.apps.limits import Limits

Call = Callable[..., Any]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the limits of each server that would have been run."""
    seen: list[Any] = []
    monkeypatch.setattr(
        "ipl.apps.server.run_server", lambda app, bound, limits: seen.append(limits)
    )
    return seen


def test_its_options_are_the_limits(ipl: Call, saved_run: Path, served: list[Limits]) -> None:
    assert ipl("serve", saved_run, "--port", 0).code == 0
    changed = Limits(1, 2, 3, 4, 5, 6.0, 7.0, 8.0, 9, 10.0, 11)
    options = [
        "--max-bytes", 1, "--max-pixels", 2, "--max-classes", 3, "--max-text", 4,
        "--concurrency", 5, "--upload-seconds", 6, "--answer-seconds", 7, "--decode-seconds", 8,
        "--batch", 9, "--wait-ms", 10, "--class-lists", 11,
    ]  # fmt: skip
    assert ipl("serve", saved_run, "--port", 0, *options).code == 0
    assert served == [Limits(), changed]


def test_it_says_where_it_answers_and_who_can_reach_it(
    ipl: Call, saved_run: Path, served: list[Limits]
) -> None:
    told = ipl("serve", saved_run, "--port", 0)
    assert "answers at http://127.0.0.1:" in told.err
    assert "warning" not in told.err
    assert ipl("serve", saved_run, "--port", 0, "--quiet").err == ""
    told = ipl("serve", saved_run, "--port", 0, "--host", "0.0.0.0", "--quiet")
    assert "warning: 0.0.0.0 can be reached from other machines; there is no auth" in told.err


def test_who_may_ask(
    ipl: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        "ipl.apps.serve.app.create_app", lambda *given: seen.append(given[2:4]) or given
    )
    monkeypatch.setattr("ipl.apps.server.run_server", lambda *_: None)
    (home / "token").write_text("0123456789abcdef\n")
    options = ["--token-file", "token", "--allow-host", "proxy.example"]
    told = ipl("serve", saved_run, "--port", 0, "--host", "0.0.0.0", *options)
    assert told.code == 0, told.err
    assert "there is no TLS, so put" in told.err
    assert ipl("serve", saved_run, "--port", 0, "--allow-host", "*").code == 0
    (hosts, token), anyone = seen
    assert token == "0123456789abcdef"
    assert {"proxy.example", "localhost", "0.0.0.0"} <= hosts
    assert anyone == (None, None)
    assert "Cannot read the token in" in ipl("serve", saved_run, "--token-file", "no").error


def test_other_classes(
    ipl: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("ipl.apps.server.run_server", lambda app, *_: seen.append(app))
    (home / "names.txt").write_text("lake\n# by night\nisland\n")
    for given, names in (
        ('"lake, deep",island', ["lake, deep", "island"]),
        ("names.txt", ["lake", "island"]),
    ):
        assert ipl("serve", saved_run, "--port", 0, "--classes", given).code == 0
        assert seen.pop().state.service.model.about()["classes"] == names
    assert "at least two" in ipl("serve", saved_run, "--port", 0, "--classes", "lake").error
    assert "empty name" in ipl("serve", saved_run, "--port", 0, "--classes", "lake,_").error
    assert seen == []


def test_what_is_wrong_is_said(ipl: Call, saved_run: Path, home: Path, served: list[Any]) -> None:
    assert "nowhere" in ipl("serve", home / "nowhere").error
    assert "max_pixels is 0" in ipl("serve", saved_run, "--max-pixels", 0).error
    assert "concurrency is 0" in ipl("serve", saved_run, "--concurrency", 0).error
    with closing(listen("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} of '127.0.0.1'" in ipl("serve", saved_run, "--port", port).error
    assert served == []


@pytest.mark.parametrize("missing", ["fastapi", "python_multipart"])
def test_a_missing_package_is_named(
    missing: str, ipl: Call, saved_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    for module in ("ipl.apps.serve", "ipl.apps.serve.app"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    message = ipl("serve", saved_run).error
    assert missing in message
    assert "pip install 'ipl[serve]'" in message
