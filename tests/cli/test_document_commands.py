"""Every command that the documents show runs, in the order of its page; every option that a sentence names exists."""

from __future__ import annotations

import functools
import json
import re
import shlex
from pathlib import Path

import pytest
import typer.main
from client_files import VLLM
from conftest_cli import sweepdb
from document_commands import ROOT, commands_of
from quick import quick
from readme_screen import shown

from cli.joined_arguments import joined
from cli.main import build_app

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
DOCUMENTS = [
    *PAGES,
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
]
INLINE = re.compile(r"`sweepdb ([^`]+)`", re.DOTALL)
# Blocks of bash are run by tests/cli/test_from_question_to_servers, test_two_devices and test_six_questions; pages are served in
# tests/web, statements are tests/queries/test_sql_examples, servers are watched in tests/sweepdb/test_watching. Of the page that is
# not run workers are tests/sweepdb/test_working*, upgrades tests/migrations.
NOT_RUN = ("install-and-operate.md",)
LARGEST_BATCH = {
    "README.md": 260,  # its references reach to 196; elsewhere the documents' batches only cost time
    "describe-what-you-serve.md": 4,
}
MODEL = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1000,
    "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the files that the pages speak of; the store is the default one in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    model = tmp_path / "my-model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    return tmp_path


def made_log(*, longest: int) -> str:
    """A log in the form of the page's: five minutes of a request a second, prompts of any length up to `longest`."""
    lines = (
        f"2023-11-16 18:{second // 60:02}:{second % 60:02}.0000000,{1 + second * 7919 % longest},{1 + second * 31 % 500}"
        for second in range(300)
    )
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]) + "\n"


def give_runs(folder: Path) -> None:
    """Results of `vllm bench serve`: files and folders to compare, and three runs of each of two versions."""
    for number, name in enumerate(("before.json", "after.json", "baseline", "candidate-a", "candidate-b")):
        path = folder / name if name.endswith(".json") else folder / name / "run.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(VLLM | {"mean_ttft_ms": 400.0 + number}), encoding="utf-8")
    for version in ("v0.11", "v0.12"):
        (folder / "nightly" / version).mkdir(parents=True)
        for second in range(3):
            run = VLLM | {"mean_ttft_ms": 400.0 + second, "date": f"202602{version[-2:]}-04050{second}"}
            (folder / "nightly" / version / f"{second}.json").write_text(json.dumps(run), encoding="utf-8")


