"""The one rule of names: what it takes, and every way by which a name enters a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from bundle_forgery import made_right, with_lines
from conftest_cli import sweepdb
from hypothesis import given
from hypothesis import strategies as st
from measured_points import bare_point

from evaluator.inputs import load_model
from store.errors import InputError, SweepdbError
from store.location import parse_url
from store.opening import open_store
from store.reading import read_transaction
from store.records import PriceRecord
from store.texts import LONGEST_NAME, as_text, checked_name, checked_text, csv_line, escaped, from_text
from store.writing import put_measurements, put_prices, void
from sweepdb.sharing import export_bundle, import_bundle

ODD = ["a\x1b[31m", "a\x00", "a\x85", "a\u202eb", "a\u2066", "a\ud800", "a\ufffe", "a\u2028", "a\nb", "a\tb", "\x7f"]
EVALUATED = (
    "--device TEST_DEVICE --num-devices 1 --input-length 100 --output-length 20 --batch-range 2 --mode aggregated"
)


@pytest.mark.parametrize("name", ODD)
def test_a_name_with_what_no_reader_sees_is_refused_and_shown_escaped(name):
    with pytest.raises(InputError, match=r"^The label holds the character U\+") as told:
        checked_name(name, "The label")
    assert told.value.message.isprintable()


def test_a_name_has_a_length_and_a_text_may_have_lines():
    assert checked_name("模型 é 🚀 =1+1 <b>", "x") == "模型 é 🚀 =1+1 <b>"
    with pytest.raises(InputError, match="has 201 characters, more than 200"):
        checked_name("n" * (LONGEST_NAME + 1), "The label")
    assert checked_text("one\ntwo\t" + "n" * LONGEST_NAME, "x")
    with pytest.raises(InputError, match="U\\+001B"):
        checked_text("\x1b", "x")


@given(st.text(st.characters()))
def test_what_is_escaped_is_a_name_but_for_breaks_and_length(text):
    checked_name(escaped(text).replace("\n", "").replace("\t", "")[:LONGEST_NAME], "x")


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n")), min_size=1))
def test_a_line_of_csv_is_read_back_as_it_was(cells):
    import csv
    import io

    (read,) = csv.reader(io.StringIO(csv_line(cells), newline="")) if cells != [""] else ([""],)
    assert [from_text(cell) for cell in read] == cells
    assert not any(cell[0] in "=@" for cell in read if cell)


@pytest.mark.parametrize(
    ("cell", "written"),
    [("=1", "'=1"), ("@SUM(A1)", "'@SUM(A1)"), ("-1+1", "'-1+1"), ("+1x", "'+1x"), ("\tx", "'\tx"), ("'=1", "''=1"),
     ("\uff1d1", "'\uff1d1"), ("-1.5", "-1.5"), ("+2e-3", "+2e-3"), ("h200", "h200"), ("it's", "it's"), ("'", "'")],
)  # fmt: skip
def test_texts_that_a_spreadsheet_would_run_are_marked_and_numbers_are_not(cell, written):
    assert (as_text(cell), from_text(written)) == (written, cell)


def test_numbers_are_never_marked():
    assert csv_line([-1.5, -3, None, "x"]) == "-1.5,-3,,x\n"
    assert csv_line(["=1", "\ud800"], exact=True) == "=1,\\ud800\n"


@pytest.fixture
def url(tmp_path):
    address = f"sqlite:///{tmp_path}/store.sqlite"
    open_store(address, create=True).close()
    return address


def texts(url):
    """Every text that the store holds outside JSON."""
    with read_transaction(parse_url(url)) as transaction:
        return [
            *transaction.values(str, "SELECT name FROM model UNION SELECT label FROM sweep WHERE label IS NOT NULL")
        ]


def test_a_folder_of_a_model_with_a_control_character_is_refused_before_anything_is_stored(url, tmp_path):
    folder = tmp_path / "m\x1b[31mx"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    outcome = sweepdb(["evaluate", str(folder), *EVALUATED.split()], url)
    assert outcome.code == 2
    assert "The name of a model holds the character U+001B" in outcome.err
    with pytest.raises(InputError, match=r"U\+DCFF"):
        load_model(os.fsdecode(b"folder\xff"))
    assert texts(url) == []


def test_labels_reasons_prices_and_points_are_names_and_texts(url):
    odd = "a\u202eb"
    labelled = sweepdb(["evaluate", "Qwen/Qwen3-0.6B", *EVALUATED.split(), "--label", odd], url)
    assert (labelled.code, "The label of a sweep holds" in labelled.err) == (2, True)
    assert sweepdb(["evaluate", "Qwen/Qwen3-0.6B", *EVALUATED.split(), "--label", "n" * 201], url).code == 2
    with open_store(url) as store:
        with pytest.raises(InputError, match="source of a price"):
            put_prices(store, [PriceRecord(device_name="x", effective_from="2026-01-01", usd_per_device_hour=1.0,
                                           watts_per_device=None, source="\x1b")])  # fmt: skip
        point = bare_point(model=odd, metrics={"ttft_ms_mean": 1.0})
        with pytest.raises(InputError, match="model of a measurement"):
            put_measurements(store, [point])
        with pytest.raises(SweepdbError):
            void(store, "0" * 12, "\x1b")


def test_a_line_of_measured_points_with_an_odd_name_is_a_line_that_cannot_be_read(url, tmp_path):
    file = tmp_path / "points.csv"
    file.write_text("model,device,input_length,output_length,ttft_ms\nm,d\x1b,100,10,5\n'=m,d,100,10,5\n")
    outcome = sweepdb(["measurements", "import", str(file)], url)
    assert outcome.code == 4
    assert "points.csv:2: device holds the character U+001B" in outcome.err
    listed = sweepdb("measurements list --format json", url)
    assert [row["model"] for row in json.loads(listed.out)] == ["=m"]  # as our own CSV wrote it


@pytest.fixture(scope="module")
def bundle_of(tmp_path_factory):
    """A bundle of one evaluated scenario, copied for whoever changes it."""
    import shutil

    folder = tmp_path_factory.mktemp("names")
    address = f"sqlite:///{folder}/store.sqlite"
    assert sweepdb(["evaluate", "Qwen/Qwen3-0.6B", *EVALUATED.split()], address).code == 0
    export_bundle(folder / "bundle", store=address)

    def copied(to):
        return shutil.copytree(folder / "bundle", to)

    return copied


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("sweeps", {"label": "\ud800"}),
        ("sweeps", {"label": "n" * 1_000_000}),
        ("sweeps", {"arguments": "[" * 100_000 + "]" * 100_000}),
        ("sweeps", {"arguments": '{"a":' * 100_000 + "1" + "}" * 100_000}),
        ("sweeps", {"arguments": '{"models": "' + "x" * 5_000_000 + '"}'}),
        ("sweeps", {"program_version": "0\x1b"}),
        ("name", {"name": "deepseek-ai/DeepSeek-V3"}),
        ("name", {"name": "m\u202e"}),
    ],
)
def test_a_bundle_with_a_name_that_is_none_is_refused_in_a_sentence(bundle_of, file, change, url, tmp_path):
    folder = bundle_of(tmp_path / "bundle")
    with_lines(folder, file, lambda lines: lines[0].update(change))
    made_right(folder)
    outcome = sweepdb(["import", str(folder)], url)
    assert outcome.code == 2, outcome.err
    assert "Traceback" not in outcome.err
    assert len(outcome.err) < 2_000
    assert texts(url) == []


def test_the_bundle_as_it_is_and_another_name_of_the_same_model_are_taken_in(bundle_of, url, tmp_path):
    folder = bundle_of(tmp_path / "bundle")
    with_lines(folder, "name", lambda lines: lines.append({**lines[0], "name": "my/copy-of-it"}))
    made_right(folder)
    assert import_bundle(folder, store=url).probes == 2


def test_a_pipe_in_the_place_of_a_description_is_refused_at_once(bundle_of, url, tmp_path):
    folder = bundle_of(tmp_path / "bundle")
    (folder / "bundle.json").unlink()
    os.mkfifo(folder / "bundle.json")
    assert "its bundle.json is no file" in sweepdb(["import", str(folder)], url).err


def test_a_store_that_holds_nested_arguments_and_long_labels_is_listed(url):
    import sqlite3

    assert sweepdb(["evaluate", "Qwen/Qwen3-0.6B", *EVALUATED.split()], url).code == 0
    with sqlite3.connect(parse_url(url).path) as connection:
        connection.execute("UPDATE sweep SET arguments = ?, label = ?", ["[" * 100_000, "n" * 1_000_000])
        (key,) = connection.execute("SELECT key FROM sweep").fetchone()
    connection.close()
    for line in ("sweeps", "sweeps --format json", f"show {key}", f"show {key} --format json"):
        outcome = sweepdb(line, url)
        assert outcome.code == 0, outcome.err
        assert len(outcome.out) < 20_000


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "num_experts"])
def test_a_config_of_a_thousand_million_layers_is_refused_before_memory_is_taken(key, tmp_path):
    config = {
        "model_type": "qwen3_moe", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 2, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "intermediate_size": 64,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps({**config, key: 1_000_000_000}))
    program = (
        "import resource, sys\n"
        "from evaluator.inputs import load_model\n"
        "used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: load_model(sys.argv[1])\n"
        "except Exception as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    *said, kilobytes = done.stdout.splitlines()
    assert f"{key} is 1000000000: more than 10" in said[0]
    assert int(kilobytes) < 100_000


@pytest.mark.parametrize("text", ["name: a\nname: b\n", "links:\n- {efficiency: 1, efficiency: 0.5}\n"])
def test_a_key_that_is_said_twice_is_refused(text, tmp_path):
    (tmp_path / "d.yaml").write_text(text)
    outcome = sweepdb(["devices", str(tmp_path / "d.yaml")])
    assert (outcome.code, "is said twice" in outcome.err) == (2, True)


def test_a_first_token_in_seconds_is_a_line_that_cannot_be_read(url, tmp_path):
    file = tmp_path / "points.csv"
    file.write_text("model,device,input_length,output_length,ttft_ms\nm,d,100,10,0.05\nm,d,100,10,50\n")
    outcome = sweepdb(["measurements", "import", str(file)], url)
    assert (outcome.code, "points.csv:2: ttft_ms_mean is 0.05 ms" in outcome.err) == (4, True)


def test_a_list_of_many_points_is_bounded_for_a_person_and_whole_for_programs(url, tmp_path):
    file = tmp_path / "points.csv"
    lines = [f"m,d,{100 + n},10,5" for n in range(1_200)]
    file.write_text("\n".join(["model,device,input_length,output_length,ttft_ms", *lines, ""]))
    assert sweepdb(["measurements", "import", str(file)], url).code == 0
    shown = sweepdb("measurements list", url)
    assert len(shown.out.splitlines()) == 1_002
    assert "the first 1,000 of 1,200 points" in shown.err
    assert len(sweepdb("measurements list --format jsonl", url).out.splitlines()) == 1_200
