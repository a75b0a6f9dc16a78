"""Instances of several sizes in one ranking, a device budget in every report, and the TPOT each serving model has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from generator import MODELS, PLANS
from queries_stores import best_of_plans, changed, mission_records, of_arrivals, read_rows, reference, write_sweep

import queries
from cli.render.answers import header_lines, shown_columns
from queries.asking.library import reports, variables_read
from queries.asking.options import PRESETS, Definitions
from queries.asking.question import own_tpot
from queries.narrow.inlining import Look, written_out
from store.errors import InputError
from store.opening import open_store
from store.records import BlockRecord
from store.schema import FORMULA_MODELS
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios

DENSE, MOE = MODELS[0], MODELS[4]
SIZED = {"best": "aggregated", "prefill": "prefill", "decode": "decode"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of one model whose instances have 1, 2, 4, 8 and 16 devices."""
    url = f"sqlite:///{tmp_path_factory.mktemp('sizes')}/store.sqlite"
    write_sweep(url, mission_records(models=(DENSE,)), key="a", sizes=12)
    return url, read_rows(url)


def made_by(phase):
    """The column of what an instance makes."""
    return "input_tokens_per_s" if phase == "prefill" else "output_tokens_per_s"


def ranking(rows, phase, per, fits=lambda row: True):
    """References in order of a measure of the rate and the row, by trying all."""
    ((_, members),) = best_of_plans(rows, phase).items()
    kept = [(rate, row) for rate, row in members if fits(row)]
    latency = {"prefill": "ttft_ms", "decode": "tpot_exclusive_ms", "aggregated": "e2e_ms"}[phase]
    order = sorted(kept, key=lambda m: (-per(*m), m[1][latency], m[1]["batch_size"], m[1]["scenario"]))
    return [reference(row) for _, row in order]


@pytest.mark.parametrize("name", SIZED)
def test_instances_of_several_sizes_rank_by_what_a_device_makes(stored, notebook, name):
    answer = notebook.report(name, top=100)
    found = [row["probe"] for row in answer.dicts()]
    assert found == ranking(stored[1], SIZED[name], lambda rate, row: rate / row["num_devices"])
    assert len({row["num_devices"] for row in answer.dicts()}) > 2
    made = made_by(SIZED[name])
    for row in answer.dicts():
        assert row[f"{made}_per_device"] == pytest.approx(row[made] / row["num_devices"], rel=1e-12)
        assert row["ranked_by"] == f"{made}_per_device"
        assert row["instances"] is None
    assert "ranked by tokens/s per device" in "".join(header_lines(answer))
    assert f"{made}_per_device" in shown_columns(answer)


def test_an_objective_that_was_asked_for_is_what_ranks(stored, notebook):
    answer = notebook.best(top=100, rank_by="throughput")
    assert [row["probe"] for row in answer.dicts()] == ranking(stored[1], "aggregated", lambda rate, _: rate)
    assert {row["ranked_by"] for row in answer.dicts()} == {"output_tokens_per_s"}
    assert "ranked by" not in "".join(header_lines(answer))


