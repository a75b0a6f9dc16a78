"""Own runs of requests that arrive at a rate: what they correct of simulated loads, and of nothing else."""

import shutil

import pytest

from cli.main import run
from queries.asking import question_of
from queries.connect import StoreConnection
from queries.learning.at_rates import longer_steps
from store.location import parse_url
from store.reading import read_transaction
from sweepdb.own_runs import own_points
from sweepdb.sessions import open_session

LONGER = 1.5
COLUMNS = "model,device,engine,precision,mode,num_devices,tp,request_rate,input_length,output_length,tpot_exclusive_ms"


def asked(store, report="best", **options):
    options = {"by": "goodput", "ttft_limit": 300, "tpot_limit": 10, "mode": "aggregated", **options}
    with open_session(store) as session:
        return session.ask(question_of(report, options))


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Simulated loads of one device without runs, and with one whose steps took half as long again: two URLs."""
    folder = tmp_path_factory.mktemp("rates")
    bare = f"sqlite:///{folder}/store.sqlite"
    told = "evaluate Qwen/Qwen3-0.6B --device h100_sxm --num-devices 1 --input-length 1024 --output-length 128"
    assert run([*told.split(), "--arrivals", "poisson", "--requests", "500", "--store", bare]) == 0
    with StoreConnection(parse_url(bare)) as connection:
        rate, tpot = connection.execute(
            "SELECT arrivals_per_s, load_tpot_mean_ms FROM load WHERE phase = 'aggregated' ORDER BY arrivals_per_s OFFSET 9"
        ).fetchall()[0]
    # A load of so many requests/s, with every step longer, is one of a lower rate: both that much apart.
    row = f"Qwen/Qwen3-0.6B,h100_sxm,vllm,bf16,aggregated,1,1,{rate / LONGER},973,122,{LONGER * tpot}"
    (folder / "own.csv").write_text(f"{COLUMNS}\n{row}\n", encoding="utf-8")
    own = f"sqlite:///{shutil.copy(folder / 'store.sqlite', folder / 'own.sqlite')}"
    assert run(["measurements", "import", f"{folder}/own.csv", "--store", own]) == 0
    return bare, own


@pytest.fixture(scope="module")
def steps(stores):
    """What the run says of the one scenario whose loads are asked about."""
    location = parse_url(stores[1])
    with read_transaction(location) as transaction:
        ids = frozenset(transaction.values(int, "SELECT DISTINCT scenario_id FROM load"))
        found = longer_steps(transaction, own_points(location, ids).points, ids)
    (one,) = found.steps.values()
    return one


def test_a_run_says_how_much_longer_steps_take(steps):
    assert steps.factor == pytest.approx(LONGER, rel=0.01)  # but for the noise of a run
    assert (steps.measured, steps.runs) == (True, 1)
    assert steps.error < steps.bare_error


def test_goodput_is_that_of_limits_as_much_shorter_at_a_rate_as_much_lower(stores, steps):
    bare, own = stores
    outside = outside_ms(bare)
    shorter = {"ttft_limit": outside + (300 - outside) / steps.factor, "tpot_limit": 10 / steps.factor}
    (twin,), (row,) = asked(bare, **shorter).dicts(), asked(own).dicts()
    assert row["goodput"] == pytest.approx(twin["goodput"] / steps.factor)
    assert row["tpot_p90_ms"] == pytest.approx(steps.factor * twin["tpot_p90_ms"])
    assert row["goodput"] < 0.8 * asked(bare).dicts()[0]["goodput"]
    assert row["step_error"] == pytest.approx(steps.error)
    assert row["basis"] == "measured (TPOT)"


@pytest.mark.parametrize(("report", "column"), [("attainment", "attained"), ("percentiles", "tpot_mean_ms")])
def test_other_reports_about_loads_agree(stores, steps, report, column):
    bare, own = stores
    outside = outside_ms(bare)
    limits = {"ttft_limit": outside + (300 - outside) / steps.factor, "tpot_limit": 10 / steps.factor}
    options, scale = {"by": None}, 1.0
    if report == "percentiles":
        options |= {"ttft_limit": None, "tpot_limit": None, "rate": 20}
        limits, scale = {"rate": 20 * steps.factor}, steps.factor
    twins = [row[column] for row in asked(bare, report, **{**options, **limits}).dicts()]
    rows = [row[column] for row in asked(own, report, **options).dicts()]
    assert rows == pytest.approx([scale * one for one in twins])


def outside_ms(store):
    with StoreConnection(parse_url(store)) as connection:
        ((found,),) = connection.execute("SELECT DISTINCT outside_ms FROM load WHERE phase = 'aggregated'").fetchall()
    return found


def test_the_header_says_what_the_run_changed_and_as_predicted_is_bare(stores):
    bare, own = stores
    answer = asked(own)
    assert "from 1 run of yours at a rate" in answer.own_runs.lines[0]
    assert len(answer.own_runs.points) == 1
    assert asked(own, as_predicted=True).rows == asked(bare).rows


def test_rows_of_closed_loops_stay(stores):
    before, after = (asked(store, by=None, mode=None).rows for store in stores)
    assert before == after