def give_files(page: Path, folder: Path) -> None:
    """What a reader of this page has at hand."""
    if page.name == "plan-for-requests.md":
        for name, longest in (("conv", 2000), ("code", 4000)):
            path = folder / f"AzureLLMInferenceTrace_2023_{name}.csv"
            path.write_text(made_log(longest=longest), encoding="utf-8")
        lines = (ROOT / "tests" / "data" / "arrival_trace.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / "arrival_trace.csv").write_text(
            "".join(lines[:1_001]), encoding="utf-8"
        )  # a simulation takes half as long
        (csv,) = re.findall(r"```csv\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        (folder / "day.csv").write_text(csv.replace(" ", ""), encoding="utf-8")
    if page.name == "describe-what-you-serve.md":
        turns = [{"timestamp": 4_000 * at, "input_length": 1_024 * (1 + at // 40), "output_length": 40,
                  "hash_ids": [100 * (at % 40) + block for block in range(2 * (1 + at // 40))]} for at in range(160)]  # fmt: skip
        (folder / "mooncake_conversation.jsonl").write_text("\n".join(map(json.dumps, turns)), encoding="utf-8")
        rows = "".join(f"{number}.5,{number % 2},{1500 + number},20\n" for number in range(120))
        log = folder / "AzureLMMInferenceTrace_multimodal.csv"
        log.write_text(f"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n{rows}", encoding="utf-8")
    if page.name == "launch-and-watch.md":
        (lengths,) = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        (folder / "lengths.yaml").write_text(lengths, encoding="utf-8")
    if page.name == "import-measurements.md":
        give_runs(folder)
    if page.name in {"import-measurements.md", "validate-against-measurements.md", "decide-by-three-runs.md"}:
        shown = page.with_name("import-measurements.md").read_text(encoding="utf-8")
        (csv,) = re.findall(r"```csv\n(.*?)```", shown, re.DOTALL)
        (folder / "table.csv").write_text(csv, encoding="utf-8")
        run = {"model_id": "Qwen/Qwen3-8B", "backend": "vllm", "num_prompts": 64, "completed": 64, "max_concurrency": 16,
               "duration": 30.0, "total_input_tokens": 65536, "total_output_tokens": 8192, "request_throughput": 2.1,
               "output_throughput": 270.0, "mean_ttft_ms": 95.0, "mean_tpot_ms": 8.5, "p99_tpot_ms": 9.9}  # fmt: skip
        for name in ("runs", "results"):
            (folder / name).mkdir()
            (folder / name / "first.json").write_text(json.dumps(run), encoding="utf-8")
        details = {
            "input_lens": [1024] * 64, "output_lens": [128] * 64, "ttfts": [0.095] * 64, "itls": [[0.0085] * 127] * 64,
            "errors": [""] * 64,
        }  # fmt: skip
        (folder / "run.json").write_text(json.dumps({**run, "max_concurrency": 32, **details}), encoding="utf-8")


def test_the_pages_show_commands():
    assert {page.name for page in PAGES if commands_of(page)} >= {
        "README.md",
        "first-sweep.md",
        "describe-what-you-serve.md",
    }


# One to ten seconds of a core each. What they show is also tested by parts: tests/sweepdb/test_report_file.py,
# test_speculative.py, tests/evaluator/test_images.py; and that their commands and options exist, below.
LONG = (
    "look-and-draw.md", "describe-what-you-serve.md",
    "plan-a-deployment.md", "plan-for-requests.md",
)  # fmt: skip
RUN = quick(
    [page for page in PAGES if page.name not in NOT_RUN and commands_of(page)], lambda page: page.name not in LONG,
    rest=pytest.mark.survival,
)  # fmt: skip


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_in_its_order(page, folder):
    give_files(page, folder)
    for command in commands_of(page):
        arguments = shlex.split(command, comments=True)[1:]
        redirected = arguments[: arguments.index(">")] if ">" in arguments else arguments
        if "PROBE" in redirected:
            best = json.loads(sweepdb("query best --top 1 --format json").out)[0]["probe"]
            redirected = [best if word == "PROBE" else word for word in redirected]
        if "POINT" in redirected:
            point = json.loads(sweepdb("measurements list --format json").out)[0]["measurement"]
            redirected = [point if word == "POINT" else word for word in redirected]
        if redirected[0] == "evaluate":
            redirected += ["--batch-range", str(LARGEST_BATCH.get(page.name, 48))]
        outcome = sweepdb(redirected)
        assert outcome.code == 0, f"{command}\n{outcome.err}"
        assert outcome.out or outcome.err


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_every_command_and_option_that_a_sentence_names_exists(page):
    shown = [
        *INLINE.findall(page.read_text(encoding="utf-8")),
        *(line.removeprefix("sweepdb ") for line in commands_of(page, ["sh", "console", "bash"])),
    ]
    wrong = [text for text in shown if not _exists(" ".join(text.split()))]
    assert not wrong


@functools.cache
def _every_command():
    return typer.main.get_command(build_app())


def _exists(text: str) -> bool:
    """Whether the words of a command lead to one, and its options are among that command's."""
    command = _every_command()
    words = joined([word for word in shlex.split(text.replace("...", ""), comments=True) if word])
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return words[0].startswith("-") or words[0].isupper()
        command, words = command.commands[words[0]], words[1:]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    return {word.partition("=")[0] for word in words if word.startswith("--") or word == "-h"} <= known


def test_the_screen_of_the_readme_is_what_the_command_prints(folder):
    (screen,) = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    told, answer = screen.split("\n\n$ ", 1)
    evaluate, *said = told.splitlines()
    outcome = sweepdb(shlex.split(evaluate.removeprefix("$ sweepdb ")))
    assert re.sub(r"sweep \w+", "sweep KEY", outcome.err.rstrip()) == re.sub(r"sweep \w+", "sweep KEY", "\n".join(said))
    query, printed = answer.split("\n", 1)
    assert shown(shlex.split(query.removeprefix("sweepdb "))).splitlines() == printed.splitlines()
