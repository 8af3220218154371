"""What the addresses answer, alone and under load, and what the documentation page shows."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import sleep
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ipl import Backbone, PromptClassifier
from tests.helpers.scenes import open_scene
from tests.helpers.serving import as_json, sentence, to_bytes, upload

SECONDS = 10


def probabilities(response: Any) -> dict[str, float]:
    assert response.status_code == 200, response.text
    return {entry["name"]: entry["probability"] for entry in response.json()["classes"]}


@pytest.mark.parametrize("scene", ["beach", "forest", "mountain"])
def test_predictions_are_those_of_the_classifier(
    scene: str, client: TestClient, classifier: PromptClassifier
) -> None:
    image = open_scene(scene, 7)
    expected = dict(zip(classifier.classes_, classifier.predict_proba([image])[0], strict=True))
    for response in (
        upload(client, to_bytes(image)),
        client.post("/predict", json=as_json(to_bytes(image))),
    ):
        assert probabilities(response) == pytest.approx(expected, abs=1e-6)
        ranked = [entry["probability"] for entry in response.json()["classes"]]
        assert ranked == sorted(ranked, reverse=True)


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


def test_top_says_how_many(client: TestClient, beach: bytes) -> None:
    assert len(probabilities(upload(client, beach, top="1"))) == 1
    assert len(probabilities(client.post("/predict", json=as_json(beach, top=2)))) == 2
    assert len(probabilities(upload(client, beach, top="99"))) == 3


@pytest.mark.parametrize("digits", [7, 19, 20, 400, 5000])
def test_a_number_of_any_length_is_refused_in_one_sentence(
    digits: int, client: TestClient, beach: bytes
) -> None:
    for sent in (
        upload(client, beach, top="9" * digits),
        client.post(
            "/predict",
            content=json.dumps(as_json(beach, top=0)).replace('"top": 0', '"top": ' + "9" * digits),
            headers={"Content-Type": "application/json"},
        ),
    ):
        message = sentence(sent, 422)
        assert "it must be a whole number from 1 to 1,000,000." in message
        assert len(message) < 150


def test_requests_at_once_are_one_batch(start: Callable[..., TestClient], beach: bytes) -> None:
    client = start(batch=4, wait_ms=5000)
    sizes = []
    encoder = client.app.state.service.model.encoder  # type: ignore[attr-defined]
    encode = encoder.encode
    encoder.encode = lambda pixels: sizes.append(len(pixels)) or encode(pixels)
    requests = [{}, {"classes": "cat,dog"}, {}, {"top": "1"}]
    with ThreadPoolExecutor(4) as threads:
        answers = [*threads.map(lambda fields: upload(client, beach, **fields), requests)]
    assert [len(probabilities(answer)) for answer in answers] == [3, 2, 3, 1]
    assert sizes == [4]  # one pass for four images, though one has other classes
    health = client.get("/healthz").json()
    assert (health["images"], health["batches"]) == (4, 1)


def test_the_prompt(client: TestClient, classifier: PromptClassifier, pocket: Backbone) -> None:
    info = client.get("/prompt").json()
    assert info["words"] == classifier.words_ != []
    assert info["prompt"] == classifier.prompt_
    assert info["classes"] == ["beach", "forest", "mountain"]
    assert (info["learner"], info["backbone"]) == ("coop", "pocket")
    assert info["weights_sha256"] == pocket.weights_sha256


def test_health_is_that_of_the_model(start: Callable[..., TestClient]) -> None:
    client = start()
    assert client.get("/healthz").json()["status"] == "ok"
    client.app.state.service.batcher.close()  # type: ignore[attr-defined]
    assert "does not answer" in sentence(client.get("/healthz"), 503)
    assert client.head("/healthz").status_code == 503


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_page_tells_everything_and_fetches_nothing(path: str, client: TestClient) -> None:
    response = client.get(path)
    assert response.status_code == 200
    for text in ("POST /predict", "GET /prompt", "GET /healthz", "25,000,000", "beach"):
        assert text in response.text
    page = html.unescape(response.text)
    assert "The image's bytes in base64." in page
    assert "<td>413</td><td>Too many bytes or pixels, or too many scans of a JPEG.</td>" in page
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", response.text)
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_the_form_of_the_page_shows_a_result(client: TestClient, beach: bytes) -> None:
    sent = {"image": ("beach.png", beach, "image/png")}
    response = client.post("/", files=sent, data={"classes": "", "top": "2"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    best, second = client.post("/predict", files=sent, data={"top": "2"}).json()["classes"]
    result = response.text.split("<h2>Result</h2>")[1].split("</table>")[0]
    shown = re.findall(r"<td>(\w+)</td><td>([\d.]+)&nbsp;%</td>", result)
    expected = [(each["name"], f"{100 * each['probability']:.1f}") for each in (best, second)]
    assert shown == expected


def test_the_form_of_the_page_says_what_is_wrong(client: TestClient, beach: bytes) -> None:
    no_image = client.post("/", files={"image": ("x.png", b"<b>", "image/png")})
    assert no_image.status_code == 415
    assert "<h2>No result</h2>" in no_image.text
    same_name = client.post("/", files={"image": beach}, data={"classes": "<i>a,<i>A"})
    assert same_name.status_code == 422
    assert "<i>" not in same_name.text
    assert "have the same name" in same_name.text


def test_what_is_in_the_prompt_is_not_run_by_the_page(
    start: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start()
    model = client.app.state.service.model  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "about", lambda: {**about, "classes": ["<script>x</script>"]})
    about = type(model).about(model)
    assert "<script>" not in client.get("/docs").text


def test_openapi_names_the_addresses_and_their_limits(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/predict", "/prompt", "/healthz"}
    predict = document["paths"]["/predict"]["post"]
    kinds = predict["requestBody"]["content"]
    assert set(kinds) == {"multipart/form-data", "application/json"}
    for kind in kinds.values():
        assert kind["schema"]["properties"]["classes"]["maxItems"] == 256
    assert {"200", "400", "408", "413", "415", "422", "503"} <= set(predict["responses"])


def test_a_bug_tells_the_client_nothing_about_itself(
    start: Callable[..., TestClient], beach: bytes
) -> None:
    client = start()

    def work(_: Any) -> None:
        raise RuntimeError("/home/someone/secret")

    client.app.state.service.batcher.work = work  # type: ignore[attr-defined]
    message = sentence(upload(client, beach), 500)
    assert message == "Internal error; the log of the service has the details."
    assert client.get("/healthz").status_code == 200  # the service goes on


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
    assert upload(client, beach).status_code == 200
    assert client.get("/healthz").json()["inside"] == 0


def test_refused_requests_leave_the_gate(start: Callable[..., TestClient]) -> None:
    client = start(concurrency=1)
    for _ in range(2):
        sentence(upload(client, b"not an image"), 415)
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
