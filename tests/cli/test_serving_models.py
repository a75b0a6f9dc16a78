"""Engines as serving models from the command line: kept with their numbers, never ranked with others, refused by rows."""

from __future__ import annotations

import json
import re

import pytest
from conftest_cli import sweepdb, words
from quick import quick

from evaluator.inputs.engines.engine_profiles import engine_from_file, label_of_engine, list_engines
from evaluator.restore import stored_engine
from store.opening import open_store

SMALL = "--device TEST_DEVICE --num-devices 2 --input-length 2000 --output-length 300 --batch-range 40 --tp-sizes 2"
EVALUATE = f"evaluate Qwen/Qwen3-0.6B {SMALL}"
PROFILE = """\
name: mine
admission: mixed
profile: {token_budget: 3000, prefill_factor: 1.2, decode_factor: 0.9, step_ms: 0.5, request_ms: 12}
client: {shortest: 0.8, prompts_per_user: 5}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> tuple[str, str]:
    """One plan under formulas, every engine and a profile of the user's own; the profile's file is gone since."""
    folder = tmp_path_factory.mktemp("served")
    url, file = f"sqlite:///{folder}/store.sqlite", folder / "mine.yaml"
    file.write_text(PROFILE, encoding="utf-8")
    label = label_of_engine(engine_from_file(file).profile)
    for model in ("waves", *list_engines(), str(file)):
        outcome = sweepdb(f"{EVALUATE} --max-num-batched-tokens 4096 --serving-model {model}", url)
        assert outcome.code == 0, outcome.err
    file.unlink()
    return url, label


def rows(question: str, url: str) -> list[dict]:
    outcome = sweepdb(f"query {question} --format json", url)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_serving_models_are_scenarios_of_their_own_and_never_ranked_together(served):
    url, label = served
    found = rows("best --all --top 1", url)
    assert sorted(row["serving_model"] for row in found) == sorted(["waves", *list_engines(), label])
    assert {row["rank"] for row in found} == {1}
    assert len({row["scenario"] for row in found}) == len({row["subject"] for row in found}) == len(list_engines()) + 2
    assert [row["serving_model"] for row in rows("best --top 9 --serving-model vllm", url)] == ["vllm"]
    table = sweepdb("query best --all --top 1", url).out
    assert all(f"BF16 · {model}" in table for model in (*list_engines(), label))


def test_an_answer_of_one_token_has_no_time_between_tokens(sqlite_url):
    """Whatever (E2E - TTFT) / max(output - 1, 1) is then, it is no time of a token. Formulas divide E2E by one token."""
    for output, model, told in ((1, "vllm", True), (2, "vllm", False), (1, "waves", False)):
        url = sqlite_url.replace(".sqlite", f"{output}{model}.sqlite")
        asked = f"--device TEST_DEVICE --num-devices 2 --batch-range 4 --input-length 100 --output-length {output}"
        assert sweepdb(f"evaluate Qwen/Qwen3-0.6B {asked} --engine {model}", url).code == 0
        for question in ("best", "best --tpot-limit 50", "best --ttft-limit 0.001", "pareto", "pd-ratio"):
            said = " ".join(sweepdb(f"query {question}", url).out.split())
            assert ("note: an answer of one token has no time between tokens" in said) is told, (question, model)
        assert "one token" not in sweepdb("query prefill", url).out  # which has no TPOT


def test_kernels_are_the_same_and_latencies_the_engines(served):
    url, label = served
    asked = sweepdb("sql --format json", url, stdin="SELECT * FROM aggregated WHERE batch_size = 32")
    points = {row["serving_model"]: row for row in json.loads(asked.out)}
    waves = points["waves"]
    for model in (*list_engines(), label):
        row = points[model]
        assert row["decode_step_ms"] == waves["decode_step_ms"]
        assert row["tpot_exclusive_ms"] > 0.9 * row["decode_step_ms"]
        # The mean of 300 tokens at most: from 0.99 of them on, 298.5, of which one is the first.
        answer = 300 * (1 + row["shortest_length"]) / 2
        assert row["e2e_ms"] == pytest.approx(row["ttft_ms"] + (answer - 1) * row["tpot_exclusive_ms"])
    # In a closed loop most prompts meet no queue; the formulas have them all at once.
    assert points["vllm"]["ttft_ms"] < waves["ttft_ms"]


def test_a_profile_is_kept_with_its_scenarios_and_serves_again_without_its_file(served):
    url, label = served
    with open_store(url, read_only=True) as store:
        engine = stored_engine(store, label)
    assert (engine.token_budget, engine.prefill_factor, engine.client.prompts_per_user) == (3000, 1.2, 5)
    assert f"engine {label}: mixed" in sweepdb(f"query best --serving-model {label} --explain", url).out.replace(
        "\n  ", " "
    )
    again = sweepdb(f"{EVALUATE} --max-num-batched-tokens 4096 --serving-model {label} --format json", url)
    assert again.code == 0, again.err
    (report,) = json.loads(again.out)
    assert (report["probes_stored"], report["probes_known"] > 0) == (0, True)


def test_first_tokens_are_an_interval_where_users_in_step_and_apart_differ(served):
    url, _ = served
    asked = (
        "SELECT * FROM aggregated WHERE batch_size IN (1, 32) AND serving_model IN ('sglang', 'sglang_locked', 'waves')"
    )
    rows = json.loads(sweepdb("sql --format json", url, stdin=asked).out)
    points = {(row["serving_model"], row["batch_size"]): row for row in rows}
    # Users in step are SGLang's of before 0.5.6: the same host, but for what was fitted of it.
    apart, locked = points["sglang", 32], points["sglang_locked", 32]
    assert locked["ttft_ms"] > 1.5 * apart["ttft_ms"]
    probe = f"{apart['scenario'][:8]}:32"
    said = sweepdb(f"explain {probe}", url).out
    (line,) = [line for line in said.splitlines() if " TTFT: " in line]
    least, most = (float(number) for number in re.search(r"TTFT: (\S+) to (\S+) ms", line).groups())
    assert least == pytest.approx(apart["ttft_ms"], rel=1e-3)
    assert most > 1.5 * least
    sooner, later = (float(number) for number in re.search(r"end to end (\S+) to (\S+) ms", line).groups())
    fewer, more = (float(number) for number in re.search(r"ms, (\S+) to (\S+) output tokens", line).groups())
    assert later / sooner < most / least
    answer = 300 * 0.99  # the mean of lengths from 0.98 of those named
    assert (fewer, more) == pytest.approx((1e3 * 32 * answer / later, 1e3 * 32 * answer / sooner), rel=1e-3)
    # One user is alone anyway, users in step have nothing to compare with, and formulas play no loop.
    for model, size in (("sglang", 1), ("sglang_locked", 32), ("waves", 32)):
        found = points.get((model, size))
        if found is not None:
            assert " TTFT: " not in sweepdb(f"explain {found['scenario'][:8]}:{size}", url).out


def test_answers_say_first_tokens_as_an_interval_where_rows_hold_two(served):
    url, _ = served
    asked = "SELECT * FROM aggregated WHERE serving_model IN ('sglang', 'sglang_locked')"
    stored = {
        (row["serving_model"], row["batch_size"]): row
        for row in json.loads(sweepdb("sql --format json", url, stdin=asked).out)
    }
    full = json.loads(sweepdb("query best --serving-model sglang --top 3 --format json-full", url).out)
    (row,), (told,) = full["rows"], full["ttft_intervals"]
    apart, locked = (stored[name, row["batch_size"]] for name in ("sglang", "sglang_locked"))
    assert told["probe"] == row["probe"]
    assert (told["least_ms"], told["most_ms"]) == (apart["ttft_ms"], apart["ttft_in_step_ms"])
    assert (told["e2e_ms"], told["output_tokens_per_s"]) == (apart["e2e_ms"], apart["output_tokens_per_s"])
    # The same host, but for what was fitted of it: users of the locked engine wait as long as these would in step.
    assert told["most_ms"] == pytest.approx(locked["ttft_ms"], rel=0.1)
    limit = 0.5 * (told["least_ms"] + told["most_ms"])
    said = sweepdb(f"query best --serving-model sglang --ttft-limit {limit:.1f} --format table", url).out
    assert f"{told['least_ms']:.1f}-{told['most_ms']:.1f}" in said
    assert "lies between" in " ".join(said.split())
    assert " e2e_ms " in said  # beside it
    # Where one number says it, nothing is said.
    for question in ("best --serving-model sglang_locked", "best --serving-model waves"):
        assert "ttft_intervals" not in json.loads(sweepdb(f"query {question} --format json-full", url).out)


@pytest.mark.parametrize(
    "report", quick(["pareto", "nearest --ttft-limit 1", "curve --top 100", "deployments", "devices"], 2)
)
def test_every_report_that_names_probes_and_first_tokens_says_intervals(served, report):
    url, _ = served
    full = json.loads(sweepdb(f"query {report} --serving-model sglang --format json-full", url).out)
    held = json.loads(sweepdb("sql --format json", url, stdin="SELECT probe, ttft_in_step_ms FROM aggregated").out)
    apart = {row["probe"] for row in held if row["ttft_in_step_ms"] is not None}
    named = {row["probe"] for row in (*full["rows"], *full["nearest"]) if row["ttft_ms"] is not None}
    assert {one["probe"] for one in full.get("ttft_intervals", ())} == named & apart
    assert named & apart or report.startswith("nearest")


def test_settings_worth_measuring_are_stored_ones_of_one_engine_and_come_as_a_table_to_fill_in(served, tmp_path):
    url, _ = served
    several = sweepdb("measurements suggest", url)
    assert several.code == 2
    assert "--engine" in several.err
    outcome = sweepdb("measurements suggest --serving-model vllm --count 4 --format csv", url)
    assert outcome.code == 0, outcome.err
    assert "sweepdb calibrate --serving vllm" in outcome.err
    head, *lines = [line.split(",") for line in outcome.out.splitlines()]
    found = [dict(zip(head, line, strict=True)) for line in lines]
    # One plan and one workload: users alone tell settings apart, and the middle of them says most.
    assert int(found[0]["concurrency"]) in {4, 8}
    assert {int(row["concurrency"]) for row in found} <= {1, 2, 4, 8, 16, 32}
    assert len({row["concurrency"] for row in found}) == 4
    assert {(row["model"], row["tp"], row["input_length"], row["ttft_ms"]) for row in found} == {
        ("Qwen/Qwen3-0.6B", "2", "2000", "")
    }
    # Filled in, it is read as it stands.
    filled = [head, *([*line[:-2], "100", "10"] for line in lines)]
    (tmp_path / "mine.csv").write_text("".join(",".join(line) + "\n" for line in filled))
    imported = sweepdb(f"measurements import {tmp_path}/mine.csv", f"sqlite:///{tmp_path}/other.sqlite")
    assert imported.err.startswith("4 new of 4 points read")
    for wrong in ("list --count 3", "suggest --count 0", "suggest --source runs", "import x.csv --serving-model vllm"):
        assert sweepdb(f"measurements {wrong}", url).code == 2
    nothing = sweepdb("measurements suggest --model nobody", url)
    assert (nothing.code, "sweepdb evaluate" in nothing.err) == (2, True)


def test_a_step_of_an_engines_scenario_is_explained(served):
    url, label = served
    (best,) = rows(f"best --top 1 --serving-model {label}", url)
    explained = json.loads(sweepdb(f"explain {best['probe']} --step decode --format json", url).out)
    assert sum(row["time_ms"] for row in explained) == pytest.approx(best["decode_step_ms"])


def test_compare_refuses_two_serving_models(served):
    outcome = sweepdb("query compare --num-devices 2 --all", served[0])
    assert outcome.code == 2
    assert "Compare needs both sides under one serving model" in outcome.err


def test_the_engines_own_token_budget_counts_where_none_is_given(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    assert sweepdb(f"{EVALUATE} --serving-model vllm", url).code == 0
    assert sweepdb(f"{EVALUATE} --serving-model sglang", url).code == 0
    asked = "SELECT DISTINCT serving_model, max_batched_tokens FROM aggregated"
    found = json.loads(sweepdb("sql --format json", url, stdin=asked).out)
    assert {row["serving_model"]: row["max_batched_tokens"] for row in found} == {"sglang": 8192, "vllm": 4096}


def test_plans_an_engine_lacks_are_rows_with_a_reason(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    outcome = sweepdb(
        "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --num-devices 2 --input-length 2000 --output-length 300"
        " --batch-range 4 --pp-sizes 1,2 --mode aggregated --serving-model vllm"
        " --host-hit-rate 0.5 --host-gb-per-s 20",
        url,
    )
    assert outcome.code == 0, outcome.err
    said = "unsupported: vllm reads no keys from outside the devices for pipeline stages"
    assert f"{said} (plans of one stage: pp_sizes=1)" in outcome.err
    (row,) = [
        row
        for row in json.loads(sweepdb("sql --format json", url, stdin="SELECT status, pp FROM scenario").out)
        if row["pp"] == 2
    ]
    assert row["status"] == "unsupported"


def test_an_engine_serves_a_file_of_length_bins(tmp_path):
    bins, url = tmp_path / "bins.yaml", f"sqlite:///{tmp_path}/store.sqlite"
    bins.write_text(
        "bins:\n- {min_tokens: 100, max_tokens: 200, weight: 3}\n- {min_tokens: 900, max_tokens: 1000, weight: 1}\n"
    )
    outcome = sweepdb(
        f"evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --num-devices 1 --input-length {bins} --output-length 300"
        " --batch-range 4 --serving-model vllm",
        url,
    )
    assert outcome.code == 0, outcome.err
    asked = "SELECT phase, batch_size, ttft_ms, tpot_exclusive_ms, realised_input_length_mean AS mean FROM probe"
    rows = json.loads(sweepdb("sql --format json", url, stdin=asked).out)
    assert {row["phase"] for row in rows} == {"prefill", "decode", "aggregated"}
    looped = {row["batch_size"]: row for row in rows if row["phase"] == "aggregated"}
    assert sorted(looped) == [1, 2, 3, 4]
    assert 0 < looped[1]["ttft_ms"] < looped[4]["ttft_ms"]
    assert looped[4]["mean"] == 0.75 * 150 + 0.25 * 950  # of the first four requests


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--convention upstream", "vllm has no upstream convention"),
        ("--serving-model nobody@12345678", "No engine profile 'nobody@12345678' in this store"),
        ("--serving-model oracle", "--engine oracle is not one of waves, seed002"),
        ("--serving-model {missing}", "cannot be read"),
        ("--serving-model {broken}", "unknown key 'step'"),
        ("--serving-model {negative}", "step_ms must be a number from 0 to 1e+06, not -1"),
        ("--serving-model {text}", "the file must be a mapping of keys to values, not 'mine'"),
    ],
)
def test_what_an_engine_cannot_serve_is_said_before_anything_is_traced(tmp_path, served, more, said):
    files = {
        "broken": PROFILE.replace("step_ms", "step"),
        "negative": PROFILE.replace("step_ms: 0.5", "step_ms: -1"),
        "text": "mine",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    paths = {name: str(tmp_path / f"{name}.yaml") for name in (*files, "missing")}
    command = words(f"{EVALUATE} --serving-model vllm {more}".format(**paths))
    while command.count("--serving-model") > 1:  # the last one counts
        place = command.index("--serving-model")
        del command[place : place + 2]
    outcome = sweepdb(command, served[0])
    assert outcome.code == 2
    assert said in outcome.err
