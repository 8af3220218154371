"""What the service answers: to good requests, to bad ones, under load, and to whom."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ipl import Backbone, PromptClassifier, __version__
from ipl.apps import serve
from ipl.apps.hosts import LOCAL_HOSTS, allowed_hosts, is_allowed_host
from ipl.apps.serve import (
    Limits,
    Model,
    Question,
    create_app,
    listen,
    read_token,
)
from ipl.support.errors import ConfigError, DataError
from tests.helpers.scenes import open_scene
from tests.helpers.serving import as_json, sentence, to_bytes, upload

Start = Callable[..., TestClient]
TOKEN = "0123456789abcdef"
SECONDS = 10


@pytest.fixture(scope="module")
def start(classifier: PromptClassifier) -> Iterator[Start]:
    """Yields a function that starts a service with other limits: start(max_pixels=100)."""
    with ExitStack() as running:

        def call(hosts: Any = None, token: str | None = None, **limits: Any) -> TestClient:
            app = create_app(classifier, Limits(**limits), hosts, token)
            client = TestClient(app, "http://localhost", raise_server_exceptions=False)
            return running.enter_context(client)

        yield call


@pytest.fixture(scope="module")
def client(start: Start) -> TestClient:
    """Returns a client of a service with the default limits."""
    return start()


def service_of(client: TestClient) -> Any:
    return client.app.state.service  # type: ignore[attr-defined]


def probabilities(response: Any) -> dict[str, float]:
    assert response.status_code == 200, response.text
    return {entry["name"]: entry["probability"] for entry in response.json()["classes"]}


# -- answers --------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_classifier(
    client: TestClient, classifier: PromptClassifier
) -> None:
    image = open_scene("forest", 7)
    expected = dict(zip(classifier.classes_, classifier.predict_proba([image])[0], strict=True))
    best, sent = max(expected, key=lambda name: expected[name]), to_bytes(image)
    for top, count in ((99, 3), (1, 1)):
        for response in (
            upload(client, sent, top=str(top)),
            client.post("/predict", json=as_json(sent, top=top)),
        ):
            found = probabilities(response)
            assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-6)
            assert (len(found), next(iter(found))) == (count, best)
            assert [*found.values()] == sorted(found.values(), reverse=True)


def test_a_request_may_bring_its_own_classes(
    client: TestClient, classifier: PromptClassifier, beach: bytes
) -> None:
    names = ["sandy beach", "castle, old", "cat"]
    other = classifier.with_classes(names)
    expected = dict(zip(names, other.predict_proba([open_scene("beach", 0)])[0], strict=True))
    for response in (
        upload(client, beach, classes=names),
        client.post("/predict", json=as_json(beach, classes=names)),
    ):
        assert probabilities(response) == pytest.approx(expected, abs=1e-6)
    assert set(probabilities(upload(client, beach, classes="cat, dog"))) == {"cat", "dog"}
    empty = upload(client, beach, classes="", top="")  # as a form sends it
    assert set(probabilities(empty)) == set(classifier.classes_)


@pytest.mark.parametrize("learner", ["coop", "cocoop"])
def test_a_batch_of_several_class_lists(
    learner: str, make_classifier: Callable[..., PromptClassifier]
) -> None:
    """The linear head counts for trained classes only, as in `ipl predict`."""
    classifier = make_classifier(learner, shots=4)
    assert classifier.head_ is not None
    images = [open_scene(scene, 5) for scene in ("beach", "forest", "mountain", "castle")]
    lists = [None, ("cat", "dog"), ("mountain", "beach"), None]
    evaluate = classifier.learner_.backbone.preprocessing.evaluate
    asked = zip(images, lists, strict=True)
    answers = Model(classifier).answer([Question(evaluate(i), names, 9) for i, names in asked])
    for image, names, answer in zip(images, lists, answers, strict=True):
        other = classifier if names is None else classifier.with_classes(names)
        assert not isinstance(answer, Exception), answer
        found = {entry["name"]: entry["probability"] for entry in answer}
        expected = other.predict_proba([image])[0]
        # In fp32 one rounding of a cosine moves a logit by 70 * 1e-7.
        np.testing.assert_allclose([found[name] for name in other.classes_], expected, atol=1e-5)


def test_requests_at_once_are_one_batch(
    client: TestClient, beach: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "BATCH", 5)
    monkeypatch.setattr(serve, "WAIT", 2)
    service, sizes = service_of(client), list[int]()
    encode = service.model.encoder.encode
    monkeypatch.setattr(
        service.model.encoder, "encode", lambda pixels: sizes.append(len(pixels)) or encode(pixels)
    )
    requests = [{"classes": "cat,cat"}, {}, {"classes": "cat,dog"}, {}, {"top": "1"}]
    with ThreadPoolExecutor(5) as threads:
        bad, *good = threads.map(lambda fields: upload(client, beach, **fields), requests)
    assert [len(probabilities(answer)) for answer in good] == [3, 2, 3, 1]
    assert "the same name" in sentence(bad, 422)  # which is not the problem of the others
    assert sizes == [5]  # one pass for five images, whatever their classes
    assert client.get("/healthz").json() == {"status": "ok", "inside": 0}


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


@pytest.mark.parametrize(
    ("name", "expected"),
    [("openai/clip-vit", "openai/clip-vit"), ("/home/me/clip", "clip"), ("a/b/clip", "clip")],
)
def test_paths_of_this_machine_stay_hidden(
    name: str, expected: str, classifier: PromptClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifier.learner_.backbone, "name", name)
    model = Model(classifier)
    assert model.about()["backbone"] == expected
    pixels = model.backbone.preprocessing.evaluate(open_scene("beach", 5))
    (error,) = model.answer([Question(pixels, ("cat", "<|endoftext|>"), 1)])
    assert isinstance(error, Exception)
    assert expected in str(error)
    assert "/home" not in str(error)


def test_the_page_shows_texts_as_text_and_fetches_nothing(client: TestClient, beach: bytes) -> None:
    page = client.get("/docs")
    assert client.get("/").text == page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", page.text)
    for names, status in (("<i>a\u202e,<i>b", 200), ("<i>a,<i>A", 422)):
        told = client.post("/", files={"image": beach}, data={"classes": names})
        assert told.status_code == status
        assert "&lt;i&gt;a" in told.text
        assert not re.search("<i>|\u202e", told.text)


def test_openapi_names_the_addresses(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/predict", "/prompt", "/healthz"}
    content = paths["/predict"]["post"]["requestBody"]["content"]
    for kind in ("multipart/form-data", "application/json"):
        assert set(content[kind]["schema"]["properties"]) == {"image", "classes", "top"}
    assert "Not Found" in sentence(client.get("/nowhere"), 404)
    sentence(client.post("/prompt"), 405)


# -- what is refused ------------------------------------------------------------------------------


def test_bytes_pixels_and_classes_are_limited(start: Start, beach: bytes) -> None:
    client = start(max_bytes=len(beach) * 2, max_pixels=96 * 96)
    assert probabilities(client.post("/predict", json=as_json(beach)))
    large = beach + b"\0" * len(beach)
    for response in (upload(client, large), client.post("/predict", json=as_json(large))):
        assert f"larger than {len(beach) * 2:,} bytes" in sentence(response, 413)
    pixels = to_bytes(open_scene("beach", 0).resize((96, 97)), "JPEG")
    assert "96 x 97 pixels" in sentence(upload(client, pixels), 413)
    client = start()
    for names in ([f"{number}" for number in range(257)], ["a", "b" * 101]):
        sentence(upload(client, beach, classes=names), 422)
        sentence(client.post("/predict", json=as_json(beach, classes=names)), 422)
    sentence(upload(client, b"x", classes=["x"] * 259), 400)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"image": "/etc/passwd"}, 400, "paths and URLs are not opened"),
        ({"image": "https://example.org/x.png"}, 400, "paths and URLs are not opened"),
        ({"image": "bm90IGEgcGljdHVyZQ=="}, 415, "not an image"),
        ({"image": {"path": "/etc/passwd"}}, 422, "image"),
        ({}, 422, "image: it is missing."),
        ({"top": 0}, 422, "greater than or equal to 1"),
        ({"top": "3"}, 422, "top: it must be a valid integer."),
        ({"classes": ["cat", 3]}, 422, "classes"),
        ({"classes": ["cat"]}, 422, "classes: it must have at least 2"),
        ({"classes": ["cat", "CAT"]}, 422, "the same name"),
        ({"classes": ["cat", "caf\x07"]}, 422, "control character"),
        ({"classes": ["cat", "7" * 100]}, 422, "is 100 tokens long"),
        ({"url\x1b[2J": "http://127.0.0.1/"}, 422, "there is no such field"),
    ],
)
def test_json_fields_that_are_not_allowed(
    fields: dict[str, Any], status: int, message: str, client: TestClient, beach: bytes
) -> None:
    whole = fields if fields == {} or "image" in fields else as_json(beach, **fields)
    told = sentence(client.post("/predict", json=whole), status)
    assert message in told
    assert told.isprintable()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"[" * 100_000, "application/json", 400),
        (b"[1]", "application/json; charset=utf-8", 422),
        (b'{"top": %s}' % (b"9" * 5000), "application/json", 400),
        (b"x=1", "application/x-www-form-urlencoded", 415),
        (b"x", "", 415),
        (b"x", "multipart/form-data", 400),
        (b'--b\r\nContent-Disposition: form-data; name="x', "multipart/form-data; boundary=b", 422),
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_read(
    body: bytes, kind: str, status: int, client: TestClient
) -> None:
    sentence(client.post("/predict", content=body, headers={"Content-Type": kind}), status)


def test_what_a_form_names_is_not_opened(client: TestClient, beach: bytes) -> None:
    form = {"files": {"x": b""}, "data": {"image": "/etc/passwd"}}
    assert "paths and URLs are not opened" in sentence(client.post("/predict", **form), 400)
    response = client.post("/predict", files={"image": ("/etc/passwd", beach)})
    assert response.status_code == 200  # a file's name says nothing
    sentence(upload(client, beach, top="9" * 5000), 422)
    sentence(client.post("/predict", files={"classes": ("x", b"a,b")}), 422)


# -- under load -----------------------------------------------------------------------------------


def block(client: TestClient) -> tuple[Event, Event]:
    """Returns two events: the model has started to work, and it may go on."""
    started, go_on, batcher = Event(), Event(), service_of(client).batcher
    work = batcher.work

    def wait(questions: Any) -> Any:
        started.set()
        assert go_on.wait(SECONDS)
        return work(questions)

    batcher.work = wait
    return started, go_on


def test_beyond_the_concurrency_limit_is_503(start: Start, beach: bytes) -> None:
    client = start(concurrency=2)
    _, go_on = block(client)
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(upload, client, beach) for _ in range(2)]
        while service_of(client).inside < 2 and not any(future.done() for future in futures):
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


def test_an_answer_that_takes_too_long_is_503(
    start: Start, beach: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start()
    monkeypatch.setattr(serve, "ANSWER_SECONDS", 0.2)
    _, go_on = block(client)
    response = upload(client, beach)
    go_on.set()
    assert "no answer after 0.2 s" in sentence(response, 503)


# -- who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        *((host, True) for host in ("127.0.0.1:8001", "LOCALHOST", "[::1]:8001", "[::1]")),
        *((f"127.0.0.1{end}", False) for end in ("/evil.com", "?x", "#x", ":80:80", ":x", ":80/x")),
        *((f"127.0.0.1{end}", False) for end in (".evil.example:80", "@evil.example", " ", "\\x")),
        *((host, False) for host in ("evil.example:8001", "x@127.0.0.1", "[::1", "::1", "", ":80")),
        *((host, False) for host in ("2130706433", "127.1", "[127.0.0.1", "a,127.0.0.1")),
    ],
)  # fmt: skip
def test_only_names_of_this_machine_are_allowed(header: str, allowed: bool) -> None:
    assert is_allowed_host(header, LOCAL_HOSTS) is allowed


@pytest.mark.parametrize("local", [True, False])
def test_other_machines_may_use_addresses_and_the_name_of_this_one(local: bool) -> None:
    hosts, more = allowed_hosts([], local), allowed_hosts(["Proxy.example"], local)
    assert allowed_hosts(["*"], local) is None
    assert is_allowed_host("proxy.example:80", more)
    assert is_allowed_host("anyone.example", None)
    assert not is_allowed_host("anyone.example/x", None)
    for name in ("192.0.2.7:8000", "[2001:db8::1]:8000"):
        assert is_allowed_host(name, hosts) is not local


@pytest.mark.parametrize(
    "limits",
    [{"max_bytes": 0}, {"max_pixels": -1}, {"max_pixels": 300_000_000}, {"concurrency": 0}],
)
def test_a_limit_that_is_not_allowed_is_named(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(limits))} is .*; it must be"):
        Limits(**limits)


@pytest.mark.parametrize("host", ["", "999.1.1.1", "no.such.host.invalid", "a" * 300, "\0"])
def test_a_host_that_is_none_is_said(host: str) -> None:
    with pytest.raises(ConfigError, match="Cannot listen on port 0 of"):
        listen(host, 0)


def test_names_and_tokens_are_checked_and_everything_is_counted(start: Start, beach: bytes) -> None:
    guarded = start(hosts=LOCAL_HOSTS, token=TOKEN)
    for path in ("/prompt", "/healthz"):
        told = sentence(guarded.get(path, headers={"Host": "evil.example"}), 403)
        assert "'evil.example', which is not allowed" in told
    wrong = (f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xff", "")
    for sent in wrong:
        response = guarded.get("/prompt", headers={"Authorization": sent.encode("latin-1")})
        assert "Authorization is missing or wrong" in sentence(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"
    sentence(upload(guarded, beach), 401)
    assert guarded.get("/healthz").status_code == 200  # for the load balancer
    guarded.headers["Authorization"] = f"Bearer {TOKEN}"
    assert upload(guarded, beach).status_code == 200
    both = {"Content-Length": "1", "Transfer-Encoding": "chunked"}
    assert "both" in sentence(guarded.get("/prompt", headers=both), 400)
    upload(guarded, b"not an image")
    service_of(guarded).batcher.work = lambda _: 1 / 0
    assert "division" not in sentence(upload(guarded, beach), 500)  # that is for the log
    for path in ("/a", "/b"):
        headers = guarded.get(path).headers
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
    response = guarded.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line.rpartition(" ") for line in response.text.splitlines() if line[0] != "#"]
    found = {name: float(value) for name, _, value in lines}
    for status in (200, 401, 415, 500):
        assert found[f'ipl_requests_total{{path="/predict",status="{status}"}}'] == 1
    assert found['ipl_requests_total{path="other",status="404"}'] == 2  # one name for all others
    assert found['ipl_rejected_total{reason="host"}'] == 2
    assert found['ipl_rejected_total{reason="token"}'] == len(wrong) + 1
    assert found["ipl_predict_seconds_count"] == 4
    assert (found["ipl_images_total"], found["ipl_requests_inside"]) == (2, 0)


def test_a_token_is_one_long_word_in_a_regular_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for text in ("short", "two words of a token", f"{TOKEN}\n{TOKEN}", f"{TOKEN}é"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="one word of 16"):
            read_token(file)
    file.write_text(f"\ufeff{TOKEN}\r\n", encoding="utf-8")
    assert read_token(file) == TOKEN
    file.write_bytes(b"\xff" * 20)
    os.mkfifo(tmp_path / "pipe")
    for wrong in (file, tmp_path / "pipe", tmp_path, tmp_path / "no", Path("/dev/zero")):
        with pytest.raises(DataError):
            read_token(wrong)
