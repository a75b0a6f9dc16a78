"""A limit is one row of the table of limits: the command, Python, tools, pages, `nearest`, `sensitivity` and `why` follow.

Each test adds one to a copy of the program. A limit whose metric nothing stores takes one column that is derived, too."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest_cli import sweepdb

from queries.thinned import RULES

ROOT = Path(__file__).parents[1]
LIMITS, DERIVED = "queries/asking/limits.py", "store/schema/derived_columns.csv"
BETWEEN_TOKENS = """    tbt_p99_ms: float | None = _limit(
        "most ms between two tokens, for 99 % of them",
        Limit(
            name="tbt_p99", short="p99 between tokens", called="p99 between tokens", phases=_DECODED,
            metric="decode_step_p99_ms", predicted={"decode_step_p99_ms": None},
            slider=Slider("p99 between tokens at most", 1, 500),
        ),
        keyword="tbt_p99_limits", variable="tbt_p99_limit_ms",
    )
"""
ENERGY = """    joules_per_token: float | None = _limit(
        "most joules of the devices per output token",
        Limit(
            name="energy", short="energy", called="energy a token", phases=_DECODED, metric="joules_per_token",
            predicted={"joules_per_token": None},
        ),
        keyword="energy_limits", variable="joules_limit", unit="J",
    )
"""
# Watts of each device are no number of a probe: the copy takes 700 for all.
JOULES = (
    "joules_per_token,double,J,energy of the devices for an output token; NULL for prefill,,,,,"
    '"700.0 * num_devices / nullif({decoded_per_s}, 0)",'
    '"700.0 * num_devices / nullif({finished_per_s} * output_length, 0)"\n'
)
ROW = "    reserved_gib: float"  # what stands behind it
PROGRAM = """
import asyncio, json, sys
import sweepdb
from conftest_cli import sweepdb as typed
from queries.asking.limits import Limits, limits_told
from queries.asking import variables_taken
from queries.thinned import RULES
from store.errors import InputError
from store.location import parse_url
from sweepdb.web.assistant import Assistant
from sweepdb.web.pool import SessionPool
from tools.report_reference import reference_page

url, keyword, name, metric, loose = sys.argv[1:]
loose, dashed = float(loose), "--" + keyword.replace("_", "-")
row = next(one for one in limits_told() if one["name"] == name)
FITS = "WHERE weight_bytes + activation_bytes + kv_cache_bytes <= device_memory_bytes AND " + metric + " <= "
BEST = "SELECT count(DISTINCT scenario), max(output_tokens_per_s) FROM probe " + FITS
free = {"reserved_memory_gb": 0, "top": 1000}

def best(store, limit):
    rows = store.best(**{keyword: limit}, rank_by="throughput", **free).dicts()
    return len(rows), max(one["output_tokens_per_s"] for one in rows)

async def by_tool():
    pool = SessionPool(parse_url(url))
    try:
        return await Assistant(pool).ask("best", {keyword: 1e-6})
    finally:
        pool.close()

with sweepdb.open(url) as store:
    limits = [loose, loose / 1.2, loose / 1.4]
    found = [best(store, limit) for limit in limits]  # from the second on they are looked up among contenders
    true = [store.sql(BEST + repr(limit)).rows[0] for limit in limits]
    (near, *_) = store.best(**{keyword: 1e-6}, **free).nearest_dicts()
    admitted = store.sql(f"SELECT count(*) FROM probe {FITS} {near['relax_to']!r}").rows[0][0]
    steps = store.sensitivity(vary=name, **free).dicts()
    reached = [store.sql(BEST + repr(step["limit_from"])).rows[0][1] for step in steps]
    why = store.why(probes=[near["probe"], steps[-1]["probe"]], **{keyword: loose}).dicts()
try:
    refused = Limits(**{row["field"]: 1.0}, confidence=0.8)
except InputError as error:
    refused = str(error)
