"""What got worse between imported runs: by tag, version and days; for a table, a pull request and CI."""

import asyncio
import copy
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
import yaml
from client_files import VLLM
from conftest_cli import sweepdb
from web_client import send

from store.location import parse_url
from sweepdb import open as sweepdb_open
from sweepdb.web.app import build_web
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "import-measurements.md"
HEADER = (
    "id,model,device,engine,engine_version,input_length,output_length,concurrency,tp,num_devices,"
    "ttft_ms_mean,tpot_exclusive_ms_mean,output_tokens_per_s,measured_at,tags"
)


def line(at, *, version="0.11.0", users=32, ttft=400.0, tpot=20.0, day="2026-05-01", tags="nightly"):
    rate = users * 1000 / tpot
    return f'{at},Qwen/Qwen3-32B,h100_sxm,vllm,{version},1024,512,{users},2,2,{ttft},{tpot},{rate},{day}T03:00:00Z,"{tags}"'


def imported(tmp_path, url, lines):
    file = tmp_path / "runs.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    sweepdb(f"measurements import {file} --format json", url)
    return url


@pytest.fixture
def two_versions(tmp_path, sqlite_url):
    """Three runs of two settings under two versions: with 32 users TTFT is 10 % slower, and nothing else moved."""
    lines = [
        line(f"{version}-{users}-{run}", version=version, users=users, ttft=ttft * (1 + 0.002 * run), day=day, tags=tag)
        for version, day, tag in (("0.11.0", "2026-05-01", "before"), ("0.12.0", "2026-06-01", "after"))
        for users in (32, 64)
        for run in (-1, 0, 1)
        for ttft in [400 * (1.1 if (version, users) == ("0.12.0", 32) else 1)]
    ]
    lines.append(line("alone", version="0.12.0", users=128, day="2026-06-01", tags="after"))
    return imported(tmp_path, sqlite_url, lines)


@pytest.mark.parametrize(
    ("baseline", "against"),
    [("0.11.0", "0.12.0"), ("before", "after"), ("2026-05-01", "2026-06-01"), ("..2026-05-31", "2026-06-01..")],
)
def test_a_side_is_a_version_a_tag_or_days(two_versions, baseline, against):
    run = sweepdb(f"regress --baseline {baseline} --against {against} --format json", two_versions)
    rows = json.loads(run.out)
    assert [(row["metric"], row["verdict"]) for row in rows if row["verdict"] != "same"] == [("ttft_ms", "worse")]
    assert "concurrency=32" in rows[0]["setting"]
    assert rows[0]["change_percent"] == pytest.approx(10)
    assert rows[0]["least_percent"] > 9
    assert (rows[0]["runs_before"], rows[0]["runs_after"]) == (3, 3)
    assert "2 settings, 6 numbers compared: 1 surely worse, 0 surely better; 1 only in what" in run.err


def test_ci_fails_by_its_own_code(two_versions):
    asked = "regress --baseline before --against after"
    failed = sweepdb(f"{asked} --fail-over 5%", two_versions)
    assert failed.code == 5
    assert "1 number is surely worse by more than 5 %" in failed.err
    assert "worse" in failed.out  # the table is there all the same
    assert sweepdb(f"{asked} --fail-over 15%", two_versions).code == 0


def test_markdown_and_junit(two_versions):
    asked = "regress --baseline before --against after"
    comment = sweepdb(f"{asked} --format markdown", two_versions).out
    assert comment.startswith("2 settings, 6 numbers compared: 1 surely worse")
    assert comment.count("\n| worse | ttft_ms | 400 | 440 | +10.0 % |") == 1
    suite = ET.fromstring(sweepdb(f"{asked} --format junit --fail-over 5%", two_versions).out)
    assert (suite.get("tests"), suite.get("failures")) == ("6", "1")
    assert len(suite.findall("./testcase/failure")) == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "regress needs --baseline and --against, or --trend"),
        ("--baseline before", "regress needs --baseline and --against, or --trend"),
        ("--baseline before --against before", "are of both sides, before and before"),
        ("--baseline before --against v9", "--against v9 is no run's tag, version or day"),
        ("--baseline 2026-13-01 --against after", "--baseline 2026-13-01 names no day of the calendar"),
        ("--baseline 2026-06-02..2026-05-01 --against after", "ends before it begins"),
        ("--baseline before --against after --fail-over much", "--fail-over much is no percentage"),
        ("--baseline before --against after --device b200", "no measured run is stored for this"),
        ("--trend --fail-over 5%", "--trend takes no sides"),
        ("--baseline before --against after --format xml", "--format xml is not one of"),
    ],
)
def test_wrong_input_is_one_sentence(two_versions, asked, said):
    run = sweepdb(f"regress {asked}", two_versions)
    assert run.code == 2
    assert said.lower() in run.err.replace("\n  ", " ").lower()


