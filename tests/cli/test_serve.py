"""`ipl serve` says what is wrong before it takes a port; what it serves is tested in apps/."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ipl.apps import serve
from ipl.apps.serve import Limits, listen

Call = Callable[..., Any]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the application of each server that would have been run."""
    seen: list[Any] = []
    monkeypatch.setattr(serve, "run_server", lambda app, _: seen.append(app))
    return seen


def test_its_options_are_the_limits(ipl: Call, saved_run: Path, served: list[Any]) -> None:
    assert ipl("serve", saved_run, "--port", 0).code == 0
    options = ["--max-bytes", 1, "--max-pixels", 2, "--concurrency", 3]
    assert ipl("serve", saved_run, "--port", 0, *options).code == 0
    assert [app.state.service.limits for app in served] == [Limits(), Limits(1, 2, 3)]


def test_it_says_where_it_answers_and_who_can_reach_it(
    ipl: Call, saved_run: Path, home: Path, served: list[Any]
) -> None:
    told = ipl("serve", saved_run, "--port", 0)
    assert "answers at http://127.0.0.1:" in told.err
    assert "warning" not in told.err
    assert ipl("serve", saved_run, "--port", 0, "--quiet").err == ""
    everywhere = ("serve", saved_run, "--port", 0, "--host", "0.0.0.0", "--quiet")
    reached = "warning: 0.0.0.0 can be reached from other machines; there is no"
    assert f"{reached} authentication and no TLS" in ipl(*everywhere).err
    (home / "token").write_text("0123456789abcdef\n")
    assert f"{reached} TLS" in ipl(*everywhere, "--token-file", "token").err


def test_who_may_ask(
    ipl: Call, saved_run: Path, home: Path, served: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    create = serve.create_app
    monkeypatch.setattr(
        serve, "create_app", lambda *given: seen.append(given[2:4]) or create(*given)
    )
    (home / "token").write_text("0123456789abcdef\n")
    options = ["--token-file", "token", "--allow-host", "proxy.example"]
    assert ipl("serve", saved_run, "--port", 0, "--host", "0.0.0.0", *options).code == 0
    assert ipl("serve", saved_run, "--port", 0, "--allow-host", "*").code == 0
    (hosts, token), anyone = seen
    assert token == "0123456789abcdef"
    assert {"proxy.example", "localhost", "0.0.0.0"} <= hosts
    assert anyone == (None, None)


def test_other_classes(ipl: Call, saved_run: Path, served: list[Any]) -> None:
    assert ipl("serve", saved_run, "--port", 0, "--classes", '"lake, deep",island').code == 0
    assert served.pop().state.service.model.about()["classes"] == ["lake, deep", "island"]
    assert "at least two" in ipl("serve", saved_run, "--port", 0, "--classes", "lake").error
    assert served == []


def test_what_is_wrong_is_said(ipl: Call, saved_run: Path, home: Path, served: list[Any]) -> None:
    assert "nowhere" in ipl("serve", home / "nowhere").error
    assert "--max-pixels" in ipl("serve", saved_run, "--max-pixels", 0).error
    told = ipl("serve", saved_run, "--port", 0, "--max-pixels", 300_000_000)
    assert (told.code, "max_pixels is 300,000,000; it must be" in told.error) == (2, True)
    assert "No such file" in ipl("serve", saved_run, "--token-file", "no").error
    os.mkfifo(home / "pipe")
    for option in ("--token-file", "--classes"):
        told = ipl("serve", saved_run, "--port", 0, option, home / "pipe")
        assert (told.code, "pipe" in told.error) == (2, True)
    assert "of '999.1.1.1'" in ipl("serve", saved_run, "--host", "999.1.1.1").error
    with closing(listen("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        message = ipl("serve", saved_run, "--port", port).error
        assert f"port {port} of '127.0.0.1'" in message
        assert "--port 0 takes a free one" in message
    assert served == []


def test_a_missing_package_is_named(
    ipl: Call, saved_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ipl.support.extras.find_spec", lambda name: name != "prometheus_client" or None
    )
    message = ipl("serve", saved_run).error
    assert "prometheus_client" in message
    assert "pip install 'ipl[serve]'" in message
