"""`evaluate --arrivals` on the command line."""

from __future__ import annotations

import json

from conftest_loads import DEVICE

from cli.main import run
from evaluator.compiled import built_library

EVALUATE = [
    "evaluate", "Qwen/Qwen3-0.6B", "--device", DEVICE, "--input-length", "500", "--output-length", "60",
    "--batch-range", "4", "--serving-model", "vllm", "--mode", "aggregated",
]  # fmt: skip


def test_loads_are_counted_and_rates_may_be_auto(sqlite_url, capsys):
    asked = [*EVALUATE, "--arrivals", "gamma:2", "--requests", "1000", "--store", sqlite_url]
    assert run([*asked, "--rates", "auto"]) == 0
    told = capsys.readouterr().err
    assert "24 loads stored" in told
    assert "next: sweepdb query best --by goodput --ttft-limit 1000 --tpot-limit 50" in told
    assert run([*asked, "--rates", "1,2.5"]) == 0
    assert "2 loads stored" in capsys.readouterr().err
    assert run(asked) == 0
    assert "24 loads already there" in capsys.readouterr().err
    assert run([*asked, "--rates=fast"]) == 2
    assert "--rates takes numbers, not 'fast'" in capsys.readouterr().err


def test_answers_about_loads_count_loads(sqlite_url, capsys, tmp_path):
    assert (
        run([*EVALUATE, "--arrivals", "poisson", "--requests", "1000", "--rates", "1,2,4", "--store", sqlite_url]) == 0
    )
    asked = ["query", "best", "--by", "goodput", "--ttft-limit", "500", "--store", sqlite_url]
    capsys.readouterr()
    assert run(asked) == 0
    out = capsys.readouterr().out
    assert "best by goodput: 3 loads of 1 scenario looked at" in out
    assert "limits of 95 % of the requests: ttft <= 500 ms\n" in out
    assert run([*asked, "--tpot-limit", "20", "--marginal", "--attainment", "0.8"]) == 0
    said = "limits of 80 % of the requests: ttft <= 500 ms, tpot <= 20 ms, each limit by itself\n"
    assert said in capsys.readouterr().out
    assert run(["query", "goodput", "--ttft-limit", "500", "--store", sqlite_url]) == 0
    told = capsys.readouterr()
    assert told.out == out
    assert told.err.startswith("note: goodput is an old name, gone with the next release: ask best with --by goodput\n")
    assert run(["query", "percentiles", "--rate", "2", "--store", sqlite_url]) == 0
    assert "limits" not in capsys.readouterr().out
    assert run([*asked, "--format", "json-full"]) == 0
    assert json.loads(capsys.readouterr().out)["loads_considered"] == 3


def test_a_machine_without_a_compiler_is_told_once_how_to_simulate_faster(monkeypatch, tmp_path, capsys):
    asked = "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --serving-model vllm --input-length 100 --output-length 10"
    command = [*asked.split(), "--num-devices", "1,2", "--batch-range", "2", "--arrivals", "poisson", "--dry-run"]

    def said():
        built_library.cache_clear()
        assert run([*command, "--store", f"sqlite:///{tmp_path}/new.sqlite"]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if "C compiler" in line]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nothing was built there
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        (line,) = said()
        assert line.startswith("note: simulations run in Python here, about 100 times slower, with the same numbers:")
        monkeypatch.setenv("SWEEPDB_COMPILED_PLAY", "0")  # asked for: nothing to be told
        assert said() == []
    finally:
        built_library.cache_clear()
