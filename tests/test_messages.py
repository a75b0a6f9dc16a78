"""Below the command line, texts name keywords between backquotes; only `cli` knows how an option is typed."""

import ast
import re

import pytest
from test_import_direction import ROOT

from cli.derived import as_typed
from cli.output import sentence

OPTION = re.compile(r"--[a-z]")
SPELLINGS = {"flag", "also"}  # how the command line spells a declared option, where the option is declared
PAGES = {"queries/dictionary.py"}  # writes a reference page, whose readers type commands
OTHERS = {  # flags of other programs
    f"sweepdb/launching/{name}.py"
    for name in (
        "benchmark_script", "dynamo_target", "flags_of_rows", "manifests", "reading/command_lines", "reading/deployment_files",
        "reading/dynamo", "sglang_flags", "shell_target", "trtllm_config", "vllm_flags",
    )
} | {"evaluator/ledger/readers/beside.py", "evaluator/ledger/readers/clients/benchmark_report.py",
     "evaluator/ledger/writers/report_writer.py"}  # fmt: skip


def texts(tree):
    """Every text of a module but docstrings and the spellings of declared options."""
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(node.value)
        if isinstance(node, ast.keyword) and node.arg in SPELLINGS:
            left_out.update(ast.walk(node.value))
    return [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out
    ]  # fmt: skip


@pytest.mark.parametrize("package", ["store", "migrations", "evaluator", "queries", "sweepdb"])
def test_no_text_below_the_command_line_spells_an_option(package):
    for path in (ROOT / package).rglob("*.py"):
        name = str(path.relative_to(ROOT))
        if name not in PAGES | OTHERS:
            found = [node.value for node in texts(ast.parse(path.read_text())) if OPTION.search(node.value)]
            assert not found, name


def test_the_check_sees_messages_and_skips_docstrings():
    module = '"""About --this."""\nraise E(f"--that {x}", hint="drop --those")\nx = option(1, "h", flag="--flag")'
    assert [node.value for node in texts(ast.parse(module)) if OPTION.search(node.value)] == ["--that ", "drop --those"]


@pytest.mark.parametrize(
    ("told", "typed"),
    [
        ("give `num_devices` or `total_devices`", "give --num-devices or --total-devices"),
        ("`search=launchable` needs it", "--search launchable needs it"),
        ("run `sweepdb db seal `store=sqlite:///a b.sqlite``:", "run `sweepdb db seal --store sqlite:///a b.sqlite`:"),
        ("`compile=False` here", "--eager here"),
        ("no keyword: `SELECT 1`", "no keyword: `SELECT 1`"),
    ],
)
def test_the_command_line_says_options(told, typed):
    assert as_typed(told) == typed


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("stored: Qwen/Qwen3-8B", "Stored: Qwen/Qwen3-8B."),  # a name, though it ends as a path does
        ("nearest: Qwen/Qwen3-8B, Qwen/Qwen3-32B", "Nearest: Qwen/Qwen3-8B, Qwen/Qwen3-32B."),
        ("choose with --model; stored: a/b · 1024/128", "Choose with --model; stored: a/b · 1024/128."),
        ("see /var/log/server.log", "See /var/log/server.log"),  # to copy
        ("known here: write to /a/b", "Known here: write to /a/b"),
    ],
)
def test_a_list_of_names_ends_in_a_full_stop_and_a_path_does_not(told, said):
    assert sentence(told) == said
