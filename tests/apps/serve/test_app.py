"""What the addresses answer, and what they say to what they cannot answer."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ipl import PromptClassifier
from ipl.backbone.clip import Backbone
from ipl_scenes import draw
from tests.helpers.serving import as_json, sentence, to_bytes, upload


def shares(response: Any) -> dict[str, float]:
    assert response.status_code == 200, response.text
    return {entry["name"]: entry["probability"] for entry in response.json()["classes"]}


@pytest.mark.parametrize("scene", ["beach", "forest", "mountain"])
def test_predictions_are_those_of_the_classifier(
    scene: str, client: TestClient, classifier: PromptClassifier
) -> None:
    image = draw(scene, 7)
    expected = dict(zip(classifier.classes_, classifier.predict_proba([image])[0], strict=True))
    for response in (
        upload(client, to_bytes(image)),
        client.post("/predict", json=as_json(to_bytes(image))),
    ):
        assert shares(response) == pytest.approx(expected, abs=1e-6)
        ranked = [entry["probability"] for entry in response.json()["classes"]]
        assert ranked == sorted(ranked, reverse=True)


def test_a_request_may_bring_its_own_classes(
    client: TestClient, classifier: PromptClassifier, beach: bytes
) -> None:
    names = ["sandy beach", "castle, old", "cat"]
    other = classifier.with_classes(names)
    expected = dict(zip(names, other.predict_proba([draw("beach", 0)])[0], strict=True))
    many = upload(client, beach, classes=names)
    assert shares(many) == pytest.approx(expected, abs=1e-6)
    listed = client.post("/predict", json=as_json(beach, classes=names))
    assert shares(listed) == pytest.approx(expected, abs=1e-6)
    assert set(shares(upload(client, beach, classes="cat, dog"))) == {"cat", "dog"}
    assert set(shares(upload(client, beach, classes=""))) == set(classifier.classes_)  # a form's


def test_top_says_how_many(client: TestClient, beach: bytes) -> None:
    assert len(shares(upload(client, beach, top="1"))) == 1
    assert len(shares(client.post("/predict", json=as_json(beach, top=2)))) == 2
    assert len(shares(upload(client, beach, top="99"))) == 3


def test_requests_at_once_are_one_batch(start: Callable[..., TestClient], beach: bytes) -> None:
    client = start(batch=4, wait_ms=5000)
    passes = []
    model = client.app.state.service.model  # type: ignore[attr-defined]
    look = model.classifier.look
    model.classifier = model.classifier.with_classes(model.classifier.classes_)
    model.classifier.look = lambda images: passes.append(len(images)) or look(images)
    asked = [{}, {"classes": "cat,dog"}, {}, {"top": "1"}]
    with ThreadPoolExecutor(4) as threads:
        answers = [*threads.map(lambda fields: upload(client, beach, **fields), asked)]
    assert [len(shares(answer)) for answer in answers] == [3, 2, 3, 1]
    assert passes == [4]  # one look at four images, though one has other classes
    told = client.get("/healthz").json()
    assert (told["images"], told["batches"]) == (4, 1)


def test_the_prompt(client: TestClient, classifier: PromptClassifier, pocket: Backbone) -> None:
    told = client.get("/prompt").json()
    assert told["words"] == classifier.words_ != []
    assert told["prompt"] == classifier.prompt_
    assert told["classes"] == ["beach", "forest", "mountain"]
    assert (told["learner"], told["backbone"]) == ("coop", "pocket")
    assert told["weights_sha256"] == pocket.weights_sha256


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
    for said in ("POST /predict", "GET /prompt", "GET /healthz", "25,000,000", "beach"):
        assert said in response.text
    text = html.unescape(response.text)
    assert "The image's bytes in base64." in text
    assert "<td>413</td><td>Too many bytes or pixels, or too many scans of a JPEG.</td>" in text
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", response.text)
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_what_is_in_the_prompt_is_not_run_by_the_page(
    start: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start()
    model = client.app.state.service.model  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "about", lambda: {**about, "classes": ["<script>x</script>"]})
    about = type(model).about(model)
    assert "<script>" not in client.get("/docs").text


def test_openapi_names_the_addresses_and_their_limits(client: TestClient) -> None:
    told = client.get("/openapi.json").json()
    assert set(told["paths"]) == {"/predict", "/prompt", "/healthz"}
    predict = told["paths"]["/predict"]["post"]
    kinds = predict["requestBody"]["content"]
    assert set(kinds) == {"multipart/form-data", "application/json"}
    for kind in kinds.values():
        assert kind["schema"]["properties"]["classes"]["maxItems"] == 256
    assert {"200", "400", "408", "413", "415", "422", "503"} <= set(predict["responses"])


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"image": "/etc/passwd"}, 400, "paths and URLs are not opened"),
        ({"image": "file:///etc/passwd"}, 400, "paths and URLs are not opened"),
        ({"image": "https://example.org/x.png"}, 400, "paths and URLs are not opened"),
        ({"image": "bm90IGEgcGljdHVyZQ=="}, 415, "not an image"),
        ({"image": ""}, 422, "image is empty"),
        ({"image": 7}, 422, "image is missing"),
        ({}, 422, "image is missing"),
        ({"top": 0}, 422, "top is 0; it must be a whole number from 1."),
        ({"top": True}, 422, "top is true; it must be"),
        ({"top": 1.5}, 422, "top is 1.5; it must be"),
        ({"top": "3"}, 422, "top is the text '3'; it must be a whole number from 1."),
        ({"top": [3]}, 422, "top is [3]; it must be"),
        ({"classes": "cat"}, 422, "must be a list of names"),
        ({"classes": ["cat", 3]}, 422, "must be a list of names"),
        ({"classes": []}, 422, "holds 0 names"),
        ({"classes": ["cat", ""]}, 422, "Class 2 has an empty name"),
        ({"classes": ["cat", "CAT"]}, 422, "the same name"),
        ({"classes": ["cat", "café"]}, 422, "not ASCII"),
        ({"classes": ["cat", "7" * 100]}, 422, "is 100 tokens long"),
        ({"url": "http://127.0.0.1/"}, 422, "'url' is no field"),
    ],
)
def test_json_that_asks_for_what_is_not_given(
    fields: dict[str, Any], status: int, says: str, client: TestClient, beach: bytes
) -> None:
    whole = fields if fields == {} or "image" in fields else as_json(beach, **fields)
    assert says in sentence(client.post("/predict", json=whole), status)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"9" * 10_000, "application/json", 400),
        (b"[1]", "application/json; charset=utf-8", 422),
        (b"x=1", "application/x-www-form-urlencoded", 415),
        (b"x", "", 415),
        (b"x", "multipart/form-data", 400),
        (b"x", "multipart/form-data; boundary=b", 400),
        (b'--b\r\nContent-Disposition: form-data; name="x', "multipart/form-data; boundary=b", 422),
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_read(
    body: bytes, kind: str, status: int, client: TestClient
) -> None:
    sentence(client.post("/predict", content=body, headers={"Content-Type": kind}), status)


def test_a_form_with_a_path_in_it_opens_nothing(client: TestClient, beach: bytes) -> None:
    response = client.post("/predict", files={"top": ("", "1")}, data={"image": "/etc/passwd"})
    assert "paths and URLs are not opened" in sentence(response, 422)
    response = client.post("/predict", files={"image": ("/etc/passwd", beach)})
    assert response.status_code == 200  # a file's name says nothing
    two = [("image", ("a", beach)), ("image", ("b", beach))]
    assert "Maximum number of files is 1" in sentence(client.post("/predict", files=two), 400)


def test_other_addresses_and_methods(client: TestClient) -> None:
    assert sentence(client.get("/nowhere"), 404) == "Not Found."
    assert sentence(client.get("/predict"), 405) == "Method Not Allowed."


def test_a_bug_tells_the_client_nothing_about_itself(
    start: Callable[..., TestClient], beach: bytes
) -> None:
    client = start()

    def work(_: Any) -> None:
        raise RuntimeError("/home/someone/secret")

    client.app.state.service.batcher.work = work  # type: ignore[attr-defined]
    said = sentence(upload(client, beach), 500)
    assert said == "The service made a mistake; its log says which."
    assert client.get("/healthz").status_code == 200  # and it goes on
