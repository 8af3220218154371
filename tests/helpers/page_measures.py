"""What a person sees on a page, measured in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = {"viewport": {"width": 390, "height": 844}}

# The contrast of every text that is seen, against the nearest ground that is painted below it.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parse = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = (element) => {
    const grounds = [];
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] > 0) grounds.push(colour);
      if (colour[3] === 1) break;
    }
    return grounds.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const shapes = (text, drawing) => {  // bars and cells that are painted below a text
    const box = text.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    let below = ground(drawing);
    for (const shape of drawing.querySelectorAll("rect")) {
      const b = shape.getBoundingClientRect();
      const style = getComputedStyle(shape);
      if (x < b.left || x > b.right || y < b.top || y > b.bottom || style.fill === "none") continue;
      const colour = parse(style.fill);
      colour[3] *= Number(style.fillOpacity) * Number(style.opacity);
      below = over(colour, below);
    }
    return below;
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim();
    const element = texts.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest("style, script, title")) continue;
    const style = getComputedStyle(element);
    const drawn = element.closest("svg");
    const below = drawn ? shapes(element, drawn) : ground(element);
    const ink = over(parse(drawn ? style.fill : style.color), below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    found.push([text.slice(0, 40), (a + 0.05) / (b + 0.05)]);
  }
  return found;
}"""


def contrasts(page: Page) -> list[tuple[str, float]]:
    """Returns the visible texts of a page with their contrast, the weakest first."""
    found: list[Any] = page.evaluate(CONTRASTS)
    return sorted(((text, ratio) for text, ratio in found), key=lambda pair: pair[1])


def overflow(page: Page) -> int:
    """Returns by how many pixels a page is wider than its window."""
    width: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width


def broken_images(page: Page) -> list[str]:
    """Returns the alternative texts of the images that did not load."""
    script = "[...document.images].filter((i) => !i.naturalWidth).map((i) => i.alt || i.src)"
    found: list[str] = page.evaluate(script)
    return found
