"""Whether a page is well formed and needs nothing from a network."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Reads a page; an element closed out of turn, or never, is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "br", "hr", "link"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> where <{self.open[-1]}> is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """Returns the attributes of every element of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]


def check_page(text: str) -> Page:
    """Returns the page, having checked what every page of ours must have."""
    assert text.startswith("<!DOCTYPE html>")
    page = Page(text)
    assert page.of("html")[0]["lang"] == "en"
    assert any(meta.get("name") == "viewport" for meta in page.of("meta"))
    assert len(page.of("h1")) == 1
    for image in page.of("img"):
        assert image["alt"]
        assert (image["src"] or "").startswith("data:image/")
    for drawing in page.of("svg"):
        assert drawing["role"] == "img"
        assert drawing["aria-label"]
    assert not page.of("script")
    assert not page.of("link")
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for name in ("src", "href"):
            value = attributes.get(name) or ""
            assert not value.startswith(("http:", "https:", "//"))
            if value.startswith("#"):
                assert value[1:] in ids, value
    assert "url(" not in text
    assert "@import" not in text
    return page