def test_runs_whose_lengths_a_client_counted_are_of_one_setting(tmp_path, sqlite_url):
    lines = [
        line(f"{tag}-{run}", ttft=ttft + run, tags=tag).replace(",1024,512,", f",{1023.5 + run / 7},{510.2 + run / 3},")
        for tag, ttft in (("before", 400.0), ("after", 480.0))
        for run in range(3)
    ]
    url = imported(tmp_path, sqlite_url, lines)
    run = sweepdb("regress --baseline before --against after", url)
    assert run.out.splitlines()[2].split()[:3] == ["worse", "ttft_ms", "401"]  # the middle one of three
    assert "1 setting, 3 numbers compared: 1 surely worse" in run.err
    listed = sweepdb("measurements runs", url)
    assert listed.out.splitlines()[2].split()[3:6] == ["1024/510", "32", "6"]


def test_a_table_says_once_what_settings_share(two_versions):
    run = sweepdb("regress --baseline before --against after", two_versions)
    assert {row.split()[-1] for row in run.out.splitlines()[2:]} == {"concurrency=32", "concurrency=64"}
    assert "settings of Qwen/Qwen3-32B h100_sxm vllm aggregated 1024/512 num_devices=2 tp=2\n" in run.err
    comment = sweepdb("regress --baseline before --against after --format markdown", two_versions).out
    assert "Settings of Qwen/Qwen3-32B h100_sxm vllm aggregated 1024/512" in comment


def test_settings_that_differ_are_not_compared(tmp_path, sqlite_url):
    lines = [line("a", users=32, tags="before"), line("b", users=64, tags="after")]
    url = imported(tmp_path, sqlite_url, lines)
    run = sweepdb("regress --baseline before --against after", url)
    assert "efore and after have no setting in common" in run.err


def test_a_trend_says_the_day_and_the_version_of_a_step(tmp_path, sqlite_url):
    draw = np.random.default_rng(7)
    start = date(2026, 1, 1)
    lines = []
    for night in range(60):
        slower, version = (1.06, "0.12.0") if night >= 40 else (1.0, "0.11.0")
        for run in range(2):
            tpot = 20 * slower * float(np.exp(draw.normal(0, 0.01)))
            day = str(start + timedelta(days=night))
            lines.append(line(f"{night}-{run}", version=version, ttft=400, tpot=round(tpot, 3), day=day))
    url = imported(tmp_path, sqlite_url, lines)
    steps = json.loads(sweepdb("regress --trend --format json", url).out)
    assert {one["metric"] for one in steps} == {"tpot_exclusive_ms", "output_tokens_per_s"}
    for one in steps:
        assert abs((date.fromisoformat(one["day"]) - start).days - 40) <= 1
        assert one["change_percent"] == pytest.approx(6 if one["metric"].startswith("tpot") else -5.7, abs=1.2)
        assert (one["days"], one["runs"]) == (60, 120)


