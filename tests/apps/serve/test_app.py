"""What the addresses answer, alone and under load, and what the documentation page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import sleep
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ipl import Backbone, PromptClassifier, __version__
from tests.helpers.scenes import open_scene
from tests.helpers.serving import as_json, sentence, to_bytes, upload

SECONDS = 10


def probabilities(response: Any) -> dict[str, float]:
    assert response.status_code == 200, response.text
    return {entry["name"]: entry["probability"] for entry in response.json()["classes"]}


def test_predictions_are_those_of_the_classifier(
    client: TestClient, classifier: PromptClassifier
) -> None:
    image = open_scene("forest", 7)
    expected = dict(zip(classifier.classes_, classifier.predict_proba([image])[0], strict=True))
    best = max(expected, key=lambda name: expected[name])
    sent = to_bytes(image)
    for top, count in ((99, 3), (1, 1)):
        for response in (
            upload(client, sent, top=str(top)),
            client.post("/predict", json=as_json(sent, top=top)),
        ):
            found = probabilities(response)
            assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-6)
            assert len(found) == count
            assert next(iter(found)) == best
            assert [*found.values()] == sorted(found.values(), reverse=True)


def test_a_request_may_bring_its_own_classes(
    client: TestClient, classifier: PromptClassifier, beach: bytes
) -> None:
    names = ["sandy beach", "castle, old", "cat"]
    other = classifier.with_classes(names)
    expected = dict(zip(names, other.predict_proba([open_scene("beach", 0)])[0], strict=True))
    many = upload(client, beach, classes=names)
    assert probabilities(many) == pytest.approx(expected, abs=1e-6)
    listed = client.post("/predict", json=as_json(beach, classes=names))
    assert probabilities(listed) == pytest.approx(expected, abs=1e-6)
    assert set(probabilities(upload(client, beach, classes="cat, dog"))) == {"cat", "dog"}
    empty = upload(client, beach, classes="")  # as a form sends it
    assert set(probabilities(empty)) == set(classifier.classes_)


def test_requests_at_once_are_one_batch(start: Callable[..., TestClient], beach: bytes) -> None:
    client = start(batch=5, wait_ms=5000)
    sizes = []
    encoder = client.app.state.service.model.encoder  # type: ignore[attr-defined]
    encode = encoder.encode
    encoder.encode = lambda pixels: sizes.append(len(pixels)) or encode(pixels)
    requests = [{"classes": "cat,cat"}, {}, {"classes": "cat,dog"}, {}, {"top": "1"}]
    with ThreadPoolExecutor(5) as threads:
        bad, *good = threads.map(lambda fields: upload(client, beach, **fields), requests)
    assert [len(probabilities(answer)) for answer in good] == [3, 2, 3, 1]
    assert "the same name" in sentence(bad, 422)  # which is not the problem of the others
    assert sizes == [5]  # one pass for five images, whatever their classes
    health = client.get("/healthz").json()
    assert (health["images"], health["batches"]) == (5, 1)


def test_the_prompt(client: TestClient, classifier: PromptClassifier, pocket: Backbone) -> None:
    assert client.get("/prompt").json() == {
        "words": classifier.words_,
        "prompt": classifier.prompt_,
        "classes": ["beach", "forest", "mountain"],
        "learner": "coop",
        "backbone": "pocket",
        "weights_sha256": pocket.weights_sha256,
        "ipl_version": __version__,
    }


def test_health_is_that_of_the_model(start: Callable[..., TestClient]) -> None:
    client = start()
    assert client.get("/healthz").json()["status"] == "ok"
    client.app.state.service.batcher.close()  # type: ignore[attr-defined]
    assert "does not answer" in sentence(client.get("/healthz"), 503)
    assert client.head("/healthz").status_code == 503


def test_the_page_tells_everything_and_fetches_nothing(client: TestClient) -> None:
    page = client.get("/docs").text
    assert client.get("/").text == page
    for text in ("POST /predict", "GET /prompt", "GET /healthz", "25,000,000", "beach"):
        assert text in page
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", page)


def test_the_form_of_the_page_shows_a_result(client: TestClient, beach: bytes) -> None:
    sent = {"image": ("beach.png", beach, "image/png")}
    response = client.post("/", files=sent, data={"classes": "", "top": "2"})
    assert response.status_code == 200
    assert "default-src 'none'" in response.headers["content-security-policy"]
    best, second = client.post("/predict", files=sent, data={"top": "2"}).json()["classes"]
    result = response.text.split("<h2>Result</h2>")[1].split("</table>")[0]
    shown = re.findall(r"<td>(\w+)</td><td>([\d.]+)&nbsp;%</td>", result)
    expected = [(each["name"], f"{100 * each['probability']:.1f}") for each in (best, second)]
    assert shown == expected
    no_image = client.post("/", files={"image": ("x.png", b"<b>", "image/png")})
    assert no_image.status_code == 415
    assert "<h2>No result</h2>" in no_image.text


def test_the_page_shows_texts_as_text(
    client: TestClient, beach: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = client.post("/", files={"image": beach}, data={"classes": "<i>a,<i>A"})
    assert same.status_code == 422
    assert "&lt;i&gt;a" in same.text
    model = client.app.state.service.model  # type: ignore[attr-defined]
    about = {**model.about(), "classes": ["<i>x</i>"]}
    monkeypatch.setattr(model, "about", lambda: about)
    for page in (same.text, client.get("/docs").text):
        assert "<i>" not in page


def test_openapi_names_the_addresses_and_their_limits(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/predict", "/prompt", "/healthz"}
    predict = document["paths"]["/predict"]["post"]
    for kind in ("multipart/form-data", "application/json"):
        schema = predict["requestBody"]["content"][kind]["schema"]
        assert schema["properties"]["classes"]["maxItems"] == 256
    assert {"200", "400", "408", "413", "415", "422", "503"} <= set(predict["responses"])


def test_an_unknown_address_is_answered_with_a_known_one(client: TestClient) -> None:
    assert sentence(client.get("/nowhere"), 404) == "Not Found."
    assert "/openapi.json" in sentence(client.get("/openapi.jso"), 404)
    assert "GET" in sentence(client.post("/prompt"), 405)


def block(client: TestClient) -> tuple[Event, Event]:
    """Returns two events: the model has started to work, and it may go on."""
    started, go_on = Event(), Event()
    batcher = client.app.state.service.batcher  # type: ignore[attr-defined]
    work = batcher.work

    def wait(questions: Any) -> Any:
        started.set()
        assert go_on.wait(SECONDS)
        return work(questions)

    batcher.work = wait
    return started, go_on


def test_beyond_the_concurrency_limit_is_503(
    start: Callable[..., TestClient], beach: bytes
) -> None:
    client = start(concurrency=2, batch=1)
    gate = client.app.state.service.gate  # type: ignore[attr-defined]
    _, go_on = block(client)
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(upload, client, beach) for _ in range(2)]
        while gate.inside < 2 and not any(future.done() for future in futures):
            sleep(0.005)
        response = upload(client, beach)
        assert "2 requests are being answered" in sentence(response, 503)
        assert response.headers["retry-after"] == "1"
        assert client.get("/prompt").status_code == 200  # needs no computation
        go_on.set()
        assert [future.result().status_code for future in futures] == [200, 200]
    for _ in range(3):  # those that are refused leave, too
        sentence(upload(client, b"not an image"), 415)
    assert upload(client, beach).status_code == 200
    assert client.get("/healthz").json()["inside"] == 0


def test_an_answer_that_takes_too_long_is_503(
    start: Callable[..., TestClient], beach: bytes
) -> None:
    client = start(answer_seconds=0.2)
    started, go_on = block(client)
    response = upload(client, beach)
    go_on.set()
    assert started.is_set()
    assert "no answer after 0.2 s" in sentence(response, 503)
    assert response.headers["retry-after"] == "1"
