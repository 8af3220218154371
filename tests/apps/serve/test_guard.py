"""The service answers to its own names, to those who have the token, and counts what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ipl import PromptClassifier
from ipl.apps.hosts import LOCAL_HOSTS
from ipl.apps.limits import Limits
from ipl.apps.serve.app import create_app
from ipl.apps.serve.guard import read_token
from ipl.apps.serve.metrics import Metrics
from ipl.support.errors import ConfigError
from tests.helpers.serving import sentence, upload

TOKEN = "0123456789abcdef"


@pytest.fixture
def guarded(classifier: PromptClassifier) -> Iterator[TestClient]:
    """Yields a client of a service that has a token and the names of this machine."""
    app = create_app(classifier, Limits(wait_ms=0), LOCAL_HOSTS, TOKEN)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def numbers(client: TestClient) -> dict[str, float]:
    """Returns the numbers of /metrics by name and labels."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z_]+(\{[^{}]*\})? [0-9.]+", line) for line in lines), lines
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.mark.parametrize("path", ["/prompt", "/healthz"])
def test_another_name_for_this_machine_reads_nothing(path: str, guarded: TestClient) -> None:
    headers = {"Host": "evil.example", "Authorization": f"Bearer {TOKEN}"}
    assert "'evil.example', which is not allowed" in sentence(
        guarded.get(path, headers=headers), 403
    )
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
        assert guarded.get(path, headers={**headers, "Host": host}).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [None, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"],
)
def test_without_the_token_there_is_no_answer(
    sent: str | None, guarded: TestClient, beach: bytes
) -> None:
    if sent is not None:
        guarded.headers["Authorization"] = sent
    for response in (guarded.get("/prompt"), guarded.get("/"), upload(guarded, beach)):
        assert "Authorization is missing or wrong" in sentence(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"
    assert guarded.get("/healthz").status_code == 200  # for the load balancer
    guarded.headers["Authorization"] = f"Bearer {TOKEN}"
    assert upload(guarded, beach).status_code == 200


def test_a_token_is_one_long_word(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for text in ("short", "two words of a token", "0123456789abcdef\n0123456789abcdef"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="one word of 16"):
            read_token(file)
    file.write_bytes(b"\xff" * 20)
    with pytest.raises(ConfigError, match="not ASCII"):
        read_token(file)
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN


def test_every_response_is_protected(client: TestClient) -> None:
    for path in ("/", "/prompt", "/no-such-page"):
        headers = client.get(path).headers
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_metrics_count_requests(guarded: TestClient, beach: bytes) -> None:
    token = {"Authorization": f"Bearer {TOKEN}"}
    guarded.get("/prompt", headers={**token, "Host": "evil.example"})
    guarded.get("/prompt")
    guarded.headers.update(token)
    assert upload(guarded, beach).status_code == 200
    upload(guarded, b"not an image")
    for path in ("/a", "/b"):
        guarded.get(path)
    service = guarded.app.state.service  # type: ignore[attr-defined]
    service.batcher.work = lambda _: 1 / 0
    assert "division" not in sentence(upload(guarded, beach), 500)  # that is for the log
    service.gate.capacity = 0
    assert upload(guarded, beach).status_code == 503
    found = numbers(guarded)
    for status in (200, 415, 500, 503):
        assert found[f'ipl_requests_total{{path="/predict",status="{status}"}}'] == 1
    assert found['ipl_requests_total{path="other",status="404"}'] == 2  # one name for all others
    for reason in ("host", "token", "busy"):
        assert found[f'ipl_rejected_total{{reason="{reason}"}}'] == 1
    assert found["ipl_predict_seconds_count"] == found['ipl_predict_seconds_bucket{le="+Inf"}'] == 4
    assert found["ipl_predict_seconds_sum"] > 0
    assert found["ipl_images_total"] == 2
    assert found["ipl_requests_inside"] == found["ipl_images_waiting"] == 0


def test_the_histogram_adds_up() -> None:
    metrics = Metrics()
    for seconds in (0.01, 0.011, 0.3, 99.0):
        metrics.record("/predict", 200, seconds)
    metrics.record("/prompt", 200, 1.0)  # not a prediction
    text = metrics.text({}, {})
    counts = dict(re.findall(r'bucket\{le="([^"]+)"\} (\d+)', text))
    assert [counts[bound] for bound in ("0.01", "0.025", "0.25", "0.5", "30.0", "+Inf")] == [
        *("1", "2", "2", "3", "3", "4")
    ]
    assert "ipl_predict_seconds_sum 99.321000" in text
