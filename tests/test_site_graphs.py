"""Graphs of the documents are pictures on the site: every name and arrow is there, and the page loads nothing for them."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tools.site_pages import on_page_markdown

SVG = "{http://www.w3.org/2000/svg}"
PAGE = "Above.\n\n```mermaid\ngraph TD\n    a --> b\n    a --> c\n    b --> d\n    alone\n```\n\nBelow.\n"


def drawn(page):
    (text,) = re.findall(r"<svg.*</svg>", on_page_markdown(page))
    return ET.fromstring(text)


def test_every_name_and_arrow_is_in_the_picture():
    picture = drawn(PAGE)
    assert sorted(one.text for one in picture.iter(f"{SVG}text")) == ["a", "alone", "b", "c", "d"]
    assert len(picture.findall(f"{SVG}path")) == 3
    assert picture.get("aria-label") == "a imports b, c; b imports d"
    assert on_page_markdown(PAGE).startswith("Above.\n\n<svg")


def test_what_is_pointed_at_stands_below_and_no_box_upon_another():
    picture = drawn(PAGE)
    boxes = [{name: float(one.get(name)) for name in ("x", "y", "width")} for one in picture.findall(f"{SVG}rect")]
    names = [one.text for one in picture.iter(f"{SVG}text")]
    top = {name: box["y"] for name, box in zip(names, boxes, strict=True)}
    assert top["a"] < top["b"] < top["d"]
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            assert one["y"] != other["y"] or beside


def test_other_graphs_and_other_code_stay_as_they_are():
    for page in (
        "```mermaid\ngraph TD\n    a -- told --> b[B]\n```\n",
        "```mermaid\nsequenceDiagram\n```\n",
        "```sql\n```\n",
    ):
        assert on_page_markdown(page) == page


def test_the_pictures_of_the_architecture_page_are_read():
    from tools.architecture_page import ROOT

    page = on_page_markdown((ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8"))
    assert page.count("<svg") == 2
    assert "mermaid" not in page
