"""The page in a real browser: first picture, sliders, what the command line says, new data, no request elsewhere."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request

import pytest
from generator import DEVICES, MODELS, PLANS
from measured_points import point
from page_answers import agree, top_row, typed
from queries_stores import mission_records, write_sweep
from served_page import ROOT, Watched, launched, records, serving

from store.opening import open_store
from store.writing import put_measurements
from sweepdb.planning import short_plan

pytestmark = pytest.mark.survival
PAGES = (
    "/", "/decide", "/pd", "/sensitivity", "/sensitivity?vary=ttft,tpot", "/curves", "/why", "/explain", "/coverage", "/diff", "/measured", "/sweeps",
)  # fmt: skip
SHOTS = ROOT / "build" / "screenshots"


def test_the_first_picture_and_the_row_of_the_command_line(watched, page_url):
    watched.open("/?tpot_limit=40")
    page = watched.page
    assert page.locator("#picture svg path").count() > 5
    first = agree(page, page_url)
    assert short_plan(first["plan"]) in page.locator("#sentence").inner_text()
    assert page.locator("#twin table").count() == 0  # made for those who open it
    page.locator("#twin summary").click()
    page.locator("#twin table").wait_for()
    assert page.locator("#twin table tbody tr").count() == len(typed(page, page_url, "pareto"))


@pytest.mark.parametrize("by", ["mouse", "keyboard", "number"])
def test_a_limit_is_moved(watched, page_url, by):
    watched.open("/?tpot_limit=40")
    page, before, seq = watched.page, agree(watched.page, page_url), watched.seq()
    if by == "mouse":
        box = page.locator("#tpot_limit_range").bounding_box()
        page.mouse.click(box["x"] + 0.35 * box["width"], box["y"] + box["height"] / 2)
    elif by == "keyboard":
        page.locator("#tpot_limit_range").focus()
        for _ in range(70):
            page.keyboard.press("ArrowLeft")
    else:
        page.locator("#tpot_limit").fill("12.5")
        page.keyboard.press("Enter")
    watched.drawn(after=seq)
    limit = float(page.locator("#tpot_limit").input_value())
    assert limit < 40
    assert f"tpot_limit={limit:g}" in page.url
    after = agree(page, page_url)
    assert after["tpot_ms"] <= limit
    assert (after["probe"], after["batch_size"]) != (before["probe"], before["batch_size"])


def test_a_link_brings_everything_back(watched, page_url):
    watched.open("/?tpot_limit=22.5&reserved_memory_gb=12&price=3")
    page = watched.page
    assert page.locator("#reserved_memory_gb").input_value() == "12"
    row = top_row(page)
    dollars, rate = (float(row[name].replace(",", "")) for name in ("$/M tokens", "tokens/s/device"))
    assert dollars == pytest.approx(3 / (rate * 3600) * 1e6, rel=2e-3)
    agree(page, page_url)


def test_nothing_fits_and_the_button_moves_the_limit_that_binds(watched, page_url):
    watched.open("/?tpot_limit=0.01")
    page, seq = watched.page, watched.seq()
    assert page.locator("#sentence").inner_text() == "Nothing satisfies the limits."
    page.locator("#relax").click()
    watched.drawn(after=seq)
    first = agree(page, page_url)
    assert first["tpot_ms"] <= float(page.locator("#tpot_limit").input_value())


def test_new_rows_are_offered_and_not_swapped_in(chromium, tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, records(PLANS[:1]), key="a", sizes=20)
    with serving(url) as address:
        watched = Watched(chromium.new_page(), address)
        watched.open("/")
        page, before = watched.page, top_row(watched.page)
        rows = page.locator("#top tbody tr").count()
        listed = Watched(chromium.new_page(), address)
        listed.open("/sweeps")
        write_sweep(url, records(PLANS[1:3]), key="b", sizes=20)
        listed.page.locator("#newer").wait_for(timeout=30_000)
        assert listed.page.locator("tbody tr").count() == 1
        seq = listed.seq()
        listed.page.locator("#newer").click()
        listed.drawn(after=seq)
        assert listed.page.locator("tbody tr").count() == 2
        assert (listed.wrong, listed.foreign) == ([], [])
        listed.page.close()
        page.locator("#newer").wait_for(timeout=30_000)
        seq = watched.seq()
        page.locator("#tpot_limit_range").focus()
        page.keyboard.press("ArrowLeft")  # a moved limit is of the same moment
        watched.drawn(after=seq)
        assert page.locator("#top tbody tr").count() == rows
        assert top_row(page)["plan"] == before["plan"]
        seq = watched.seq()
        page.locator("#newer").click()
        watched.drawn(after=seq)
        assert page.locator("#top tbody tr").count() > rows
        assert not page.locator("#newer").is_visible()
        agree(page, url)
        assert (watched.wrong, watched.foreign) == ([], [])
        page.close()


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens(watched, path):
    watched.open(path)
    assert watched.page.locator("main .error").count() == 0
    assert watched.page.locator("main h1").count() == 1
    assert watched.page.locator("#store").inner_text().endswith("store.sqlite")
    assert watched.page.evaluate(
        "() => { const { scrollWidth, clientWidth } = document.getElementById('nav'); return scrollWidth <= clientWidth; }"
    )


@pytest.mark.parametrize("path", ["/", "/pd", "/sensitivity", "/curves", "/coverage", "/sweeps"])
def test_every_picture_has_its_statement_its_files_and_its_table(watched, path):
    watched.open(path)
    page = watched.page
    assert page.locator("main .picture svg").count()
    assert page.locator("main table tbody tr").count()
    assert "SELECT" in page.locator("main pre").first.text_content()
    found = {one.inner_text(): one.get_attribute("href") for one in page.locator("main .links a").all()}
    assert found.keys() >= {"CSV", "SVG", "JSON", "link to this page"}
    for form, begins in (("CSV", ""), ("SVG", "<svg")):
        with urllib.request.urlopen(watched.address + found[form]) as answered:
            assert answered.read().decode().startswith(begins)


def test_a_long_table_begins_short_and_has_all_its_rows(watched, page_url):
    watched.open("/curves")
    page = watched.page
    rows = page.locator("main tbody tr")
    assert rows.count() == 25
    page.get_by_role("button", name="show all").click()
    assert rows.count() == len(typed(page, page_url, "curve"))
    assert page.evaluate("document.activeElement.className") == "scroll"


@pytest.mark.parametrize(("path", "weight"), [("/", "600"), ("/curves", "400")])
def test_a_winner_stands_out_where_rows_are_ranked(watched, path, weight):
    watched.open(path)
    cell = watched.page.locator("main tbody tr").first.locator("td").first
    assert cell.evaluate("cell => getComputedStyle(cell).fontWeight") == weight


def test_a_page_without_limits_begins_with_usual_ones_and_a_link_without_stays_without(watched):
    watched.open("/")
    page, seq = watched.page, watched.seq()
    assert (page.locator("#ttft_limit").input_value(), page.locator("#tpot_limit").input_value()) == ("2000", "50")
    for name in ("#ttft_limit", "#tpot_limit"):
        page.locator(name).fill("")
        page.keyboard.press("Enter")
        watched.drawn(after=seq)
        seq = watched.seq()
    watched.open(page.url.removeprefix(watched.address))
    assert page.locator("#tpot_limit").input_value() == ""


def test_a_wrong_number_is_said_under_its_field_and_moves_nothing(watched, page_url):
    watched.open("/?tpot_limit=40")
    page, seq, address = watched.page, watched.seq(), watched.page.url
    page.locator("#tpot_limit").fill("-5")
    page.keyboard.press("Enter")
    assert page.locator("#tpot_limit_wrong").inner_text() == "This must be a number above 0, not -5."
    assert (page.url, watched.seq()) == (address, seq)
    page.locator("#tpot_limit").fill("20")
    page.keyboard.press("Enter")
    watched.drawn(after=seq)
    assert not page.locator("#tpot_limit_wrong").is_visible()
    agree(page, page_url)


def test_an_old_answer_is_greyed_while_the_new_one_is_computed(watched):
    watched.open("/?tpot_limit=40")
    page, seq, waiting = watched.page, watched.seq(), []
    page.route("**/answer/pareto?*", lambda route: waiting.insert(0, route))
    page.locator("#tpot_limit").fill("20")
    page.keyboard.press("Enter")
    page.locator("section[aria-label='Best plans']:not(.stale)").wait_for()  # the table waits for no picture
    page.locator("figure.stale").wait_for()
    assert page.locator(".asking").inner_text() == f"Asking: {MODELS[4][0]}, TPOT ≤ 20 ms ..."
    (route,) = waiting
    route.continue_()
    watched.drawn(after=seq)
    assert page.locator(".stale").count() == 0
    assert not page.locator(".asking").is_visible()


def test_two_rows_that_are_ticked_are_compared(watched):
    watched.open("/?tpot_limit=40")
    page = watched.page
    boxes = page.locator("#top .tick input")
    for place in (0, 1, 2):  # the third takes the place of the first
        boxes.nth(place).check()
    probes = [one.get_attribute("data-probe") for one in boxes.all()]
    assert [one.is_checked() for one in boxes.all()[:3]] == [False, True, True]
    page.get_by_role("link", name="Compare").click()
    watched.drawn(after=0)
    assert page.url.endswith(f"/why?probes={probes[1]},{probes[2]}")
    assert page.locator("main table tbody tr").count()


def test_several_devices_have_a_frontier_and_a_colour_each(watched):
    watched.open("/?tpot_limit=40")
    page = watched.page
    known = set(page.locator("#device option").all_inner_texts()[1:])
    assert known <= set(page.locator("#picture svg .role-legend text").all_text_contents())
    assert "--by-device " in page.locator("code[data-report='pareto']").inner_text()
    colours = {one.get_attribute("stroke") for one in page.locator("#picture svg .mark-line path").all()}
    assert len(colours) == len(known) == 2


def test_a_mark_says_whose_it_is_when_it_is_looked_at(watched):
    watched.open("/?limits=none")
    page = watched.page
    marks = page.locator("#picture svg .mark-symbol.role-mark path")
    points = int(re.search(r"(\d+) points", page.locator("#twin summary").inner_text())[1])
    assert 2 <= marks.count() <= points  # those that lie on each other are drawn once
    marks.last.hover(force=True)
    told = page.locator("#vg-tooltip-element.visible tr")
    told.first.wait_for()
    lines = dict(line.split("\t") for line in told.all_inner_texts())
    assert list(lines)[:3] == ["plan", "device", "concurrency"]
    assert lines["device"] in page.locator("#device option").all_inner_texts()


def test_cells_of_a_heat_map_say_their_numbers(watched):
    watched.open("/pd?num_devices=8&tpot_limit=60")
    cells = watched.page.locator("section[data-report='pd-counts'] .picture svg .mark-text.role-mark text")
    rows = watched.page.locator("section[data-report='pd-counts'] tbody tr")
    assert cells.count() == rows.count() > 2


@pytest.mark.parametrize(("path", "said"), [
    ("/goodput", "have been simulated"), ("/explain?probe=zzz", "zzz"),
])  # fmt: skip
def test_what_is_refused_stands_on_the_page_and_not_in_the_console(watched, path, said):
    watched.open(path)
    assert said in watched.page.locator("main .error").first.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_a_screen_and_a_phone(chromium, server, scheme, width):
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    watched = Watched(context.new_page(), server)
    SHOTS.mkdir(parents=True, exist_ok=True)
    for path in ("/?tpot_limit=40", "/pd?num_devices=8"):
        watched.open(path)
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        name = path.partition("?")[0].strip("/") or "explore"
        watched.page.screenshot(path=SHOTS / f"{name}-{width}-{scheme}.png", full_page=True)
    context.close()
    assert watched.wrong == []


def test_another_name_for_this_machine_is_not_answered(chromium, server):
    port = server.rpartition(":")[2]
    rebound = launched(chromium.browser_type, "--host-resolver-rules=MAP evil.example 127.0.0.1")
    try:
        page = rebound.new_page()
        assert page.goto(f"http://evil.example:{port}/").status == 421
        assert page.goto(f"http://localhost:{port}/").status == 200
    finally:
        rebound.close()


def test_eight_clients_while_a_sweep_is_written(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, records(PLANS[:2]), key="a", sizes=60)
    over, statuses, torn, took = time.monotonic() + 30, [], [], []

    def client(number, address):
        asked = 0
        while time.monotonic() < over:
            limit = 5 + (number * 37 + asked * 11) % 90
            report = ("best", "pareto")[asked % 2]
            started = time.monotonic()
            try:
                with urllib.request.urlopen(
                    f"{address}/api/v1/answer/{report}?tpot_limit={limit}&model={MODELS[4][0]}"
                ) as got:
                    document = json.load(got)
                    statuses.append(got.status)
            except urllib.error.HTTPError as error:
                statuses.append(error.code)
                continue
            took.append(time.monotonic() - started)
            torn.extend(flaws(document, limit))
            asked += 1

    def writer():
        for number in range(2, 10):
            write_sweep(url, records(PLANS[number : number + 1]), key=str(number), sizes=60)
            time.sleep(2)

    with serving(url) as address:
        threads = [threading.Thread(target=client, args=(number, address)) for number in range(8)]
        threads.append(threading.Thread(target=writer))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    took.sort()
    print(
        json.dumps(
            {
                "answers": len(took),
                "p50_ms": round(1000 * took[len(took) // 2]),
                "p99_ms": round(1000 * took[int(len(took) * 0.99)]),
            }
        )
    )
    assert set(statuses) == {200}
    assert torn == []
    assert len(took) > 50


def flaws(document, limit):
    """What is wrong with an answer by itself: rows beyond the limit, ranks with gaps, a scenario twice."""
    names = [column["name"] for column in document["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in document["rows"]]
    if "rank" in names:
        by_group = {}
        for row in rows:
            by_group.setdefault(row["question_group"], []).append(row)
        for group, mine in by_group.items():
            if [row["rank"] for row in mine] != list(range(1, len(mine) + 1)):
                yield f"ranks of group {group}"
            if len({row["scenario"] for row in mine}) != len(mine):
                yield f"a scenario twice in group {group}"
        yield from (f"beyond the limit: {row['probe']}" for row in rows if row["tpot_ms"] > limit)
    if len(document["state"]) != 16:
        yield "no state"


def test_measured_points_of_the_same_lengths_lie_over_the_frontier(watched):
    point = {
        "model": MODELS[4][0], "device": "H100_SXM", "tpot_exclusive_ms": 10.0, "output_tokens_per_s": 800.0,
        "num_devices": 1, "input_length": 3500, "output_length": 1500, "concurrency": 8, "source": "one",
    }  # fmt: skip
    others = [
        point | {"source": "two", "input_length": 200},
        point | {"source": "three", "model": "another"},
        point | {"source": "four", "output_tokens_per_s": None},
    ]
    document = {
        "columns": [{"name": name} for name in point],
        "rows": [list(one.values()) for one in (point, *others)],
        "sql": "SELECT 1",
    }
    watched.page.route("**/api/v1/measured", lambda route: route.fulfill(json=document))
    watched.open("/")
    assert "Diamonds are measured (1)." in watched.page.locator("#legend").inner_text()
    assert watched.page.locator("#picture svg path[stroke='#d0306e']").count() == 1


def test_rows_of_several_cost_models_are_a_choice_that_the_address_holds(watched, page_url):
    known = set()

    def doubled(route):
        answered = route.fetch()
        document = answered.json()
        place = [column["name"] for column in document["columns"]].index("family")
        known.update(row[place] for row in document["rows"])
        document["rows"] += [[*row[:place], "empirical", *row[place + 1 :]] for row in document["rows"]]
        route.fulfill(response=answered, json=document)

    watched.page.route("**/api/v1/scope", doubled)
    watched.open("/?tpot_limit=40")
    page, seq = watched.page, watched.seq()
    assert page.locator("#family").input_value() == ""
    (family,) = known
    told = page.locator("#families").inner_text()
    assert told.startswith(f"Stored under 2 cost models. The newest rows are shown: {family} of ")
    assert page.locator("#families button").all_inner_texts() == sorted([f"only {family}", "only empirical"])
    page.get_by_role("button", name=f"only {family}").click()
    watched.drawn(after=seq)
    assert f"family={family}" in page.url
    assert page.locator("#families").count() == 0
    assert page.locator("#family").input_value() == family
    assert f"--family {family}" in page.locator("code[data-report='best']").inner_text()
    agree(page, page_url)
    watched.open(f"/?tpot_limit=40&family={family}")
    assert page.locator("#family").input_value() == family


def test_measured_rows_stand_beside_predicted_ones_or_alone(chromium, tmp_path):
    url, model, device = f"sqlite:///{tmp_path}/store.sqlite", "acme/unlisted-8B", "h100_sxm"
    made = mission_records(models=((model, *MODELS[4][1:]),), devices=((device, *DEVICES[0][1:]),), plans=PLANS[:2])
    write_sweep(url, made, key="a", sizes=40)
    rates = {1: 120.0, 4: 440.0, 16: 9000.0}
    points = [
        point(users, model=model, device=device, tp=1, users=users, version="0.21.0", ttft_ms_mean=100.0,
              tpot_exclusive_ms_mean=10.0 + users, output_tokens_per_s=rate)
        for users, rate in rates.items()
    ]  # fmt: skip
    with open_store(url) as store:
        put_measurements(store, points)
    with serving(url) as address:
        watched = Watched(chromium.new_page(viewport={"width": 1280, "height": 900}), address)
        watched.open("/?tpot_limit=40")
        page, tops = watched.page, {}
        agree(page, url)
        for kind, shown in (("both", {"predicted", "measured"}), ("measured", {"measured"})):
            seq = watched.seq()
            page.locator("#rows").select_option(kind)
            watched.drawn(after=seq)
            tops[kind] = agree(page, url)
            heads = page.locator("#top thead th").all_inner_texts()
            assert {row["rows"] for row in typed(page, url)} == shown, heads
            assert "rows" in heads
        assert (tops["both"]["probe"], tops["measured"]["concurrency"]) == (tops["measured"]["probe"], 16)
        assert "measured, 16 users get" in page.locator("#sentence").inner_text()
        assert "rows=measured" in page.url
        for path, least in (
            ("/curves?rows=both", 3),
            ("/curves?rows=measured", 3),
            ("/sensitivity?vary=tpot&rows=measured", 1),
        ):
            watched.open(path)
            assert page.locator("table tbody tr").count() >= least, path
            assert page.locator(".picture svg path").count() > least, path
        assert (watched.wrong, watched.foreign) == ([], [])
        page.close()
