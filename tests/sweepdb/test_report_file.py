"""A report to send: what its sliders show is what the store answers, and the file needs nothing but a browser."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from base64 import b64encode
from dataclasses import replace
from html import unescape
from itertools import product

import pytest
from accessible import FAINT, MOVING, by_keyboard, without_names
from chromium import browser
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

import queries
from cli.derived import spelled
from store.errors import InputError
from sweepdb.planning import carrying_order
from sweepdb.reporting import contents_of, drawing_engine, stops

ASKED = {"num_devices": 16, "ttft_limit": 900.0, "tpot_limit": 40.0}
COMMAND = "report --ttft-limit 900 --tpot-limit 40 --num-devices 16"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one model on two devices."""
    address = f"sqlite:///{tmp_path_factory.mktemp('report')}/store.sqlite"
    write_sweep(address, mission_records(models=(MODELS[4],), plans=PLANS[:3]), key="a", sizes=10)
    assert sweepdb("prices set H200_SXM --usd-per-device-hour 2", address).code == 0
    return address


@pytest.fixture(scope="module", autouse=True)
def few_stops():
    """Fewer stops than a person's file has: each costs a question."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stops, "MOST_STOPS", {"ttft": 3, "tpot": 3, "e2e": 2})
        patch.setattr(stops, "BUDGETS", (0.5, 1.0))
        yield


@pytest.fixture(scope="module")
def decision(url, few_stops):
    return contents_of(ASKED, url)


@pytest.fixture(scope="module")
def file(url, tmp_path_factory, few_stops):
    """The report as the command writes it."""
    pytest.importorskip("vl_convert", reason="reports need vl-convert, which is not installed")
    path = tmp_path_factory.mktemp("written") / "<b>answer.html"
    outcome = sweepdb([*COMMAND.split(), "--output", str(path)], url)
    assert outcome.code == 0, outcome.err
    return path


def places(held):
    return product(*(range(len(slider.stops)) for slider in held.sliders))


def asked_at(held, at):
    """The options of a question at a place of the sliders."""
    moved = {slider.keyword: slider.stops[place] for slider, place in zip(held.sliders, at, strict=True)}
    return {**moved, "num_devices": int(moved["num_devices"])}


def test_every_stop_is_what_the_store_answers(decision, url):
    held = decision.stops
    assert held.questions < len(held) == len(held.winners)  # some answers were another's, too
    assert len({place for found in held.winners.values() for place in found}) == len(held.rows) > 2
    with queries.open(url) as store:
        for at in places(held):
            asked = store.deployments(**asked_at(held, at))
            found = [held.rows[place] for place in held.winners[at]]
            best = sorted(asked.dicts(), key=carrying_order)
            for row, expected in zip(found, best, strict=True):
                differs = {name: (value, expected[name]) for name, value in row.items() if value != expected[name]}
                assert differs.keys() <= {"rank"}, (at, differs)  # what differs, for whoever sees it once


def test_stops_hold_what_was_asked_for_and_where_nothing_and_everything_fits(decision):
    held = decision.stops
    assert asked_at(held, held.asked) == ASKED
    assert [slider.stops[-1] for slider in held.sliders] == [16, None, None]
    assert held.sliders[0].stops == (8, 16)
    assert held.winners[0, 0, 0] == ()
    best = decision.plan.best
    assert held.rows[held.winners[held.asked][0]]["probe"] == best["probe"]
    line = held.line("devices")
    assert [limit for limit, _ in line] == [8, 16]
    assert line[1][1] == held.winners[held.asked]


def test_where_every_row_has_an_end_to_end_time_there_is_a_slider_for_it(tmp_path):
    address = f"sqlite:///{tmp_path}/store.sqlite"
    evaluated = sweepdb(
        "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --num-devices 2 --batch-range 64 --serving-model vllm"
        " --input-length 350 --output-length 150",
        address,
    )
    assert evaluated.code == 0, evaluated.err
    held = contents_of({"num_devices": 2, "e2e_limit": 60_000.0}, address).stops
    assert [slider.name for slider in held.sliders] == ["devices", "ttft", "tpot", "e2e"]
    with queries.open(address) as store:
        for at in [one for one in places(held) if one[1:3] == held.asked[1:3]]:
            best = sorted(store.deployments(**asked_at(held, at)).dicts(), key=carrying_order)
            assert [held.rows[place]["e2e_ms"] for place in held.winners[at]] == [row["e2e_ms"] for row in best]
    lines = [held.line("e2e")[place][1] for place in (0, -1)]
    assert lines[0] != lines[1]


def test_a_confidence_asks_at_every_pair_of_limits(url):
    sure = contents_of({**ASKED, "confidence": 0.2, "tuned_servers": True}, url)
    assert sure.answer.question.limits.confidence == 0.2


def test_a_report_is_about_one_group(url, tmp_path):
    other = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(other, mission_records(models=MODELS[3:5], plans=PLANS[:1]), key="a", sizes=4)
    refused = sweepdb(f"report --output {tmp_path}/x.html --num-devices 16", other)
    assert refused.code == 2
    assert "about one model, workload and format" in refused.err
    assert "--model" in refused.err
    assert not (tmp_path / "x.html").exists()


def test_without_the_package_that_draws_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(InputError, match="not installed") as told:
        drawing_engine()
    assert "sweepdb[pictures]" in told.value.hint


def test_the_file_is_whole_and_its_policy_names_what_it_runs(file, url, decision):
    text = file.read_text()
    assert len(text.encode()) < 2_000_000
    page = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=\"(?!data:)", page)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        assert b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in policy
    assert "<b>answer" not in text  # names are escaped
    (command,) = re.findall(r"<pre><code>(sweepdb [^<]+)</code>", text)
    named = shlex.join(word for keyword, value in decision.scope.items() for word in (spelled(keyword), value))
    assert unescape(command) == f"sweepdb {COMMAND} {named} --output '{file}' --store {shlex.quote(url)}"
    held = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])
    assert len(held["rows"]) == len(decision.stops.rows)
    assert "The sliders end at 8 to 16 devices, TTFT of" in unescape(text)
    first = next(iter(decision.plan.sentences()))
    assert unescape(re.findall(r'id="sentence">([^<]+)<', text)[0]) == first


def test_whoever_reads_the_first_part_alone_knows_what_it_costs_and_how_sure_it_is(file, decision):
    text = unescape(re.sub(r"<script.*?</script>|<style>.*?</style>", "", file.read_text(), flags=re.DOTALL))
    parts = dict(re.findall(r"<section>\s*<h[12]>([^<]+)</h[12]>(.*?)</section>", text, re.DOTALL))
    first = parts["What to deploy"]
    prompt, answer = decision.lengths
    assert f"Prompts of {prompt:,.0f} tokens, answers of {answer:,.0f}." in first
    best = min(decision.answer.dicts(), key=carrying_order)
    assert best["device"] == "H200_SXM"  # the one with a price
    assert f"It costs {best['usd_per_hour']:,.2f} USD an hour" in first
    assert (
        "These numbers are predicted. Half of measured tokens/s lie on servers tuned like the benchmarks' between"
        in first
    )
    words = parts["What the words mean"]
    assert ("TP 2" in words, "PP 2" in words) == (True, False)
    assert "Disaggregated: " in words


def test_what_was_assumed_of_the_winners_is_told(tmp_path):
    address = f"sqlite:///{tmp_path}/store.sqlite"
    for record in (records := mission_records(models=(MODELS[4],), plans=PLANS[:1])):
        assert record.assumptions is None
    told = "half of the peak\nno overlap"
    write_sweep(address, [replace(record, assumptions=told) for record in records], key="a", sizes=4)
    assert contents_of({"num_devices": 4}, address).assumptions == (
        "Assumed: half of the peak.",
        "Assumed: no overlap.",
    )


def test_the_command_repeats_the_report_when_another_request_is_the_newest(decision, url, tmp_path):
    other = f"sqlite:///{tmp_path}/store.sqlite"
    shutil.copy(url.removeprefix("sqlite:///"), tmp_path / "store.sqlite")
    write_sweep(other, mission_records(models=(MODELS[3],), plans=PLANS[:1]), key="b", sizes=4)
    assert contents_of(ASKED, other).answer.scope != decision.answer.scope
    again = contents_of({**ASKED, **decision.scope}, other)
    assert again.answer.scope == decision.answer.scope
    assert again.answer.rows == decision.answer.rows
    assert again.scope == {}


def test_what_nothing_satisfies_is_told_with_what_would(url, tmp_path):
    pytest.importorskip("vl_convert", reason="reports need vl-convert, which is not installed")
    path = tmp_path / "x.html"
    outcome = sweepdb(f"report --num-devices 16 --tpot-limit 0.001 --output {path}", url)
    assert outcome.code == 0, outcome.err
    text = path.read_text()
    assert 'id="sentence">Nothing satisfies the limits.' in text
    assert "nothing fits" in text
    assert "and more" in text


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_browser_without_a_network_shows_and_moves_it(file, url, scheme, width, tmp_path):
    said, asked_for = [], []
    with browser() as chromium:
        page = chromium.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True
        ).new_page()
        page.on("console", lambda message: said.append((message.type, message.text)))
        page.on("pageerror", lambda error: said.append(("error", str(error))))
        page.on("request", lambda request: asked_for.append(request.url))
        page.goto(file.as_uri())
        page.locator("body[data-drawn='yes']").wait_for()
        assert page.locator("#live svg").count() == 1
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width  # tables scroll, the page does not
        page.screenshot(path=tmp_path / "report.png", full_page=True)
        assert page.evaluate(FAINT) == []
        assert page.evaluate(MOVING) == []
        assert without_names(page) == []
        assert by_keyboard(page) == ([], [])
        assert page.get_by_role("slider", name="TPOT at most").get_attribute("aria-valuetext") == "40 ms"
        assert page.locator("#moved").is_hidden()
        page.locator("#tpot").focus()
        page.keyboard.press("ArrowLeft")
        moved = page.locator("#tpot-told").inner_text()
        top = page.locator("#deployments tbody tr").first.locator("td").all_inner_texts()
        assert page.locator("#moved").is_visible()
        with queries.open(url) as store:
            rows = store.deployments(**{**ASKED, "tpot_limit": float(moved.removesuffix(" ms"))}).dicts()
        best = min(rows, key=carrying_order)
        assert float(top[3].replace(",", "")) == pytest.approx(best["system_requests_per_s"], rel=1e-3)
        assert float(top[7].replace(",", "")) == pytest.approx(best["tpot_ms"], rel=1e-3)
        page.locator("#devices").focus()
        page.keyboard.press("ArrowLeft")
        assert page.locator("#devices-told").inner_text() == "8"
        halved = page.locator("#deployments tbody tr").first.locator("td").all_inner_texts()
        with queries.open(url) as store:
            rows = store.deployments(**{**ASKED, "num_devices": 8, "tpot_limit": float(moved.removesuffix(" ms"))})
        best = min(rows.dicts(), key=carrying_order)
        assert float(halved[3].replace(",", "")) == pytest.approx(best["system_requests_per_s"], rel=1e-3)
        assert "8 devices, TTFT \u2264 900 ms" in page.locator("#moved").inner_text()
        page.locator("#devices").focus()
        page.keyboard.press("ArrowRight")
        page.locator("[data-device='0']").fill("4")  # twice the price is twice the cost
        doubled = page.locator("#deployments tbody tr").first.locator("td").all_inner_texts()
        assert float(doubled[-1]) == pytest.approx(2 * float(top[-1]), rel=2e-3)
        page.locator("button[type=reset]").click()
        page.locator("#moved").wait_for(state="hidden")
    assert [one for one in said if one[0] in {"error", "warning"}] == []
    assert [one for one in asked_for if not one.startswith(("file:", "data:"))] == []
