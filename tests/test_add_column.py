"""A probe column, a size of plans and a field of subjects are each added to a copy of the program, and the files counted.

The copy upgrades a store of the program before, evaluates into it and answers. Types for editors and pages of reference
are written anew by `make docs`, and not counted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest_cli import sweepdb

from store.revision import HEAD_REVISION

pytestmark = pytest.mark.survival
ROOT = Path(__file__).parents[1]
NEXT = f"{int(HEAD_REVISION) + 1:04d}"
EVALUATE = (
    "evaluate Qwen/Qwen3-32B --num-devices 2 --tp-sizes 2 --input-length 900 --output-length 60"
    " --quantization W8A8_DYNAMIC"
)
BY_FORMULAS = f"{EVALUATE} --device TEST_DEVICE --batch-range 6,6"
BY_ENGINE = f"{EVALUATE} --device h100_sxm --serving-model vllm --batch-range 6"
PROGRAM = """
import io, json, sqlite3, sys
from contextlib import redirect_stderr, redirect_stdout
from cli.main import run
said = []
for line in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(line.split())
    assert code == 0, (line, out.getvalue(), err.getvalue())
    said.append(out.getvalue() or err.getvalue())
with sqlite3.connect(sys.argv[2]) as store:
    columns = [name for name, *_ in store.execute("SELECT * FROM probes LIMIT 0").description]
print(json.dumps({"said": said, "columns": columns}))
"""
HEAD = f'''"""Add a column, as the next release might."""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD_REVISION}"


def upgrade():
'''
MIGRATION = f"migrations/versions/{NEXT}_added.py"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of this program, with what it captured: the copies need no torch."""
    path = tmp_path_factory.mktemp("before") / "store.sqlite"
    for command in (BY_FORMULAS, BY_ENGINE):
        done = sweepdb(command, f"sqlite:///{path}")
        assert done.code == 0, done.err
    return path


@pytest.fixture
def changed(tmp_path, stored):
    def run(edits: dict[str, tuple[str, str]], *commands: str) -> dict[str, list]:
        for package in ("store", "queries", "migrations", "evaluator", "sweepdb", "cli"):
            shutil.copytree(ROOT / package, tmp_path / package, copy_function=os.link)
        for file, (before, after) in edits.items():
            path, source = tmp_path / file, "" if not before else (tmp_path / file).read_text()
            assert source.count(before) == 1 or not before, file
            path.unlink(missing_ok=True)  # it was the same file as the original
            path.write_text(source.replace(before, after) if before else after)
        shutil.copy(stored, tmp_path / "store.sqlite")
        lines = ["db upgrade", *commands, "db check"]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(lines), str(tmp_path / "store.sqlite")],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SWEEPDB_STORE": f"sqlite:///{tmp_path}/store.sqlite"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        found["said"] = found["said"][1:-1]
        return found

    return run


def test_a_probe_column_is_four_files(changed):
    edits = {
        "store/schema/columns.csv": (
            "composition,,,,",
            "probe,first_wave_ms,double,ms,the first wave,null phases=prefill+aggregated,\ncomposition,,,,",
        ),
        "evaluator/probe_block.py": (
            "    ttft_in_step_ms: FloatArray\n",
            "    ttft_in_step_ms: FloatArray\n    first_wave_ms: FloatArray\n",
        ),
        "evaluator/serving/models/waves.py": (
            "        return {**prefill_columns(run, full), **completion_columns(completion)}",
            '        found = {**prefill_columns(run, full), **completion_columns(completion)}\n        return {**found, "first_wave_ms": 0.5 * found["ttft_ms"]}',
        ),
        MIGRATION: (
            "",
            (
                f'{HEAD}    op.add_column("probe", sa.Column("first_wave_ms", sa.Double(), nullable=True,'
                ' comment="the first wave [ms]"))\n'
            ),
        ),
    }
    found = changed(
        edits, f"{BY_FORMULAS} --max-num-batched-tokens 2048",
        "query prefill --max-num-batched-tokens 2048 --format json", "query pd-ratio --max-num-batched-tokens 2048 --format json",
        "sql --schema",
    )  # fmt: skip
    _, rows, pairs, schema = found["said"]
    assert len(edits) == 4
    for row in json.loads(rows):
        assert row["first_wave_ms"] == 0.5 * row["ttft_ms"] > 0
    for row in json.loads(pairs):
        assert row["prefill_first_wave_ms"] == 0.5 * row["prefill_ttft_ms"] > 0
    assert "first_wave_ms" in found["columns"]
    assert "DOUBLE [ms]" in next(line for line in schema.splitlines() if "first_wave_ms" in line)


