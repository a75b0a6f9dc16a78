"""Pages by keyboard alone, by ear and with weak eyes: every control reached, named and seen, in light and dark."""

from __future__ import annotations

import pytest
from accessible import FAINT, MOVING, by_keyboard, without_names
from page_answers import agree
from served_page import Watched

pytestmark = pytest.mark.survival
PAGES = ("/?tpot_limit=40", "/?tpot_limit=0.01", "/pd?num_devices=8", "/sensitivity", "/why", "/explain", "/sweeps")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_controls_stand_out_and_have_names(chromium, server, scheme):
    context = chromium.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    watched = Watched(context.new_page(), server)
    found = {}
    for path in PAGES:
        watched.open(path)
        faint, unnamed, moving = (
            watched.page.evaluate(FAINT),
            without_names(watched.page),
            watched.page.evaluate(MOVING),
        )
        if faint or unnamed or moving:
            found[path] = (faint, unnamed, moving)
    faint = {"light": "#bbb", "dark": "#444"}[scheme]  # it would be noticed
    watched.page.evaluate("colour => { document.querySelector('h1').style.color = colour; }", faint)
    watched.page.evaluate("document.querySelector('a.brand').replaceChildren()")
    noticed = (len(watched.page.evaluate(FAINT)), without_names(watched.page))
    context.close()
    assert found == {}
    assert noticed == (1, ["link"])


@pytest.mark.parametrize("path", ["/?tpot_limit=40", "/pd?num_devices=8"])
def test_a_keyboard_reaches_everything_and_sees_where_it_is(watched, path):
    watched.open(path)
    assert by_keyboard(watched.page) == ([], [])


def test_a_focus_that_is_not_seen_or_not_reached_is_noticed(watched):
    watched.open("/sweeps")
    page = watched.page
    page.locator("a.brand").evaluate("link => { link.style.outline = 'none'; }")
    page.locator("nav a").first.evaluate("link => { link.tabIndex = -1; }")
    unseen, unreached = by_keyboard(page)
    assert [text[:16] for text in unseen] == ['<a class="brand"']
    assert [text[:10] for text in unreached] == ['<a href="/']


def test_sliders_say_what_they_are_and_where_they_stand(watched):
    watched.open("/?tpot_limit=40")
    page = watched.page
    tpot, ttft = page.get_by_role("slider", name="TPOT at most"), page.get_by_role("slider", name="TTFT at most")
    assert tpot.get_attribute("aria-valuetext") == "40 ms"
    assert ttft.get_attribute("aria-valuetext") == "none"
    seq = watched.seq()
    tpot.press("ArrowLeft")
    watched.drawn(after=seq)
    assert tpot.get_attribute("aria-valuetext") != "40 ms"
    assert page.get_by_role("img").first.get_attribute("aria-label")
    assert page.locator("#sentence").get_attribute("aria-live") == "polite"


def test_from_nothing_fits_to_an_answer_by_keyboard(watched, page_url):
    watched.open("/?tpot_limit=0.01")
    page, seq = watched.page, watched.seq()
    page.locator("#relax").focus()
    page.keyboard.press("Enter")
    watched.drawn(after=seq)
    agree(page, page_url)
    assert page.evaluate("document.activeElement.id") == "tpot_limit_range"  # the button is gone
    page.locator("#twin summary").press("Enter")
    page.locator("#twin table").wait_for()
    page.get_by_role("link", name="Skip to the answer").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
