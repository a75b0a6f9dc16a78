"""Old names of options: they work until the next release and say the new one; no help, page or document uses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main
from conftest_cli import sweepdb

import queries
from cli.derived import OLD_FLAGS
from cli.help.commands import COMMANDS
from cli.main import build_app
from queries.asking import OLD_COLUMNS, asked_reports, reports
from queries.dictionary import dictionary
from store.errors import InputError
from tools.reference_pages import REFERENCE_PAGES

ROOT = Path(__file__).parents[2]
# The drop-in for another program keeps that program's options; the changelog tells of earlier days.
WRITTEN_FOR_OTHERS = {"seeds.md", "commands.md"}
COLUMNS = {
    "qps", "seats", "max_batched_tokens", "target_users", "target_qps", "prefill_qps", "decode_qps",
}  # fmt: skip  # stored, variables of SQL, or old columns of views, too
# Words for requests/s, a simulation, --max-num-seqs and --max-num-batched-tokens; a log is replayed.
OWN = re.compile(
    r"\bqps\b|\b(?:un)?play(?:s|ed|ing)?\b|\bseats?\b|(?<!-)\b(?:token )?budget \d+\b|\b(?:decode|sides?) (?:are )?apart\b",
    re.IGNORECASE,
)
TOLD = ("howto", "tutorial")


@pytest.fixture(scope="module", autouse=True)
def program():
    return typer.main.get_command(build_app())  # whoever builds the commands knows their old flags


def pages():
    folders = ("howto", "tutorial", "explanation", "reference")
    yield from (path for name in folders for path in sorted((ROOT / "docs" / name).rglob("*.md")))
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "demo.sh")
    yield from sorted((ROOT / "sweepdb" / "web" / "static").glob("*.js"))


def old_word():
    keywords = {flag.removeprefix("--").replace("-", "_") for flag in OLD_FLAGS} - COLUMNS
    words = {*OLD_FLAGS, *keywords}
    return re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(map(re.escape, words)))})(?![\w-])")


def test_there_are_old_words():
    assert OLD_FLAGS["--tpot-limits"] == "--tpot-limit"
    assert OLD_FLAGS["--quantize-linear-action"] == "--quantization"


def test_no_page_uses_an_old_word():
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages()}
    texts |= {name: text() for name, text in REFERENCE_PAGES.items() if name.endswith(".md")}
    used = {name: old_word().search(text) for name, text in texts.items()}
    assert {name: found[0] for name, found in used.items() if found and name not in WRITTEN_FOR_OTHERS} == {}


@pytest.mark.parametrize("command", ["evaluate", "plan", "query", "report"])
def test_no_help_shows_an_old_word(command):
    assert old_word().search(sweepdb(f"{command} --help-all").out) is None


def test_no_header_of_a_report_uses_an_old_word():
    for report in asked_reports().values():
        told = " ".join([report.summary, *(f"{one.name} {one.meaning}" for one in report.columns)])
        assert old_word().search(told) is None, report.name
        assert OWN.search(told) is None, report.name


def test_no_column_of_a_report_has_an_old_name():
    for report in reports().values():
        named = {one.name: one.unit for one in report.columns}
        assert set(named) & OLD_COLUMNS.keys() == set(), report.name
        assert named.get("rate", "requests/s") == "requests/s", report.name
        assert OWN.search(" ".join([report.summary, *(one.meaning for one in report.columns)])) is None, report.name


def test_views_have_a_column_under_both_names_and_say_which_goes():
    old = OLD_COLUMNS
    for relation in dictionary():
        if relation.kind == "raw" or relation.name == "scenario":  # as it is stored
            continue
        named = {one.name: one.meaning for one in relation.columns}
        for name in named.keys() & old.keys():
            assert named[name] == f"old name of {old[name]}, gone with the next release", relation.name
            assert old[name] in named, relation.name
        assert OWN.search(" ".join([relation.meaning, *named.values()])) is None, relation.name


@pytest.mark.parametrize("command", [name for names in COMMANDS.values() for name in names])
def test_no_help_uses_a_word_of_our_own(command):
    told = sweepdb(f"{command} --help-all").out or sweepdb(f"{command} --help").out
    assert told
    assert OWN.search(told) is None


def test_the_list_of_commands_uses_no_word_of_our_own():
    assert OWN.search(sweepdb("--help").out) is None


def test_no_page_uses_a_word_of_our_own():
    used = {
        path.name: OWN.search(path.read_text(encoding="utf-8"))
        for path in pages()
        if path.suffix == ".js" or path.parent.name in TOLD or path.name == "README.md"
    }
    assert {name: found[0] for name, found in used.items() if found} == {}


def test_an_old_objective_answers_as_the_new_one_and_says_it(example_copy):
    old = sweepdb("query best --rank-by qps --format csv", example_copy)
    new = sweepdb("query best --rank-by requests-per-s --format csv", example_copy)
    assert old.out == new.out != ""
    assert "note: --rank-by qps is an old name, gone with the next release: --rank-by requests-per-s" in old.err
    assert "old name" not in new.err


def test_an_old_option_answers_as_the_new_one_and_says_it(example_copy):
    old = sweepdb("query best --tpot-limits 50 --format csv", example_copy)
    new = sweepdb("query best --tpot-limit 50 --format csv", example_copy)
    assert old.out == new.out
    assert "note: --tpot-limits is an old name, gone with the next release: --tpot-limit" in old.err
    assert "old name" not in new.err


def test_an_old_keyword_answers_as_the_new_one_and_warns(example_copy):
    with queries.open(example_copy) as notebook:
        with pytest.warns(DeprecationWarning, match="`tpot_limits` is an old name, .*: `tpot_limit`"):
            old = notebook.best(tpot_limits=50).dicts()
        assert old == notebook.best(tpot_limit=50).dicts()
        with pytest.raises(InputError, match="give one of them"):
            notebook.best(tpot_limit=50, tpot_limits=40)


def test_a_sweep_file_takes_an_old_key(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text("models: [Qwen/Qwen3-0.6B]\ndevices: [H100_SXM]\ninput_length: 200\noutput_length: 10\n"
                    "quantize_linear_action: FP8\n", encoding="utf-8")  # fmt: skip
    told = sweepdb(f"evaluate --sweep {file} --dry-run", f"sqlite:///{tmp_path}/s.sqlite")
    assert (told.code, "scenarios" in told.out + told.err) == (0, True), told.err
