"""The rating page: nothing reveals the origin of a word, and other sites are not answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ipl.apps.rate.app import create_rating_app
from ipl.explain.ratings.raters import Raters
from ipl.explain.ratings.study import Study, screens
from ipl.support.errors import IplError
from tests.helpers.page_check import Page
from tests.helpers.ratings import write_small_study

FROM_PAGE = {"X-IPL-Rating": "1"}
HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
BETRAYING = ("chosen", "plain", "random", "nearest", "run-", "fingerprint")


@pytest.fixture
def warnings() -> list[str]:
    """Returns the warnings for the person who runs the page."""
    return []


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_small_study(tmp_path / "study")


@pytest.fixture
def client(study: Study, tmp_path: Path, warnings: list[str]) -> TestClient:
    raters = Raters(tmp_path / "study", study, most=3)
    app = create_rating_app(tmp_path / "study", study, raters, HOSTS, warnings.append)
    return TestClient(app, "http://127.0.0.1:8001", raise_server_exceptions=False)


@pytest.fixture
def post(client: TestClient) -> Callable[..., Any]:
    """Returns a function that sends JSON as the page does."""
    return lambda path, **fields: client.post(path, json=fields, headers=FROM_PAGE)


def refused(response: Any, status: int) -> str:
    assert response.status_code == status, response.text
    (message,) = response.json().values()
    assert message.endswith(".")
    return str(message)


def test_the_page_needs_nothing_from_elsewhere(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    page = Page(response.text.replace("required>", "required/>"))
    for tag, attribute in (("link", "href"), ("script", "src")):
        for element in page.of(tag):
            name = element[attribute] or ""
            assert name in ("page.js", "style.css", "data:,")
            assert name == "data:," or client.get(f"/{name}").status_code == 200
    assert not any("style" in attributes for _, attributes in page.tags)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    labelled = {label["for"] for label in page.of("label")}
    assert {"name", "progress"} <= labelled
    for name in ("", "page.js", "style.css"):
        assert client.get(f"/{name}").headers["x-content-type-options"] == "nosniff"


def test_nothing_tells_one_list_from_another(
    client: TestClient, post: Callable[..., Any], study: Study
) -> None:
    texts = [client.get(path).text for path in ("/", "/page.js", "/style.css")]
    begun = post("/begin", name="Anna")
    texts += [begun.text, post("/rate", name="Anna", item="a1", rating=3).text]
    for text in texts:
        for word in BETRAYING:
            assert word not in text.lower(), word
    assert set(begun.json()) == {"name", "screens", "tasks", "words", "answers"}
    assert {key for screen in begun.json()["screens"] for key in screen} == {"task", "items"}
    assert begun.json()["words"] == {k: v for task in study.tasks for k, v in task.items.items()}
    for path in ("/study.json", "/ratings.csv", "/raters", "/results", "/docs", "/openapi.json"):
        assert refused(client.get(path), 404) == "Not found."


def test_a_rater_continues_with_the_same_order(post: Callable[..., Any], study: Study) -> None:
    first = post("/begin", name=" Anna ").json()
    assert (first["name"], first["answers"]) == ("Anna", {})
    assert post("/rate", name="Anna", item="a1", rating=3).json() == {"done": 1}
    assert post("/rate", name="anna", item="a1", rating=4).json() == {"done": 1}
    assert post("/rate", name="Bo", item="a1", rating=1).json() == {"done": 1}
    again = post("/begin", name="ANNA").json()
    assert again["screens"] == first["screens"]
    assert again["answers"] == {"a1": 4}
    assert post("/begin", name="Bo").json()["screens"] != first["screens"]
    assert len(screens(study, "x")) >= 8


def test_a_long_list_of_classes_is_cut(post: Callable[..., Any]) -> None:
    tasks = post("/begin", name="Anna").json()["tasks"]
    assert (len(tasks[0]["classes"]), tasks[0]["more"]) == (2, 0)
    assert (len(tasks[1]["classes"]), tasks[1]["more"]) == (40, 10)


def test_images_are_those_of_the_study(client: TestClient, tmp_path: Path) -> None:
    response = client.get(f"/pictures/{0:016x}.jpg")
    assert response.headers["content-type"] == "image/jpeg"
    assert response.content.startswith(b"\xff\xd8")
    (tmp_path / "study" / "pictures" / "ff.jpg").write_bytes(b"not of the study")
    for name in ("ff.jpg", "..%2fstudy.json", "%2e%2e%2fstudy.json", "x"):
        refused(client.get(f"/pictures/{name}"), 404)
    (tmp_path / "study" / "pictures" / f"{1:016x}.jpg").unlink()
    assert "no longer exists" in refused(client.get(f"/pictures/{1:016x}.jpg"), 404)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8001", 200),
        ("evil.example:8001", 403),
        ("", 403),
    ],
)
def test_other_host_names_are_refused(host: str, status: int, client: TestClient) -> None:
    assert client.get("/", headers={"Host": host}).status_code == status


def test_any_host_name_is_allowed_where_others_can_reach_it(study: Study, tmp_path: Path) -> None:
    raters = Raters(tmp_path / "study", study)
    app = create_rating_app(tmp_path / "study", study, raters)
    assert TestClient(app, "http://lab.example:8001").get("/").status_code == 200


def test_other_pages_cannot_send_anything(client: TestClient, tmp_path: Path) -> None:
    answer = {"name": "Anna", "item": "a1", "rating": 3}
    assert "not come from the page" in refused(client.post("/rate", json=answer), 403)
    plain = {"Content-Type": "text/plain", **FROM_PAGE}
    response = client.post("/rate", content=json.dumps(answer), headers=plain)
    assert "must be application/json" in refused(response, 415)
    for origin in ("http://evil.example", "http://localhost:9", "null", "http://["):
        response = client.post("/rate", json=answer, headers={**FROM_PAGE, "Origin": origin})
        assert "not come from the page" in refused(response, 403)
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Headers": "x-ipl-rating"}
    response = client.options("/rate", headers={**asked, "Access-Control-Request-Method": "POST"})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers
    assert list((tmp_path / "study" / "raters").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "fields", "status", "message"),
    [
        ("/begin", {}, 422, "name is missing"),
        ("/begin", {"name": "  "}, 422, "name is empty"),
        ("/begin", {"name": "x" * 61}, 422, "at most 60"),
        ("/begin", {"name": "x" * 5000}, 413, "larger than 4,096 bytes"),
        ("/rate", {"item": "a1", "rating": 3}, 422, "name is missing"),
        ("/rate", {"name": "Anna", "rating": 3}, 422, "item is none of this study"),
        ("/rate", {"name": "Anna", "item": "../a1", "rating": 3}, 422, "item is none"),
        ("/rate", {"name": "Anna", "item": "a1"}, 422, "rating is None"),
        ("/rate", {"name": "Anna", "item": "a1", "rating": 6}, 422, "allowed are 1 to 5"),
        ("/rate", {"name": "Anna", "item": "a1", "rating": "3"}, 422, "allowed are 1 to 5"),
    ],
)
def test_fields_that_are_not_allowed(
    path: str, fields: dict[str, Any], status: int, message: str, post: Callable[..., Any]
) -> None:
    assert message in refused(post(path, **fields), status)


def test_bodies_that_are_not_an_object(client: TestClient) -> None:
    kind = {"Content-Type": "application/json", **FROM_PAGE}
    for body, status in ((b"{", 400), (b"[1]", 422)):
        refused(client.post("/rate", content=body, headers=kind), status)


def test_the_number_of_raters_is_limited(post: Callable[..., Any]) -> None:
    for name in ("Anna", "Bo", "Cleo"):
        assert post("/rate", name=name, item="a1", rating=3).status_code == 200
    assert "3 people have rated already" in refused(post("/begin", name="Dan"), 422)
    assert "3 people" in refused(post("/rate", name="Dan", item="a1", rating=3), 422)
    assert post("/begin", name="Cleo").status_code == 200


def test_a_full_disk_is_reported_without_its_path(
    post: Callable[..., Any], warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: Any) -> None:
        raise IplError(f"Cannot write {path}: No space left on device.")

    monkeypatch.setattr("ipl.explain.ratings.raters.write_json", full)
    message = refused(post("/rate", name="Anna", item="a1", rating=3), 507)
    assert message == "Your answer cannot be saved; please tell the person who runs this page."
    assert len(warnings) == 1
    assert "No space left on device" in warnings[0]
    assert post("/begin", name="Anna").json()["answers"] == {}
