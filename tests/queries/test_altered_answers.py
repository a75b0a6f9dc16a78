"""Whatever is altered in an answer that was kept is noticed beside its proof: every place of every kind of file.

Not noticed is what changes nothing that a reader sees: the order of keys beside the rows of `json-full`, spaces, and
digits of a float beyond the twelfth."""

import csv
import io
import json
from itertools import islice
from pathlib import Path

import duckdb
import pytest
from altered_documents import alterations, places, with_a_key_twice
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

from cli.commands.questions import written_for
from queries.proofs import KeptAnswer
from queries.proofs.answer_files import compare_answer
from queries.proofs.document import question_from
from queries.session import Session
from store.errors import SweepdbError
from store.location import parse_url

QUESTIONS = {  # an answer with rows, one of pairs, and one without rows, which has nearest misses
    "best": "best --all --tpot-limit 60 --top 2",
    "pairs": "pd-ratio --all --tpot-limit 60 --num-devices 8 --top 2",
    "nearest": "best --all --tpot-limit 1e-9",
}
FORMATS = ("csv", "json", "jsonl", "json-full", "parquet")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of answers as they were kept, and for each question how a file is compared."""
    folder = tmp_path_factory.mktemp("kept")
    url = f"sqlite:///{folder}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:2]), key="a", sizes=4)
    written, comparing = written_for(parse_url(url)), {}
    for name, question in QUESTIONS.items():
        assert sweepdb(f"query {question} --proof {folder}/{name}.proof", url).code == 0
        for format_ in FORMATS:
            assert sweepdb(f"query {question} --format {format_} --output {folder}/{name}.{format_}", url).code == 0
        document = json.loads((folder / f"{name}.proof").read_text())
        with Session(parse_url(url)) as session:
            comparing[name] = (session.ask(question_from(document["question"])), document["shown"])
    texts = {}

    def once(answer, format_, composed):
        key = (answer.report, bool(answer.rows), format_, composed)
        if key not in texts:
            texts[key] = "".join(written(answer, format_, composed))
        return [texts[key]]

    def refused(name, content):
        """The error about a file with this content beside a proof; None where it is the answer."""
        path = folder / "altered"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        try:
            compare_answer(KeptAnswer(path, once), *comparing[name])
        except SweepdbError as caught:
            error = caught
        else:
            return None
        assert error.exit_code in {2, 3}
        assert "\n" not in error.message
        return error

    return folder, url, refused


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_as_it_was_kept_is_the_answer(kept, name, format_):
    folder, url, refused = kept
    assert refused(name, (folder / f"{name}.{format_}").read_bytes()) is None
    if name == "pairs":
        outcome = sweepdb(f"verify {folder}/{name}.proof {folder}/{name}.{format_}", url)
        assert outcome.code == 0, outcome.err
        assert "is the answer" in outcome.err


def walked(document, *, every):
    """Every alteration at every place; a few by the way where there is little time."""
    made = (
        ((path, done), changed)
        for path in places(document, every=every)
        for done, changed in alterations(document, path)
        if json.dumps(changed) != json.dumps(document)
    )
    return made if every else islice(made, 0, None, 7)


EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])


@EVERY
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_place_of_a_whole_answer(kept, name, every):
    folder, _, refused = kept
    text = (folder / f"{name}.json-full").read_text()
    document, count = json.loads(text), 0
    for what, changed in walked(document, every=every):
        assert refused(name, json.dumps(changed)), what
        count += 1
    for key, twice in islice(with_a_key_twice(text), 0, None, 1 if every else 7):
        assert "stands twice" in refused(name, twice).message, key
    assert count > (400 if every else 40)


@EVERY
@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_every_place_of_rows_as_json(kept, format_, every):
    folder, _, refused = kept

    def text_of(rows):
        ends = json.dumps(rows) if format_ == "json" or not isinstance(rows, list) else ""
        return ends or "".join(f"{json.dumps(row)}\n" for row in rows)

    document = json.loads((folder / "pairs.json").read_text())
    assert refused("pairs", text_of(document)) is None
    for what, changed in walked(document, every=every):
        assert refused("pairs", text_of(changed)), what
    first = document[0]
    turned = [dict(reversed(first.items())), *document[1:]]
    assert "another order" in refused("pairs", text_of(turned)).message
    twice = text_of(document).replace('"rank": 1', '"rank": 2, "rank": 1', 1)
    assert "stands twice" in refused("pairs", twice).message


def test_every_cell_of_csv(kept):
    folder, _, refused = kept
    table = list(csv.reader(io.StringIO((folder / "best.csv").read_text(), newline="")))

    def text_of(lines):
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(lines)
        return buffer.getvalue()

    assert refused("best", text_of(table)) is None
    for row, line in enumerate(table):
        for column, cell in list(enumerate(line))[row::3]:
            number = cell.replace(".", "", 1).isdigit()
            for other in (str(float(cell) * (1 + 1e-9) + 1e-9) if number else f"{cell}x", "" if cell else "0"):
                changed = [list(one) for one in table]
                changed[row][column] = other
                assert refused("best", text_of(changed)), (table[0][column], other)
    for lines in (
        table[:-1], [*table, table[-1]], [line[:-1] for line in table], [[*line, line[0]] for line in table],
        [table[0], *table[:0:-1]], [line[::-1] for line in table], table[1:], table[:1], [],
    ):  # fmt: skip
        assert refused("best", text_of(lines)), lines[:1]


def test_every_column_of_parquet(kept, tmp_path):
    folder, _, refused = kept
    path = tmp_path / "altered.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE kept AS FROM read_parquet('{folder}/best.parquet')")
        types = {name: type_ for name, type_, *_ in connection.execute("DESCRIBE kept").fetchall()}

        def altered(select):
            connection.execute(f"COPY (SELECT {select} FROM kept) TO '{path}' (FORMAT parquet)")
            return refused("best", path.read_bytes())

        assert altered("*") is None
        for name, type_ in types.items():
            other = {"VARCHAR": "coalesce(c, '') || 'x'", "BOOLEAN": "NOT c", "TIMESTAMP": "c + INTERVAL 1 DAY"}
            text = other.get(type_, "coalesce(c, 0) * 1.000001 + 1").replace("(c", f'("{name}"').replace(
                "NOT c", f'NOT "{name}"'
            ).replace("c +", f'"{name}" +')  # fmt: skip
            error = altered(f'* REPLACE ({text} AS "{name}")')
            assert error, name
            assert f"says {name} is" in error.message
        first = next(iter(types))
        assert altered(f'* EXCLUDE ("{first}")')
        assert altered("*, 1 AS more")


def test_what_no_reader_sees_may_change(kept):
    folder, _, refused = kept
    document = json.loads((folder / "best.json-full").read_text())
    assert refused("best", json.dumps(dict(reversed(document.items())), indent=7)) is None
    rows = [{name: _beyond_twelve(value) for name, value in row.items()} for row in document["rows"]]
    assert rows != document["rows"]
    assert refused("best", json.dumps({**document, "rows": rows})) is None


def _beyond_twelve(value):
    return value * (1 + 1e-15) if isinstance(value, float) and not f"{value:.13g}".endswith("5") else value


def test_a_picture_and_a_table_are_no_answer_to_compare(kept):
    folder, url, _ = kept
    for format_ in ("svg", "table"):
        assert sweepdb(f"query {QUESTIONS['best']} --format {format_} --output {folder}/best.{format_}", url).code == 0
        outcome = sweepdb(f"verify {folder}/best.proof {folder}/best.{format_}", url)
        assert outcome.code in {2, 3}, outcome.err
        assert Path(f"{folder}/best.{format_}").name in outcome.err
