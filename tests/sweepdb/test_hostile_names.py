"""Hostile names that a store already holds, through every output: none steers a reader, a browser or a shell.

They are written into the database directly, since every way in refuses most of them (tests/store/test_names.py)."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sqlite3
import subprocess
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import duckdb
import pytest
import yaml
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from hostile_names import NAMES, UNSEEN, assert_only_drawn, named
from launched_rows import fill, rows_of
from queries_stores import mission_records, write_sweep

from cli.commands.sql import rows_page
from queries.sandbox import StatementLimits
from store.location import parse_url
from store.texts import escaped, from_text
from sweepdb.launching import write_launch
from sweepdb.reporting import drawable, drawn, stops
from sweepdb.statements import rows_of as rows_of_statement
from sweepdb.web.documents import csv_text

HARMLESS = "Some-Org/some-model"
BEST = "query best --tpot-limit 50 --all --top 3"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store of one model on two devices."""
    url = f"sqlite:///{tmp_path_factory.mktemp('hostile')}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:2]), key="a", sizes=6)
    return url


@pytest.fixture(scope="module", autouse=True)
def few_stops():
    """Fewer stops than a person's file has: each costs a question."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stops, "MOST_STOPS", {"ttft": 2, "tpot": 2, "e2e": 1})
        patch.setattr(stops, "BUDGETS", (1.0,))
        yield


@pytest.fixture(params=NAMES.values(), ids=NAMES.keys())
def name(request, place):
    named(place, request.param)
    return request.param


def test_tables_and_lists_show_what_no_reader_sees(place, name):
    for line in (f"{BEST} --explain", "sweeps", "db check"):
        outcome = sweepdb(line, place)
        assert outcome.code in {0, 2, 3}, (line, outcome.err)  # a check tells that names are not what was evaluated
        assert not UNSEEN.search(outcome.out + outcome.err), line
        assert "Traceback" not in outcome.err


def test_csv_runs_nothing_and_is_read_back_as_it_was(place, name):
    for text in (sweepdb(f"{BEST} --format csv", place).out, csv_text(["device"], [[name]])):
        header, *rows = csv.reader(io.StringIO(text, newline=""))
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            assert from_text(cells["device"]).startswith(name)
            assert not any(cell[:1] in "=@\t\r" for cell in row if cell)
            assert all(re.fullmatch(r"[-+][\d.e+-]+", cell) for cell in row if cell[:1] in ("-", "+"))
    exact = sweepdb(f"--exact-csv {BEST} --format csv", place).out
    assert next(csv.DictReader(io.StringIO(exact, newline="")))["device"].startswith(name)


def test_json_and_parquet_hold_the_name(place, name, tmp_path):
    (first, *_) = json.loads(sweepdb(f"{BEST} --format json", place).out)
    assert first["device"].startswith(name)
    assert sweepdb(f"{BEST} --format parquet --output {tmp_path}/a.parquet", place).code == 0
    (found,) = duckdb.sql(f"SELECT device FROM '{tmp_path}/a.parquet' LIMIT 1").fetchall()
    assert found[0] == first["device"]
    assert sweepdb(f"{BEST} --proof {tmp_path}/p.json", place).code == 0
    held = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    assert held["question"]
    assert sweepdb(f"verify {tmp_path}/p.json", place).code == 0


def test_pictures_are_drawn(place, name, tmp_path):
    drawn_as = sweepdb(f"{BEST} --format svg", place)
    assert drawn_as.code == 0, drawn_as.err
    assert_only_drawn(drawn_as.out)
    assert sweepdb(f"{BEST} --format png --output {tmp_path}/a.png", place).code == 0
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    said = json.loads(sweepdb(f"{BEST} --format vl", place).out)
    assert any(str(row["device"]).startswith(name) for row in said["data"]["values"])


class Tags(HTMLParser):
    """Every element and attribute of a page, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts = Counter(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found[tag] += 1
        self.found.update(f"{tag} {key}" for key, _ in attrs)

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def plain_pages(place, tmp_path_factory):
    named(place, HARMLESS)
    return pages(place, tmp_path_factory.mktemp("plain"))


def pages(url, folder):
    """Each HTML file that the command writes about a store."""
    commands = {
        "report": f"report --tpot-limit 50 --num-devices 16 --output {folder}/report.html",
        "picture": f"{BEST} --format html --output {folder}/picture.html",
    }
    for line in commands.values():
        outcome = sweepdb(line, url)
        assert outcome.code == 0, outcome.err
    statement = "SELECT model, device, plan FROM probe LIMIT 5"
    rows = rows_page(rows_of_statement(parse_url(url), statement, StatementLimits(), {}), statement, {})
    files = {file: (folder / f"{file}.html").read_text(encoding="utf-8") for file in commands}
    return {file: Tags(text) for file, text in {**files, "rows": rows}.items()}


@pytest.mark.parametrize("kind", ["meta", "script", "turned", "quotes"])
def test_pages_have_the_elements_of_a_harmless_name(place, kind, plain_pages, tmp_path):
    named(place, NAMES[kind])
    for file, page in pages(place, tmp_path).items():
        assert page.found == plain_pages[file].found, file
        if file != "picture":
            assert any(escaped(NAMES[kind]) in text for text in page.texts), file


@pytest.mark.parametrize("kind", ["quotes", "lines", "escape"])
def test_scripts_and_manifests_hold_a_name_as_one_word(kind, tmp_path):
    url = fill(tmp_path / "store")
    with sqlite3.connect(parse_url(url).path) as connection:
        connection.execute("UPDATE model SET name = ?", [NAMES[kind]])
        connection.execute("UPDATE model_alias SET alias = ?", [NAMES[kind]])
    connection.close()
    for target in ("shell", "k8s", "compose"):
        folder = tmp_path / target
        write_launch(rows_of(url, ("aggregated", "tp2pp1dp4ep8moetp1moedp1")), folder, store=url, target=target)
        for file in folder.iterdir():
            text = file.read_bytes().decode()
            if file.suffix == ".sh":
                subprocess.run(["bash", "-n"], input=text, text=True, check=True)
                if file.name == "server.sh":
                    started = text.partition("exec ")[2].replace("\\\n", " ")
                    assert NAMES[kind] in shlex.split(started)
                if file.name == "bench.sh":
                    (line,) = re.findall(r"^TOKENIZER=.*?(?=\nUSERS=)", text, re.MULTILINE | re.DOTALL)
                    said = subprocess.run(
                        ["bash", "-c", f'{line}\nprintf %s "$TOKENIZER"'], capture_output=True, check=True
                    )
                    assert said.stdout.decode() == NAMES[kind]
            elif file.suffix in {".yaml", ".yml"}:
                assert [*yaml.safe_load_all(text)]


def test_any_character_can_be_drawn_once_it_is_written_out():
    # Every code point there is, a plane in some texts: what is left of them is what XML 1.0 may hold.
    legal = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd]*")
    for start in range(0, 0x110000, 0x1000):
        assert legal.fullmatch(drawable("".join(map(chr, range(start, start + 0x1000)))))
    texts = ["".join(map(chr, range(start, start + 0x400))) for start in range(0, 0x10000, 0x400)]
    marks = {"mark": "text", "encoding": {"text": {"field": "t"}, "y": {"field": "n", "type": "ordinal"}}}
    ET.fromstring(drawn({"data": {"values": [{"t": t, "n": n} for n, t in enumerate(texts)]}, **marks}, "svg"))
