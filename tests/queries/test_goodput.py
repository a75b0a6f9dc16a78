"""Goodput, attainment and percentiles against plain Python over the stored cells, and against plays of their own."""

from __future__ import annotations

from dataclasses import fields, replace

import duckdb
import numpy as np
import pytest
from conftest_loads import evaluate_loads
from evaluator_cases import QWEN3_32B, W8A8, both_traces
from goodput_twin import crossing, inside, shares_of, stored_cells
from queries_stores import of_arrivals
from quick import quick

import sweepdb
from evaluator.arrivals.histograms import edges_ms
from evaluator.arrivals.load_rows import arrival_record, load_record, settings_key
from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.play_rules import StepPrices
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.evaluate import cost_model, evaluate_scenario
from evaluator.identity import RecordBuilder
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from queries.asking.library import report, variables_read
from queries.asking.macros import macros
from queries.asking.variables import known_variables
from queries.connect import connect
from store.errors import InputError
from store.opening import open_store
from store.records import BlockRecord
from store.writing import begin_sweep, put_block, put_loads, put_scenarios

NEEDED: dict[str, dict[str, object]] = {
    "percentiles": {"rate": 5.0}, "attainment-scale": {"scale": True}, "capacity by goodput": {"rate": 5.0},
    "compare by goodput": {"num_devices": 4}, "sensitivity by goodput": {"vary": "tpot"},
}  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of one model at 24 rates, every phase."""
    url = f"sqlite:///{tmp_path_factory.mktemp('goodput')}/store.sqlite"
    evaluate_loads(url, requests=4_000)
    return url


@pytest.fixture(scope="module")
def notebook(stored):
    opened = sweepdb.open(stored)
    yield opened
    opened.close()


def test_bins_of_reports_are_those_of_plays():
    with duckdb.connect() as connection:
        connection.execute(macros()["bin_place"].sql)
        places = [connection.execute("SELECT bin_place($edge)", {"edge": edge}).fetchone()[0] for edge in edges_ms()]
    assert places == pytest.approx(range(len(places)), abs=1e-9)


def test_shares_of_cells_have_one_sum_in_any_order():
    """As threads add them: 20,000 cells of up to 99 requests, within both limits, both in the middle of a bin."""
    with duckdb.connect() as connection:
        for name in ("bin_share", "exact_share", "part_of", "even_place"):
            connection.execute(macros()[name].sql)
        sums = connection.execute(
            """
            WITH cells AS (
                SELECT range AS cell, 1 + hash(range) % 99 AS requests,
                    even_place(3 + range % 97 / 97, NULL::INTEGER[]) AS x,
                    even_place(5 + range % 89 / 89, NULL::INTEGER[]) AS y
                FROM range(20000)
            ),
            weighed AS (SELECT *, requests * exact_share(bin_share(x, 3) * bin_share(y, 5)) AS met FROM cells)
            SELECT list_sum(list(met ORDER BY cell)), list_sum(list(met ORDER BY -cell)), list_sum(list(met ORDER BY hash(cell)))
            FROM weighed
            """
        ).fetchone()
    assert sums[0] > 200_000
    assert len({*sums}) == 1


@pytest.fixture(scope="module")
def ladder(stored):
    """By phase: (rate, counted, outside, cells) of every load, by rate."""
    with connect(stored) as connection:
        loads = connection.execute(
            "SELECT phase, arrivals_per_s, counted_requests, outside_ms, load_id FROM load ORDER BY arrivals_per_s"
        ).fetchall()
        cells = stored_cells(connection)
    return {
        phase: [(rate, counted, outside, cells[load]) for kind, rate, counted, outside, load in loads if kind == phase]
        for phase in ("aggregated", "prefill", "decode")
    }


def said_of(row):
    """What a row says, without its figures."""
    if row["said"] is not None and row["said"].startswith("saturated at the lowest rate: a lone request takes"):
        return "below the lowest rate simulated"
    if row["said"] is not None and row["said"].startswith(">="):
        assert row["said"] == f">= {row['goodput']:.4g}, the highest rate simulated"
        return "the highest rate simulated"
    return row["said"]


@pytest.mark.parametrize("seed", quick(range(25), 8))
def test_goodput_is_that_of_plain_python(notebook, ladder, seed) -> None:
    draw = np.random.Generator(np.random.PCG64(seed))
    ttft = None if draw.random() < 0.2 else float(np.exp(draw.uniform(np.log(45), np.log(1000))))
    tpot = None if draw.random() < 0.2 else float(np.exp(draw.uniform(np.log(2), np.log(20))))
    wanted, marginal = float(draw.uniform(0.2, 0.99)), bool(draw.random() < 0.4)
    answer = notebook.best(
        by="goodput", ttft_limit=ttft, tpot_limit=tpot, attainment=wanted, marginal=marginal, mode="aggregated"
    )
    (row,) = answer.dicts()
    shares = shares_of(ladder["aggregated"], ttft, tpot, marginal=marginal)
    expected, said = crossing([(rate, share) for rate, share, _ in shares], wanted)
    assert said_of(row) == said
    assert row["goodput"] == (None if expected is None else pytest.approx(expected))
    low, _ = crossing([(rate, share - width) for rate, share, width in shares], wanted)
    high, _ = crossing([(rate, share + width) for rate, share, width in shares], wanted)
    assert row["goodput_low"] == (None if low is None else pytest.approx(low))
    assert row["goodput_high"] == (None if high is None else pytest.approx(high))
    for name, sign in (("goodput_slower", 1), ("goodput_faster", -1)):
        if row["step_error"] is None:
            assert row[name] is None
            continue
        c = 1 + sign * row["step_error"]
        outside = ladder["aggregated"][0][2]
        scaled = (None if ttft is None else (ttft - outside) / c + outside, None if tpot is None else tpot / c)
        curve = [(rate, share) for rate, share, _ in shares_of(ladder["aggregated"], *scaled, marginal=marginal)]
        moved, _ = crossing(curve, wanted)
        assert row[name] == (None if moved is None else pytest.approx(moved / c)), name


def test_the_view_says_the_same_and_no_limit_is_none(stored, ladder) -> None:
    with connect(stored) as connection:
        for ttft, tpot in ((120.0, 4.0), (None, 4.0), (120.0, None), (None, None)):
            rows = connection.execute(
                "SELECT share, share_sd FROM load JOIN attainment($ttft, $tpot) USING (load_id)"
                " WHERE phase = 'aggregated' ORDER BY arrivals_per_s",
                {"ttft": ttft, "tpot": tpot},
            ).fetchall()
            expected = shares_of(ladder["aggregated"], ttft, tpot)
            assert [share for share, _ in rows] == pytest.approx([share for _, share, _ in expected])
            half = [2.776 * sd / 5**0.5 for _, sd in rows]
            assert half == pytest.approx([width for _, _, width in expected], abs=1e-11)  # shares in steps of 2^-32


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_sides_have_a_goodput_under_their_own_limit(notebook, ladder, phase) -> None:
    limit = {"ttft_limit": 150.0} if phase == "prefill" else {"tpot_limit": 4.0}
    (row,) = notebook.best(by="goodput", mode=phase, **limit).dicts()
    shares = shares_of(ladder[phase], limit.get("ttft_limit"), limit.get("tpot_limit"))
    assert row["goodput"] == pytest.approx(crossing([(rate, share) for rate, share, _ in shares], 0.95)[0])
    assert row["binding_limit"] == ("ttft" if phase == "prefill" else "tpot")


def test_more_of_the_same_limit_never_lowers_goodput(notebook) -> None:
    found = [
        notebook.best(by="goodput", ttft_limit=200.0, tpot_limit=limit, mode="aggregated").dicts()[0]["goodput"] or 0.0
        for limit in (3.0, 4.0, 6.0, 9.0, 20.0)
    ]
    assert found == sorted(found)
    assert found[-1] > found[0]


def test_copies_share_a_device_budget(notebook) -> None:
    alone, copies = (
        notebook.best(by="goodput", ttft_limit=200.0, mode="aggregated", **more).dicts()[0]
        for more in ({}, {"num_devices": 7})
    )
    assert (copies["instances"], copies["system_goodput"]) == (7, pytest.approx(7 * alone["goodput"]))
    assert alone["instances"] is None


@pytest.mark.parametrize("name", sorted(of_arrivals()))
def test_a_header_lists_the_columns_and_errors_are_said(notebook, name) -> None:
    asked = report(name)
    assert variables_read(name) <= known_variables().keys()
    form = {**({"by": "goodput"} if "by goodput" in name else {}), **({"mode": "pd"} if "pairs" in name else {})}
    answer = notebook.report(asked.part_of or name, **NEEDED.get(name, {}), **form)
    assert answer.rows
    assert answer.report == name
    assert len(answer.columns) == len(set(answer.columns))
    assert {column.name for column in asked.columns} == {*answer.columns} - {"basis"}  # beside every report of devices
    assert answer.expected_error


def test_attainment_is_the_curve_that_goodput_is_read_from(notebook, ladder) -> None:
    rows = notebook.attainment(ttft_limit=200.0, tpot_limit=8.0, mode="aggregated").dicts()
    expected = shares_of(ladder["aggregated"], 200.0, 8.0)
    assert [row["arrivals_per_s"] for row in rows] == [rate for rate, _, _ in expected]
    assert [row["attained"] for row in rows] == pytest.approx([share for _, share, _ in expected])
    assert [row["half_width"] for row in rows] == pytest.approx([width for _, _, width in expected], abs=1e-11)
    assert all(row["attained"] <= min(row["ttft_attained"], row["tpot_attained"]) + 1e-11 for row in rows)


def test_times_between_tokens_have_a_limit_of_their_own(stored, notebook, ladder) -> None:
    with connect(stored) as connection:
        connection.provide({"load", "load_token"})
        gaps = connection.execute(
            "SELECT arrivals_per_s, gap_bin, gaps FROM load JOIN raw.load_token USING (load_id) WHERE phase = 'aggregated'"
        ).fetchall()
    for limit in (3.0, 4.0, 6.0):
        within = []
        for rate, both, _ in shares_of(ladder["aggregated"], 200.0, 8.0):
            mine = [(count, inside(limit, bin_)) for at, bin_, count in gaps if at == rate]
            share = sum(count * weight for count, weight in mine) / sum(count for count, _ in mine)
            within.append((rate, min(both, share)))
        given = {"ttft_limit": 200.0, "tpot_limit": 8.0, "tbt_limit": limit, "mode": "aggregated"}
        assert [row["attained"] for row in notebook.attainment(**given).dicts()] == pytest.approx(
            [share for _, share in within]
        )
        (row,) = notebook.best(by="goodput", **given).dicts()
        expected, _ = crossing(within, 0.95)
        assert row["goodput"] == (None if expected is None else pytest.approx(expected))
    (without,) = notebook.best(by="goodput", ttft_limit=200.0, tpot_limit=8.0, mode="aggregated").dicts()
    assert (row["goodput"] or 0) <= without["goodput"]


def test_percentiles_meet_the_limits_that_they_are(notebook) -> None:
    """At a rate that was played as many requests as a percentile says take at most that long, by the other reading."""
    for row in notebook.percentiles(rate=1e-3, mode="aggregated").dicts():  # lone requests: bins that are not even
        for metric in ("ttft", "tpot"):
            times = [row[f"{metric}_{name}_ms"] for name in ("p50", "p90", "p99")]
            assert times == sorted(times)
            for share, limit in zip((0.5, 0.9, 0.99), times, strict=True):
                lowest = notebook.attainment(**{f"{metric}_limit": limit}, mode="aggregated").dicts()[0]
                assert lowest[f"{metric}_attained"] == pytest.approx(share, abs=1e-6)


def test_means_are_within_a_bin_of_those_of_the_cells(notebook, ladder) -> None:
    """32 bins a decade: no request lies further than 7.5 % from the lower end of its bin, half of that from the middle."""
    for rate, _, outside, cells in ladder["aggregated"][::4]:
        (row,) = notebook.percentiles(rate=rate, mode="aggregated").dicts()
        for side, name in enumerate(("ttft", "tpot")):
            counts = [sum(cell[2:]) for cell in cells]
            middles = [0.01 * 10 ** ((cell[side] + 0.5) / 32) for cell in cells]
            mean = float(np.average(middles, weights=counts)) + (outside if name == "ttft" else 0.0)
            assert row[f"{name}_mean_ms"] == pytest.approx(mean, rel=0.04)


def test_percentiles_are_those_of_the_requests(stored, notebook) -> None:
    """Of a rate that was played: in the bin that holds them."""
    with connect(stored) as connection:
        ((rate, outside),) = connection.execute(
            "SELECT arrivals_per_s, outside_ms FROM load WHERE phase = 'aggregated' ORDER BY arrivals_per_s LIMIT 1 OFFSET 10"
        ).fetchall()
    (row,) = notebook.percentiles(rate=rate, mode="aggregated").dicts()
    assert row["said"] is None
    cells = next(cells for r, _, _, cells in ladder_rows(stored) if r == rate)
    counts = np.zeros(288)
    for cell in cells:
        counts[cell[0]] += sum(cell[2:])
    upto = np.cumsum(counts) / counts.sum()
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        bin_ = int(np.searchsorted(upto, q))
        low, high = (0.01 * 10 ** (place / 32) + outside for place in (bin_, bin_ + 1))
        assert low <= row[f"ttft_{name}_ms"] <= high


@pytest.fixture(scope="module", params=[None, 0.5])
def one_by_one(request, tmp_path_factory):
    """A store that keeps every request, of answers all alike and from half of their length on."""
    url = f"sqlite:///{tmp_path_factory.mktemp('whole')}/store.sqlite"
    shorter = {} if request.param is None else {"client_lengths": request.param}
    evaluate_loads(url, requests=2_500, output_length=120, mode="aggregated", keep_requests=True, **shorter)
    with connect(url) as connection:
        connection.provide({"load_request"})
        loads = connection.execute(
            "SELECT arrivals_per_s, counted_requests, outside_ms, load_id FROM load ORDER BY arrivals_per_s"
        ).fetchall()
        requests = {
            load: connection.execute(
                "SELECT answer, ttft_us, tpot_us FROM raw.load_request WHERE load_id = $load", {"load": load}
            ).fetchnumpy()
            for *_, load in loads
        }
    with sweepdb.open(url) as opened:
        yield opened, [(rate, count, outside, requests[load]) for rate, count, outside, load in loads]


def goodput_of_requests(loads, wanted, *, ttft=np.inf, tpot=np.inf, e2e=np.inf):
    curve = []
    for rate, count, outside, each in loads:
        first, later = each["ttft_us"] / 1e3 + outside, each["tpot_us"] / 1e3
        met = (first <= ttft) & (later <= tpot) & (first + (each["answer"] - 1) * later <= e2e)
        curve.append((rate, float(met.sum()) / count))
    return crossing(curve, wanted)[0]


def test_whole_requests_are_limited_as_one_by_one(one_by_one) -> None:
    """Their time follows from the cells of TTFT and TPOT, and the lengths of answers: 3 % off at the most."""
    opened, loads = one_by_one
    lone = loads[0][3]
    shortest = float(np.median(lone["ttft_us"] / 1e3 + (lone["answer"] - 1) * lone["tpot_us"] / 1e3)) + loads[0][2]
    errors = []
    for times, wanted in ((1.3, 0.5), (1.6, 0.9), (2, 0.95), (3, 0.95), (4, 0.99)):
        for others in ({}, {"ttft_limit": 60.0}) if times == 2 else ({}, {"tpot_limit": 5.0}) if times == 3 else ({},):
            limits = {name.removesuffix("_limit"): limit for name, limit in others.items()}
            expected = goodput_of_requests(loads, wanted, e2e=times * shortest, **limits)
            asked = {"by": "goodput", "e2e_limit": times * shortest, "attainment": wanted, **others}
            (row,) = opened.best(**asked).dicts()
            assert (row["goodput"] is None) == (expected is None)
            if expected is not None:
                errors.append(abs(row["goodput"] / expected - 1))
    assert len(errors) >= 5
    assert np.median(errors) < 0.02
    assert max(errors) < 0.03
    asked = {"e2e_limit": 2 * shortest, "ttft_limit": 5_000.0}
    (row,) = opened.best(by="goodput", **asked).dicts()
    assert row["binding_limit"] == "e2e"
    (carried,) = opened.capacity(rate=100.0, **asked).dicts()
    assert carried["devices"] == np.ceil(100.0 / row["goodput"] - 1e-9)


def test_a_pair_has_no_end_to_end_time_at_a_rate(notebook) -> None:
    answer = notebook.capacity(rate=5.0, e2e_limit=400.0)
    assert {row["mode"] for row in answer.dicts()} == {"aggregated"}
    assert any(note.startswith("disaggregated deployments are left out") for note in answer.notes)
    with pytest.raises(InputError, match="e2e_limit` holds for aggregated rows only"):
        notebook.compare(by="goodput", num_devices=4, e2e_limit=400.0)
    with pytest.raises(InputError, match="an end-to-end limit is not scaled"):
        notebook.attainment(scale=True, e2e_limit=400.0)


def test_rates_outside_the_ladder_are_said(notebook) -> None:
    (low,) = notebook.percentiles(rate=1e-3, mode="aggregated").dicts()
    (high,) = notebook.percentiles(rate=1e6, mode="aggregated").dicts()
    assert low["said"] == "at the lowest rate simulated"
    assert (high["said"], high["ttft_p50_ms"]) == ("above the highest rate simulated", None)
    with pytest.raises(InputError, match="percentiles are of a rate of requests"):
        notebook.percentiles()


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_a_share_that_is_none_is_refused(notebook, share) -> None:
    with pytest.raises(InputError, match="attainment"):
        notebook.best(by="goodput", attainment=share)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(notebook, rate) -> None:
    with pytest.raises(InputError, match=r"`rate` must be (a number|above 0|at most 1e)"):
        notebook.percentiles(rate=rate)


@pytest.mark.parametrize("vary", ["memory", "e2e", "tokens_per_s_per_user"])
def test_a_limit_that_arriving_requests_lack_is_not_varied(notebook, vary) -> None:
    """Loads count first tokens and times per token alone: any other limit was read as TPOT before."""
    with pytest.raises(InputError, match=f"requests that arrive have no `vary={vary}`"):
        notebook.report("sensitivity", by="goodput", vary=vary)


def test_what_saturates_at_the_lowest_rate_says_what_a_lone_request_takes(notebook) -> None:
    (lowest,) = notebook.percentiles(rate=1e-3, mode="aggregated").dicts()
    for metric, rest in (("ttft", " to its first token"), ("tpot", " a token")):
        alone = lowest[f"{metric}_p50_ms"]
        (row,) = notebook.best(by="goodput", **{f"{metric}_limit": alone / 2}, mode="aggregated").dicts()
        assert row["goodput"] is None
        assert row["said"] == f"saturated at the lowest rate: a lone request takes {alone:.3g} ms{rest}"


def test_few_requests_are_said_with_their_interval(sqlite_url) -> None:
    evaluate_loads(sqlite_url, requests=600, rates=(1.0, 2.0, 4.0))
    with sweepdb.open(sqlite_url) as opened:
        answer = opened.best(by="goodput", ttft_limit=300.0, mode="aggregated")
        assert any("600 requests give wide intervals" in note for note in answer.notes)
        assert answer.dicts()[0]["goodput_low"] <= answer.dicts()[0]["goodput_high"]


def test_sides_of_other_arrivals_are_no_pair(sqlite_url) -> None:
    for mode, arrivals in (("prefill", "poisson"), ("decode", "constant")):
        evaluate_loads(sqlite_url, requests=2_000, mode=mode, arrivals=arrivals, rates=(1.0, 2.0, 4.0))
    said = "prefill sides were simulated with poisson, 2000 requests, seed 1, decode sides with constant, 2000 requests"
    with sweepdb.open(sqlite_url) as opened, pytest.raises(InputError, match=said):
        opened.best(by="goodput", ttft_limit=300.0, mode="pd", all=True)


def test_probes_without_arrivals_have_no_goodput(sqlite_url) -> None:
    evaluate_loads(sqlite_url, arrivals=None, requests=20_000)
    with sweepdb.open(sqlite_url) as opened:
        for asking in (lambda: opened.best(by="goodput", ttft_limit=200.0), lambda: opened.percentiles(rate=3.0)):
            with pytest.raises(InputError, match="no aggregated rows of this scope have been"):
                asking()


def ladder_rows(url):
    with connect(url) as connection:
        loads = connection.execute(
            "SELECT arrivals_per_s, counted_requests, outside_ms, load_id FROM load WHERE phase = 'aggregated'"
        ).fetchall()
        cells = stored_cells(connection)
    return [(rate, counted, outside, cells[load]) for rate, counted, outside, load in loads]


def scenario_of(prompt: int, output: float) -> Scenario:
    return Scenario(
        model=QWEN3_32B,
        device=load_device("h100_sxm"),
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=Plan(tp=4),
        workload=Workload(input_length=prompt, output_length=output, max_batched_tokens=4096),
        phase="aggregated",
        serving_model="vllm",
    )


def run_of(scenario: Scenario) -> Run:
    return Run(
        scenario=scenario,
        operators=both_traces(QWEN3_32B, scenario.plan, linear=W8A8),
        source=serving_model_of(scenario).source(scenario),
        cost=cost_model(scenario.device, "physical"),
        batch_sizes=np.arange(1, 2),
    )


def player_of(prompt: int, output: float, *, requests: int = 20_000) -> LoadPlayer:
    run = run_of(scenario_of(prompt, output))
    process = ArrivalProcess(kind="poisson", requests=requests)
    return LoadPlayer(run, serving_engine(run.scenario), PlaySettings(process=process))


def bisected(player: LoadPlayer, ttft: float, tpot: float, wanted: float, *, steps: int = 14) -> float:
    """The rate at which the share falls below the wanted one, by new plays of every request."""

    def share(rate: float) -> float:
        times = player.load(rate, keep_requests=True).request_times
        met = (times.ttft + player.load_outside_ms <= ttft) & (times.tpot <= tpot)
        return float(met.mean())

    low, high = 0.02 * player.saturation_per_s, 0.995 * player.saturation_per_s
    if share(low) < wanted or share(high) >= wanted:
        return float("nan")
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= wanted else (low, middle)
    return 0.5 * (low + high)


def stored_play(url: str, player: LoadPlayer, scenario: Scenario):
    """The ladder of a player in a store, with a probe of its scenario."""
    settings_ = player.settings
    record = RecordBuilder().scenario("Qwen/Qwen3-32B", scenario)
    common = settings_key(record.key, settings_)
    with open_store(url, create=True) as store:
        from generator import sweep_record

        sweep = begin_sweep(store, sweep_record(key="a" * 32))
        (ref,) = put_scenarios(store, sweep, [record])
        block = evaluate_scenario(scenario, np.asarray([1]), run_of(scenario).operators)
        put_block(store, sweep, ref.id, BlockRecord(batch_sizes=block.batch_size, columns=block.columns()))
        loads = [load_record(player.load(rate), settings_, common) for rate in player.rates(None)]
        put_loads(store, sweep, ref.id, arrival_record(settings_.process), loads)


@pytest.mark.parametrize("limits", [*quick([8, 25]), pytest.param(1_000, marks=pytest.mark.long)])
def test_stored_answers_are_those_of_bisection_by_new_plays(sqlite_url, limits) -> None:
    """Of seeded limits 2 % in the median, and 5 % at worst.

    Both read the same requests, so fewer of them and a rate to 0.05 % of saturation tell as much of the first 25."""
    requests, steps = (8_000, 11) if limits == 25 else (20_000, 14)
    player = player_of(1500, 200.0, requests=requests)
    stored_play(sqlite_url, player, scenario_of(1500, 200.0))
    ends = min(player.rates(None)), max(player.rates(None))
    draw, errors = np.random.Generator(np.random.PCG64(3)), []
    with sweepdb.open(sqlite_url) as opened:
        while len(errors) < limits:
            ttft, tpot = float(draw.uniform(100, 900)), float(draw.uniform(9, 40))
            wanted = float(draw.uniform(0.5, 0.98))
            expected = bisected(player, ttft, tpot, wanted, steps=steps)
            if not ends[0] < expected < ends[1]:  # NaN, too: the ladder says that it ends there
                continue
            (row,) = opened.best(by="goodput", ttft_limit=ttft, tpot_limit=tpot, attainment=wanted).dicts()
            errors.append(abs(row["goodput"] / expected - 1.0))
    hundredth = float(np.quantile(errors, 0.99))
    print(
        f"{limits} limits: {np.median(errors):.2%} in the median, 99 % within {hundredth:.2%}, {max(errors):.2%} at worst"
    )
    assert np.median(errors) <= 0.02
    assert max(errors) <= 0.05


@pytest.mark.parametrize("c", [1.1, 0.9])
def test_longer_steps_read_from_the_same_rows_are_a_play_with_longer_steps(c: float) -> None:
    """goodput_c(x, y) = goodput(x / c, y / c) / c, the time outside of steps taken off x first."""
    player = player_of(1500, 200.0, requests=4_000)
    outside, (ttft, tpot, wanted) = player.load_outside_ms, (400.0, 20.0, 0.9)
    moved = bisected(player, (ttft - outside) / c + outside, tpot / c, wanted) / c
    longer = {
        item.name: c * getattr(player.prices, item.name)
        for item in fields(StepPrices)
        if item.name not in {"spacing", "stretches", "prefill_factor", "decode_factor"}
    }
    player.prices = replace(player.prices, **longer)
    player.saturation_per_s /= c
    assert bisected(player, ttft, tpot, wanted) == pytest.approx(moved, rel=1e-3)