def test_instances_of_one_size_rank_by_their_rate_and_nothing_is_said(stored, notebook):
    answer = notebook.best(top=100, instance_devices=8)
    expected = ranking(stored[1], "aggregated", lambda rate, _: rate, lambda row: row["num_devices"] == 8)
    assert [row["probe"] for row in answer.dicts()] == expected
    assert {row["ranked_by"] for row in answer.dicts()} == {"output_tokens_per_s"}
    assert "ranked by" not in "".join(header_lines(answer))


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("budget", [5, 12, 16])
def test_a_budget_holds_copies_and_ranks_by_what_they_make(stored, notebook, name, budget):
    answer = notebook.report(name, top=100, num_devices=budget)

    def copies(rate, row):
        return (budget // row["num_devices"]) * rate

    expected = ranking(stored[1], SIZED[name], copies, lambda row: row["num_devices"] <= budget)
    assert [row["probe"] for row in answer.dicts()] == expected
    made = made_by(SIZED[name])
    for row in answer.dicts():
        assert row["instances"] == budget // row["num_devices"] >= 1
        assert row["devices_used"] == row["instances"] * row["num_devices"] <= budget
        assert row[f"system_{made}"] == pytest.approx(row["instances"] * row[made], rel=1e-12)
    assert {"instances", f"system_{made}"} <= set(shown_columns(answer))
    assert f"ranked by tokens/s of the copies that {budget} devices hold" in "".join(header_lines(answer))


# What a report needs beside a budget.
ASKED = {
    "sensitivity": {"vary": ("ttft",)},
    "mix": {"mix": (("3500/1500", 0.5), ("1024/1024", 0.5))},
    "cost": {"mode": "decode"},
    "nearest": {"ttft_limit": 1e-6},
    "concurrency": {"concurrency": 4},
}


@pytest.mark.parametrize(
    "name",
    sorted({name for name, item in reports().items() if item.part_of is None} - {"why", "diff", "mix", *of_arrivals()}),
)
def test_no_report_refuses_a_device_budget_and_none_goes_beyond_it(notebook, name):
    answer = notebook.report(name, num_devices=8, **ASKED.get(name, {}))
    assert answer.rows
    columns = set(answer.columns) & {"num_devices", "devices_used", "devices"}
    for row in answer.dicts():
        assert all(row[column] is None or row[column] <= 8 for column in columns)


def test_why_and_diff_take_a_budget_too(stored, notebook, tmp_path):
    small, large = (
        next(reference(row) for row in stored[1] if row["phase"] == "aggregated" and row["num_devices"] == size)
        for size in (1, 16)
    )
    assert notebook.why(probes=(small, large), num_devices=16).rows
    with pytest.raises(InputError, match="an instance of 16 devices, beyond `num_devices=8`"):
        notebook.why(probes=(small, large), num_devices=8)
    url = f"sqlite:///{tmp_path}/two.sqlite"
    write_sweep(url, mission_records(models=(DENSE,), plans=PLANS[:4]), key="1", sizes=2)
    write_sweep(url, mission_records(models=(DENSE,), plans=PLANS[:4]), key="2", sizes=2)
    both = queries.open(url).diff(sweeps=("1" * 32, "2" * 32), num_devices=2)
    assert {row["plan"] for row in both.dicts()} == {"tp1pp1dp1", "tp2pp1dp1"}


def write_two_serving_models(url):
    """Aggregated rows under formulas and an engine, whose two TPOTs are 10 and 20 ms."""
    made = mission_records(models=(DENSE,), plans=PLANS[:2], phases=("aggregated",))
    records = [*made, *(changed(record, serving_model="vllm") for record in made)]
    from generator import block

    with open_store(url, create=True) as store:
        from queries_stores import sweep_record

        sweep_id = begin_sweep(store, sweep_record(key="1" * 32))
        for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True):
            if record.status != "ok":
                continue
            given = block(record, 1, 3)
            times = {"tpot_exclusive_ms": 10.0, "tpot_inclusive_ms": 20.0}
            columns = {**given.columns, **{name: 0 * given.columns["ttft_ms"] + t for name, t in times.items()}}
            put_block(store, sweep_id, ref.id, BlockRecord(batch_sizes=given.batch_sizes, columns=columns))
        finish_sweep(store, sweep_id, "finished")


def test_each_group_is_limited_by_the_tpot_of_its_serving_model(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_two_serving_models(url)
    notebook = queries.open(url)
    tpot = {row["serving_model"]: row["tpot_ms"] for row in notebook.best(all=True).dicts()}
    assert tpot == {"waves": 20.0, "vllm": 10.0}
    limited = notebook.best(all=True, tpot_limit=15)
    assert {row["serving_model"] for row in limited.dicts()} == {"vllm"}
    assert "rules: tpot exclusive (vllm), inclusive (waves)," in "".join(header_lines(limited))
    assert "rules: tpot exclusive," in "".join(header_lines(notebook.best(serving_model="vllm")))
    inclusive = notebook.best(all=True, tpot_definition="inclusive")
    assert {row["tpot_ms"] for row in inclusive.dicts()} == {20.0}
    assert "rules: tpot inclusive," in "".join(header_lines(inclusive))
    exclusive = notebook.best(all=True, tpot_definition="exclusive")
    assert {row["tpot_ms"] for row in exclusive.dicts()} == {10.0}


@pytest.mark.parametrize("serving_model", [*FORMULA_MODELS, "vllm", "sglang", "trtllm_v0", "eager", "mine@0123abcd"])
def test_sql_and_python_give_a_serving_model_the_same_tpot(notebook, serving_model):
    asked = written_out("SELECT own_tpot($name)", Look())
    said = notebook._session._connection.duckdb.execute(asked, {"name": serving_model}).fetchone()
    assert said == (own_tpot(serving_model),)
    assert own_tpot(serving_model) == ("inclusive" if serving_model in {"waves", "seed002"} else "exclusive")


def test_presets_of_the_seeds_keep_the_inclusive_tpot_and_ours_asks_each_serving_model():
    assert {name: preset.tpot for name, preset in PRESETS.items()} == {
        "sweepdb": None, "upstream": "inclusive", "seed000": "inclusive", "seed001": "inclusive",
    }  # fmt: skip
    with pytest.raises(InputError, match="`tpot_definition` mean is not one of"):
        Definitions(tpot="mean")
    with pytest.raises(InputError, match="`prefill_rate` is a text, not None"):
        replace(PRESETS["sweepdb"], prefill_qps=None)
    assert "tpot_rule" in variables_read("best")