def test_a_size_of_plans_is_six_files_before_an_engine_has_it(changed):
    edits = {
        "store/schema/plan_columns.py": (
            '            words="encoders on devices of their own",\n        ),\n    )\n',
            ('            words="encoders on devices of their own",\n        ),\n    )\n    spare_devices: int = field(default=0,'
            ' metadata=_share("devices", "kept idle", "spare", short="{} spare", words="spare devices"))\n'),
        ),
        MIGRATION: (
            "",
            (f'{HEAD}    with op.batch_alter_table("plan") as plan:\n'
            '        plan.add_column(sa.Column("spare_devices", sa.Integer(), server_default="0", nullable=False,'
            ' comment="kept idle [devices]"))\n'
            '        plan.drop_constraint("uq_plan_tp", type_="unique")\n'
            '        plan.create_unique_constraint("uq_plan_tp", ["tp", "pp", "dp", "ep", "moe_tp", "moe_dp", "dcp",'
            ' "redundant_experts", "pcp", "micro_batches", "encoder_devices", "spare_devices"])\n'),
        ),
        "evaluator/inputs/plan_search.py": (
            "    encoder_devices: Sizes = None",
            "    spare_devices: Sizes = None\n    encoder_devices: Sizes = None",
        ),
        "evaluator/serving/models/waves.py": (
            "prompts_in_waves(run, run.scenario.serving_cost_ms / MS)",
            "prompts_in_waves(run, (run.scenario.serving_cost_ms + 1000 * run.scenario.plan.spare_devices) / MS)",
        ),
        "evaluator/inputs/launchable.py": ("shares=frozenset(),", 'shares=frozenset({"spare_devices"}),'),
        "sweepdb/evaluating/sweep_options.py": (
            "    encoder_devices: Sizes = _plans(",
            '    spare_devices: Sizes = _plans(None, "devices kept idle", unit="devices")\n    encoder_devices: Sizes = _plans(',
        ),
    }  # fmt: skip
    found = changed(
        edits, BY_FORMULAS, f"{BY_FORMULAS} --spare-devices 0,1", "query prefill --format json",
        "query pd-ratio --top 1 --format json", "query coverage --device TEST_DEVICE --format json",
    )  # fmt: skip
    again, _, rows, pairs, coverage = found["said"]
    assert len(edits) == 6
    assert "0 probes stored" in again  # no key of before moved
    plans = {row["plan"]: row for row in json.loads(rows) if row["device"] == "TEST_DEVICE"}
    assert set(plans) == {"tp2pp1dp1", "tp2pp1dp1spare1"}
    bare, spare = plans.values()
    assert (bare["spare_devices"], spare["spare_devices"]) == (0, 1)
    assert spare["launchable"] == ",".join([one for one in bare["launchable"].split(",") if one == "trtllm"])
    assert spare["ttft_ms"] == pytest.approx(bare["ttft_ms"] + 1000)
    assert {"prefill_spare_devices", "decode_spare_devices"} <= set(json.loads(pairs)[0])
    assert {row["plans"] for row in json.loads(coverage)} == {2}
    assert "spare_devices" in found["columns"]


def test_a_field_of_subjects_is_seven_files(changed):
    edits = {
        "store/schema/service_columns.py": (
            "    routing: str | None = field(",
            ('    look_ahead: int | None = field(default=None, metadata=_said(INTEGER, "steps", "looked ahead",'
            ' "{} steps ahead"))\n    routing: str | None = field('),
        ),
        MIGRATION: (
            "",
            (f'{HEAD}    op.add_column("subject", sa.Column("look_ahead", sa.Integer(), nullable=True,'
            ' comment="looked ahead [steps]"))\n'
            '    op.execute("UPDATE subject SET look_ahead = 0 WHERE wait_steps IS NOT NULL")\n'),
        ),
        "evaluator/inputs/launch.py": ("    wait_steps: int = 0\n", "    wait_steps: int = 0\n    look_ahead: int = 0\n"),
        "evaluator/identity.py": (
            "        routing=scenario.routing if routed else None,\n    )",
            ("        routing=scenario.routing if routed else None,\n"
            "        look_ahead=scenario.launch.look_ahead if looped is not None else None,\n    )"),
        ),
        "evaluator/serving/engine/closed_run.py": (
            "wait_steps=scenario.launch.wait_steps,",
            "wait_steps=scenario.launch.wait_steps + scenario.launch.look_ahead,",
        ),
        "sweepdb/evaluating/sweep_options.py": (
            "    wait_steps: int | None = _engine(",
            '    look_ahead: int | None = _engine(None, "steps ahead", unit="steps")\n    wait_steps: int | None = _engine(',
        ),
        "queries/asking/options.py": (
            "    wait_steps: int | None = option(",
            '    look_ahead: int | None = option(None, "only so far ahead")\n    wait_steps: int | None = option(',
        ),
    }  # fmt: skip
    device = "--device h100_sxm"
    found = changed(
        edits, BY_ENGINE, f"{BY_ENGINE} --look-ahead 3", f"query best {device} --look-ahead 3 --format json",
        f"query best {device} --all --format csv", f"query pd-ratio {device} --top 1 --format json", f"query best {device} --all",
    )  # fmt: skip
    again, _, mine, every, pairs, told = found["said"]
    assert len(edits) == 7
    assert "0 probes stored" in again  # no key of before moved
    assert {row["look_ahead"] for row in json.loads(mine)} == {3}
    assert "look_ahead" in every.splitlines()[0].split(",")
    assert {"prefill_look_ahead", "decode_look_ahead"} <= set(json.loads(pairs)[0])
    assert "3 steps ahead" in told
    assert "look_ahead" in found["columns"]