tool = asyncio.run(by_tool())["nearest"]
command = typed(["query", "best", dashed, "1e-6"], url)
print(json.dumps({
    "found": found, "true": true, "near": near["binding_limit"], "admitted": [near["admitted_then"], admitted],
    "steps": [step["output_tokens_per_s"] for step in steps], "reached": reached, "refused": refused, "rules": RULES,
    "why": [one["name"] for one in why if one["section"] == "limit"], "command": command.out + command.err,
    "tool": dict(zip([one["name"] for one in tool["columns"]], tool["rows"][0]))["binding_limit"],
    "help": typed(["query", "best", "--help-all"], url).out, "slider": row["slider"],
    "reference": [one for one in ("best", "pareto", "deployments", "sensitivity", "nearest", "why", "coverage")
                  if any("limit" in name and row["field"].split("_")[0] in name for name in variables_taken(one))],
    "page": reference_page(),
}))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Rows of prompts of many lengths, whose decode steps have percentiles."""
    folder = tmp_path_factory.mktemp("limits")
    bins = "[{min_tokens: 0, max_tokens: 1000, weight: 0.5}, {min_tokens: 1000, max_tokens: 4000, weight: 0.5}]"
    (folder / "lengths.yaml").write_text(f"bins: {bins}\n")
    outcome = sweepdb(
        f"evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --input-length {folder}/lengths.yaml"
        " --output-length 300 --quantization W8A8_DYNAMIC --batch-range 1,20 --mode aggregated",
        f"sqlite:///{folder}/store.sqlite",
    )
    assert outcome.code == 0, outcome.err
    return f"sqlite:///{folder}/store.sqlite"


@pytest.fixture
def copy(tmp_path):
    for package in ("cli", "evaluator", "migrations", "queries", "store", "sweepdb", "tools"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    edited = set()

    def edit(file, before, text):
        source = (tmp_path / file).read_text()
        assert source.count(before) == 1, (file, before)
        (tmp_path / file).write_text(source.replace(before, text + before))
        edited.add(file)

    return tmp_path, edit, edited


def asked(copy, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=copy, capture_output=True, text=True,
        env={"PYTHONPATH": f"{copy}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin", "HOME": str(copy)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def follows(found, name, keyword, words):
    """Whether everything that reads limits knows one by its row."""
    assert found["found"] == found["true"]
    assert found["true"][0] != found["true"][-1]  # or the limit decides nothing
    assert (found["near"], found["tool"]) == (name, name)
    assert found["admitted"][0] == found["admitted"][1] > 0
    assert found["steps"] == found["reached"] != []
    assert name in found["why"]
    assert found["refused"].startswith(
        f"`confidence` reads limits whose errors are known, and those of `{keyword}` are not"
    )
    assert found["rules"] != RULES  # files of rows that could win without it are not read
    assert f"limits: {words}, 10 GiB reserved" in found["command"]
    assert name in found["command"].partition("The nearest misses")[2]
    assert f"--{keyword.replace('_', '-')}" in found["help"]
    assert found["reference"] == ["best", "pareto", "deployments", "sensitivity", "nearest", "why"]
    section = found["page"].partition("## sensitivity")[2]
    assert f"e2e, tokens_per_s_per_user, {name} or memory" in section


def test_a_limit_on_a_stored_column_is_one_row(copy, url):
    folder, edit, edited = copy
    edit(LIMITS, ROW, BETWEEN_TOKENS)
    assert edited == {LIMITS}
    found = asked(folder, url, "tbt_p99_limits", "tbt_p99", "decode_step_p99_ms", "30")
    follows(found, "tbt_p99", "tbt_p99_limits", "p99 between tokens <= 1e-06 ms")
    assert len(found["steps"]) > 3
    assert found["slider"]["label"] == "p99 between tokens at most"


def test_a_limit_on_what_nothing_stores_is_a_row_and_a_derived_column(copy, url):
    folder, edit, edited = copy
    edit(LIMITS, ROW, ENERGY)
    edit(DERIVED, "input_length_bias", JOULES)
    assert edited == {LIMITS, DERIVED}
    found = asked(folder, url, "energy_limits", "energy", "joules_per_token", "3.3")
    follows(found, "energy", "energy_limits", "energy <= 1e-06 J")