def test_a_trend_is_drawn_with_levels_steps_and_versions(tmp_path, sqlite_url):
    lines = [
        line(f"{night}-{users}", version="0.12.0" if night >= 6 else "0.11.0", users=users, ttft=400 + night % 2,
             tpot=20 * (slower if night >= 6 else 1), day=f"2026-03-{night + 1:02d}")
        for night in range(12) for users, slower in ((8, 1.0), (16, 1.2), (32, 1.5))
    ]  # fmt: skip
    url = imported(tmp_path, sqlite_url, lines)
    spec = json.loads(sweepdb("query regress --trend --format vl", url).out)  # as `sweepdb regress`
    drawn = spec["facet"]["sort"]
    assert [name.split(":")[0] + name[-3:] for name in drawn] == [
        "tpot_exclusive_ms=32", "output_tokens_per_s=32", "tpot_exclusive_ms=16", "output_tokens_per_s=16"
    ]  # fmt: skip
    rows = [row for row in spec["data"]["values"] if row["series"] == drawn[0]]
    levels = [(row["day"], row["until"], row["value"]) for row in rows if row["of"] == "level"]
    assert levels == [("2026-03-01", "2026-03-07", pytest.approx(20)), ("2026-03-07", "2026-03-12", pytest.approx(30))]
    assert [(row["day"], row["change"], row["verdict"]) for row in rows if row["of"] == "step"] == [
        ("2026-03-07", "+50.0 %", "worse from here")
    ]
    versions = [(row["day"], row["version"]) for row in rows if row["of"] == "version"]
    assert versions == [("2026-03-01", "0.11.0"), ("2026-03-07", "0.12.0")]
    drawing = sweepdb("regress --trend --format svg", url).out
    for said in ("a day's runs", "level", "worse from here"):  # the legend
        assert f">{said}</text>" in drawing


def test_rest_and_python_say_the_same(two_versions):
    told = json.loads(sweepdb("regress --baseline before --against after --format json", two_versions).out)
    sides = {"baseline": "before", "against": "after"}

    async def asking():
        sessions = SessionPool(parse_url(two_versions))
        app = build_web(sessions, names=frozenset(LOOPBACK))
        try:
            return [await send(app, f"/api/v1/{path}", parameters) for path, parameters in (
                ("regress", sides), ("trend", {}), ("trend.vl", {"model": "qwen3"}), ("regress", {"baseline": "before"}),
                ("regress", {**sides, "top": 3}), ("regress.svg", sides),
            )]  # fmt: skip
        finally:
            sessions.close()

    served, trend, picture, lacking, odd, undrawn = asyncio.run(asking())
    document = served.json()
    names = [column["name"] for column in document["columns"]]
    assert [dict(zip(names, row, strict=True)) for row in document["rows"]] == told
    assert document["headline"][0].startswith("2 settings, 6 numbers compared: 1 surely worse")
    assert document["command"] == "sweepdb regress --baseline before --against after"
    assert trend.json()["headline"] == ["0 steps in 9 metrics of settings"]
    assert picture.json()["title"]["subtitle"] == "0 of 9 metrics of settings stepped; 8 are drawn, the worst first"
    assert (lacking.status, odd.status, undrawn.status) == (400, 400, 404)
    assert "`against` is missing" in lacking.json()["error"]
    with sweepdb_open(two_versions) as store:
        found = store.regress(**sides)
        assert [one.change_percent for one in found.changes] == [row["change_percent"] for row in told]
        assert len(store.trends(device="h100").series) == 9


def test_the_job_of_the_page_gates_a_pull_request(tmp_path):
    """The page's steps, run as a script: the benchmark's result files are made here, and the change is 12 % slower."""
    script = PAGE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    commands = [text.partition("run: ")[2] for text in script.splitlines() if "run: sweepdb" in text]
    assert len(commands) == 3
    assert len(script.splitlines()) <= 15
    job = yaml.safe_load(script)
    # `gh` asks for GH_TOKEN in a workflow, and a token comments only where it may write; `on` is YAML's true.
    assert job[True] == "pull_request"
    assert job["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert job["jobs"]["serving-speed"]["env"] == {"GH_TOKEN": "${{ github.token }}"}
    for folder, slower in (("main", 1.0), ("change", 1.12)):
        (tmp_path / folder).mkdir()
        for run in range(3):
            result = copy.deepcopy(VLLM) | {
                "mean_ttft_ms": 420.5 * slower * (1 + run / 500),
                "date": f"20260203-04050{run}",
            }
            (tmp_path / folder / f"{run}.json").write_text(json.dumps(result), encoding="utf-8")
    surroundings = os.environ | {"SWEEPDB_STORE": f"sqlite:///{tmp_path}/runs.sqlite", "PYTHONPATH": str(ROOT)}
    surroundings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = [
        subprocess.run(["sh", "-c", command], cwd=tmp_path, env=surroundings, capture_output=True, text=True)
        for command in commands
    ]
    assert [one.returncode for one in done] == [0, 0, 5], [one.stderr for one in done]
    assert "| worse | ttft_ms |" in (tmp_path / "comment.md").read_text(encoding="utf-8")
