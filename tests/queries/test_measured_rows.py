"""Reports over measured settings against plain arithmetic on the points, alone and beside predictions."""

import os
import random
import sqlite3
import time
from itertools import groupby
from statistics import median

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from measured_points import MODEL, OUTPUT, PROMPT, point
from queries_stores import changed, mission_records, write_sweep

from queries.asking.pictures import picture_of
from queries.asking.question import question_of
from queries.connect import connect
from queries.measured_rows import ServerNamer, as_stated, kept_settings, placing, relation
from queries.proofs import verify_proof, write_proof
from queries.session import Session
from store.errors import InputError, StoreError
from store.location import parse_url
from store.opening import open_store
from store.records import PriceRecord
from store.writing import put_measurements, put_prices
from sweepdb.measuring import regressions

VERSIONS = {"0.1": "base", "0.2": "new"}
PRICES = {"H100_SXM": 3.0, "H200_SXM": 4.0}


def swept(seed=7):
    """Three runs of each setting of two devices, plans, versions and prompts, and some pairs."""
    made, rng = [], random.Random(seed)

    def runs(speed, users, **facts):
        for _ in range(3):
            tpot = (8 + users / 9) / speed * rng.uniform(0.95, 1.05)
            ttft = (90 + 6 * users) / speed * rng.uniform(0.95, 1.05)
            # As many answers a second as users have them, less what a client waits.
            made_per_s = users * OUTPUT * 1000 / (ttft + (OUTPUT - 1) * tpot) * rng.uniform(0.9, 1.0)
            values = {"ttft_ms_mean": ttft, "tpot_exclusive_ms_mean": tpot, "output_tokens_per_s": made_per_s}
            made.append(point(len(made), users=users, **facts, **values))

    for device, fast in (("H100_SXM", 1.0), ("H200_SXM", 1.3)):
        for version, faster in (("0.1", 1.0), ("0.2", 1.1)):
            for tp in (1, 2):
                for prompt in (PROMPT, 2 * PROMPT):
                    for users in (1, 4, 16, 64):
                        runs(fast * faster * tp**0.8 * (PROMPT / prompt) ** 0.2, users, device=device, tp=tp,
                             version=version, prompt=prompt)  # fmt: skip
        for users in (8, 32):
            runs(fast * 1.9, users, device=device, tp=2, prefills=1)
    return made


def settings_of(points):
    """The median of each setting's runs, as plain mappings with all that follows from it."""

    def setting(one):
        return (one.device, one.engine_version, one.decode.tp, one.input_length, one.mode, one.concurrency)

    for (device, version, tp, prompt, mode, users), runs in groupby(sorted(points, key=setting), setting):
        runs = list(runs)
        ttft, tpot, rate = (
            median(run.metrics[name] for run in runs)
            for name in ("ttft_ms_mean", "tpot_exclusive_ms_mean", "output_tokens_per_s")
        )
        devices = runs[0].num_devices
        yield {
            "probe": min(run.key for run in runs)[:12], "device": device, "version": version, "tp": tp, "prompt": prompt,
            "mode": "pd" if mode == "disaggregated" else "aggregated", "users": users, "ttft": ttft, "tpot": tpot,
            "rate": rate, "devices": devices, "each": rate / devices, "qps": rate / OUTPUT, "pace": 1000 / tpot,
            "e2e": ttft + (OUTPUT - 1) * tpot,
        }  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A store of measured points and prices alone: (url, its settings)."""
    url = f"sqlite:///{tmp_path_factory.mktemp('rows')}/store.sqlite"
    points = swept()
    with open_store(url, create=True) as store:
        put_measurements(store, points)
        put_prices(store, [PriceRecord(device_name=name, usd_per_device_hour=usd, watts_per_device=700.0,
                                       effective_from="2026-01-01", source="test") for name, usd in PRICES.items()])  # fmt: skip
    return url, list(settings_of(points))


def asked(url, report, **options):
    with Session(parse_url(url)) as session:
        return session.ask(question_of(report, {"rows": "measured", "top": 1000, **options}))


def short(rows, **wanted):
    """The settings of the shorter prompt, of which questions are; those with other facts left out."""
    kept = (row for row in rows if row["prompt"] == PROMPT and row["mode"] == wanted.get("mode", "aggregated"))
    return [row for row in kept if all(row[name] <= limit for name, limit in wanted.items() if name != "mode")]


def best_of(rows, *names, by):
    """The best row of each value of these names."""
    found = {}
    for row in rows:
        place = tuple(row[name] for name in names)
        if place not in found or row[by] > found[place][by]:
            found[place] = row
    return sorted(found.values(), key=lambda row: -row[by])


LADDER = ("device", "version", "tp", "prompt")


def test_best_ranks_the_best_setting_of_each_server_and_says_that_it_was_measured(measured):
    url, rows = measured
    answer = asked(url, "best", input_length=PROMPT, tpot_limit=12)
    expected = sorted(best_of(short(rows, tpot=12), *LADDER, by="rate"), key=lambda row: -row["each"])
    got = answer.dicts()
    assert [row["probe"] for row in got] == [row["probe"] for row in expected]
    assert len(expected) == 8  # two devices, versions and plans
    for row, told in zip(got, expected, strict=True):
        assert row["output_tokens_per_s"] == pytest.approx(told["rate"])
        assert row["ttft_ms"] == pytest.approx(told["ttft"])
        assert row["e2e_ms"] == pytest.approx(told["e2e"])
        assert (row["basis"], row["rows"], row["holds"], row["memory_free_bytes"]) == (
            "measured",
            "measured",
            "yes",
            None,
        )
        assert (row["batch_size"], row["concurrency"]) == (told["users"], told["users"])


def test_devices_have_their_best_setting(measured):
    url, rows = measured
    got = asked(url, "devices", input_length=PROMPT, ttft_limit=300).dicts()
    expected = best_of(best_of(short(rows, ttft=300), *LADDER, by="rate"), "device", by="each")
    assert [(row["device"], row["probe"]) for row in got] == [(row["device"], row["probe"]) for row in expected]


def test_a_frontier_is_of_what_no_setting_beats_with_pairs_that_were_measured(measured):
    url, rows = measured
    got = {(row["mode"], row["probe"]) for row in asked(url, "pareto", input_length=PROMPT).dicts()}
    expected = set()
    for mode in ("aggregated", "pd"):
        points = short(rows, mode=mode)
        expected |= {
            (mode, row["probe"])
            for row in points
            if not any(
                (one["pace"] >= row["pace"] and one["each"] > row["each"])
                or (one["pace"] > row["pace"] and one["each"] >= row["each"])
                for one in points
            )
        }
    assert got == expected
    assert {mode for mode, _ in got} == {"aggregated", "pd"}


@pytest.mark.parametrize("budget", [3, 8])
def test_compare_takes_copies_of_what_was_measured(measured, budget):
    url, rows = measured
    got = {row["mode"]: row for row in asked(url, "compare", input_length=PROMPT, num_devices=budget).dicts()}
    for mode, told in got.items():
        held = [
            (budget // row["devices"] * row["qps"], row) for row in short(rows, mode=mode) if row["devices"] <= budget
        ]
        qps, best = max(held, key=lambda item: item[0])
        assert told["system_requests_per_s"] == pytest.approx(qps)
        assert told["devices_used"] == budget // best["devices"] * best["devices"]
        assert told["probe" if mode == "aggregated" else "decode_probe"] == best["probe"]
        assert told["ttft_ms"] == pytest.approx(best["ttft"])
    assert got["pd"]["prefill_instances"] == budget // 3  # one beside each that decodes
    assert got["pd"]["gain"] == pytest.approx(
        got["pd"]["system_requests_per_s"] / got["aggregated"]["system_requests_per_s"]
    )


def test_cost_is_of_measured_throughput(measured):
    url, rows = measured
    got = asked(url, "cost", input_length=PROMPT, tpot_limit=14).dicts()
    best = best_of(short(rows, tpot=14), "device", by="each")
    expected = sorted(((3600 * row["each"] / PRICES[row["device"]], row["probe"]) for row in best), reverse=True)
    assert [row["probe"] for row in got] == [probe for _, probe in expected]
    assert [row["tokens_per_usd"] for row in got] == pytest.approx([worth for worth, _ in expected])


def test_cost_of_pairs_is_of_what_was_measured_with_both_sides(measured):
    url, rows = measured
    got = asked(url, "cost", input_length=PROMPT, mode="pd").dicts()
    best = best_of(short(rows, mode="pd"), "device", by="each")
    expected = sorted(((3600 * row["each"] / PRICES[row["device"]], row["probe"]) for row in best), reverse=True)
    assert [(row["probe"], row["prefill_probe"]) for row in got] == [(probe, probe) for _, probe in expected]
    assert [row["tokens_per_usd"] for row in got] == pytest.approx([worth for worth, _ in expected])
    assert {row["plan"] for row in got} == {"1 x tp1 + 1 x tp2pp1dp1"}
    assert {row["num_devices"] for row in got} == {3}


def test_a_curve_has_every_setting(measured):
    url, rows = measured
    got = asked(url, "curve", input_length=PROMPT).dicts()
    assert sorted((row["probe"], row["concurrency"]) for row in got) == sorted(
        (row["probe"], row["users"]) for row in short(rows)
    )


def test_steps_over_a_limit_are_at_measured_values(measured):
    url, rows = measured
    got = asked(url, "sensitivity", input_length=PROMPT, vary="tpot", ttft_limit=400).dicts()
    steps, most = [], 0.0
    for row in sorted(short(rows, ttft=400), key=lambda row: row["tpot"]):
        if row["each"] > most:  # sizes differ, so ranked by what a device makes
            steps.append(row)
            most = row["each"]
    assert [row["probe"] for row in got] == [row["probe"] for row in steps]
    assert [row["limit_from"] for row in got] == pytest.approx([row["tpot"] for row in steps])


def test_two_releases_are_held_against_each_other(measured):
    url, rows = measured
    got = {row["first_probe"]: row for row in asked(url, "diff", sweeps=("0.1", "0.2")).dicts()}
    facts = ("device", "tp", "prompt", "users")
    sides = [{tuple(row[name] for name in facts): row for row in rows if row["version"] == version and row["mode"] != "pd"}
             for version in VERSIONS]  # fmt: skip
    assert len(got) == len(sides[0]) == 32
    for place, before in sides[0].items():
        after, told = sides[1][place], got[before["probe"]]
        assert told["second_probe"] == after["probe"]
        assert told["throughput_change_percent"] == pytest.approx(100 * (after["rate"] / before["rate"] - 1))
        assert told["tpot_change_percent"] == pytest.approx(100 * (after["tpot"] / before["tpot"] - 1))
        assert told["memory_change_bytes"] is None


def test_limits_are_read_as_measured_with_any_confidence(measured):
    url, _ = measured
    plain, sure = (asked(url, "best", tpot_limit=12, **more) for more in ({}, {"confidence": 0.8}))
    assert plain.rows == sure.rows


def test_nearest_misses_say_that_they_do_not_hold(measured):
    url, rows = measured
    answer = asked(url, "best", input_length=PROMPT, ttft_limit=1)
    nearest = answer.nearest_dicts()
    assert not answer.rows
    assert nearest[0]["probe"] == min(short(rows), key=lambda row: row["ttft"])["probe"]
    assert {(row["holds"], row["binding_limit"], row["rows"]) for row in nearest} == {("no", "ttft", "measured")}


def test_without_a_filter_all_that_was_imported_last_is_asked_of(measured):
    answer = asked(measured[0], "curve")
    assert answer.scope == (
        f"{MODEL} · 3500/1500 · BF16 · measured · vllm", f"{MODEL} · 7000/1500 · BF16 · measured · vllm"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "H20"}, None),  # the beginning of one name
        ({"device": "B200"}, "no measured device 'B200'"),
        ({"model": "Qwen3-32B"}, "no measured model 'Qwen3-32B'"),
        ({"quantization": "FP8"}, "no measured setting matches"),
        ({"convention": "physical"}, "measured settings have no `convention`"),
        ({"reserved_memory_gb": 3.0}, "no memory to reserve"),
        ({"throughput": "twice"}, "by no formula"),
    ],
)
def test_filters_mean_the_same_or_are_refused_by_name(measured, options, said):
    if said is None:
        assert {row["device"] for row in asked(measured[0], "curve", **options).dicts()} == {"H200_SXM"}
        return
    with pytest.raises(InputError, match=said):
        asked(measured[0], "best", **options)


@pytest.mark.parametrize(("lengths", "found"), [("3500/1500", 3500), ("3600/1480", 3500), ("7000/1500", 7000)])
def test_a_stored_workload_is_also_of_runs_near_its_lengths(measured, lengths, found):
    """A page asks by the workload of predicted rows, and clients that draw lengths count others."""
    rows = asked(measured[0], "curve", workload=f"{lengths} max-num-batched-tokens 8192").scope
    assert rows == (f"{MODEL} · {found}/1500 · BF16 · measured · vllm",)


@pytest.mark.parametrize(
    ("report", "options", "said"),
    [
        ("decode", {}, "makes no use of `rows`"),
        ("best", {"by": "goodput", "ttft_limit": 9.0}, "makes no use of `rows`"),
        ("devices", {"mode": "pd"}, "one rate of a deployment with both sides"),
        ("sensitivity", {"vary": "memory"}, "no memory to vary"),
        ("diff", {"sweeps": ("0.1", "0.9")}, "0.9 is no run's tag, version or day"),
    ],
)
def test_a_report_that_cannot_says_which_can(measured, report, options, said):
    with pytest.raises(InputError, match=said) as refused:
        asked(measured[0], report, **options)
    assert report not in {"decode"} or "best or compare or cost" in str(refused.value.hint)


def test_no_statements_over_an_export(measured):
    with Session(parse_url(measured[0])) as session:
        answer = session.ask(question_of("best", {"rows": "measured"}))
        with pytest.raises(InputError, match="of predicted rows"):
            session.shell_sql(answer)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A store of predictions under the engine, and measured points of two of its plans."""
    url = f"sqlite:///{tmp_path_factory.mktemp('both')}/store.sqlite"
    made = [
        changed(scenario(MODELS[4], WORKLOADS[0], device, precision=PRECISIONS[0], plan=plan, phase="aggregated"),
                serving_model="vllm")
        for device in DEVICES[:2] for plan in PLANS[:2]
    ]  # fmt: skip
    write_sweep(url, made, key="a", sizes=64)
    with open_store(url) as store:
        put_measurements(store, swept())
    return url


def test_both_are_the_predicted_and_the_measured_rows_in_one_ranking(both):
    told = {rows: asked(both, "best", rows=rows, input_length=PROMPT) for rows in ("predicted", "measured", "both")}
    apart = [*told["predicted"].dicts(), *told["measured"].dicts()]
    expected = [row["probe"] for row in sorted(apart, key=lambda row: -row["output_tokens_per_s_per_device"])]
    assert [row["probe"] for row in told["both"].dicts()] == expected
    assert {row["rows"] for row in told["both"].dicts()} == {"predicted", "measured"}
    assert told["both"].scope == told["predicted"].scope
    assert all((":" in row["probe"]) == (row["rows"] == "predicted") for row in told["both"].dicts())


def test_every_report_has_both_kinds_of_rows(both):
    for report, options in (
        ("curve", {}), ("pareto", {"by_device": True}), ("devices", {}), ("sensitivity", {"vary": "tpot"}), ("cost", {}),
    ):  # fmt: skip
        one = asked(both, report, rows="both", input_length=PROMPT, **options)
        counted = sum(asked(both, report, rows=rows, input_length=PROMPT, **options).probes_considered
                      for rows in ("predicted", "measured"))  # fmt: skip
        assert one.probes_considered == counted, report
        assert "rows" in one.columns


@pytest.mark.parametrize(
    "options",
    [{"rows": "measured"}, {"rows": "both"}, {"rows": "measured", "report": "diff", "sweeps": ["0.1", "0.2"]}],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_a_proof_names_the_points_that_it_read(both, tmp_path, options):
    # 4 users counts of a prompt, 2 plans, 2 versions, 2 devices, 3 runs; 12 more of pairs, which both phases have.
    path, url = tmp_path / "proof.json", f"sqlite:///{tmp_path}/copy.sqlite"
    scope = {} if "sweeps" in options else {"input_length": PROMPT}
    asked_for = {name: value for name, value in options.items() if name != "report"}
    with Session(parse_url(both)) as session:
        answer = session.ask(question_of(options.get("report", "best"), {**asked_for, **scope}))
        points = session.points()
        write_proof(answer, path, parse_url(both), session.pinned(), points=points)
    by_key = {one.key: one for one in swept()}
    assert [key for key, _ in points] == sorted(
        key for key, one in by_key.items() if "sweeps" in options or one.input_length == PROMPT
    )
    assert verify_proof(path, parse_url(both)).startswith("verified: ")
    (key, _), new = points[0], point("new", users=4, device="H100_SXM", tp=1, ttft_ms_mean=50.0)
    for change, said in (
        (
            f"UPDATE measurement SET metrics = replace(metrics, 'mean\": ', 'mean\": 1') WHERE key = '{key}'",
            "is not as the proof",
        ),
        (f"UPDATE measurement SET failed_requests = 7 WHERE key = '{key}'", "is not as the proof"),
        (f"DELETE FROM measurement WHERE key = '{key}'", f"{key[:12]} is no more"),
        (None, f"{new.key[:12]} was added since"),
    ):
        with sqlite3.connect(both.removeprefix("sqlite:///")) as store, sqlite3.connect(tmp_path / "copy.sqlite") as to:
            store.backup(to)
            if change is not None:
                to.execute(change)
        if change is None:
            with open_store(url) as store:
                put_measurements(store, [new])
        with pytest.raises(StoreError, match=said):
            verify_proof(path, parse_url(url))


def test_points_that_correct_predictions_are_not_read_where_no_prediction_is_asked_of(both):
    def unread(location, _):
        raise AssertionError(f"{location} has many points, and matching their names takes 0.2 ms each")

    with Session(parse_url(both), own_points=unread) as session:
        assert session.ask(question_of("best", {"rows": "measured"})).rows


def test_kept_settings_answer_as_the_points_do_until_any_of_these_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_settings, "_WORTH_KEEPING", 1)
    url, points = f"sqlite:///{tmp_path}/store.sqlite", swept()
    with open_store(url, create=True) as store:
        put_measurements(store, points)
    asked_at_once = asked(url, "best", rows="measured")
    folder = tmp_path / "store.sqlite.snapshots"
    assert not list(folder.glob("measured-rows*"))  # the clock of files may be too coarse to see the next change
    os.utime(tmp_path / "store.sqlite", (1e9, 1e9))  # touched now: a time of change that nobody can set
    time.sleep(1.1)
    assert asked(url, "best", rows="measured").rows == asked_at_once.rows
    (kept,) = folder.glob("measured-rows*.parquet")
    loads = []
    monkeypatch.setattr(placing, "make_base", lambda *given: loads.append(given) or relation.make_base(*given))
    assert asked(url, "best", rows="measured").rows == asked_at_once.rows
    assert not loads
    with Session(parse_url(url)) as session:
        both = [session.ask(question_of("best", {"rows": "measured", "top": top})).rows for top in (1, 2)]
        assert not loads
        kept.unlink()  # by whoever empties the folder while a session asks
        assert [session.ask(question_of("best", {"rows": "measured", "top": top})).rows for top in (1, 2)] == both
    assert len(loads) == 1
    kept.write_bytes(kept.read_bytes()[:-9])
    assert asked(url, "best", rows="measured").rows == asked_at_once.rows
    assert len(loads) == 2
    renamed = ServerNamer(lambda one: as_stated(one)._replace(device="H300"), decided_by=lambda: "another catalogue")
    with Session(parse_url(url), named=renamed) as session:
        named = session.ask(question_of("best", {"rows": "measured", "top": 1})).dicts()
    assert ({row["device"] for row in named}, len(loads)) == ({"H300"}, 3)
    best = asked_at_once.dicts()[0]["probe"]
    with sqlite3.connect(tmp_path / "store.sqlite") as store:
        store.execute("DELETE FROM measurement WHERE key LIKE ?", (f"{best}%",))
    assert best not in [row["probe"] for row in asked(url, "best", rows="measured").dicts()]


@pytest.fixture(scope="module")
def every_phase(tmp_path_factory):
    """Predictions of every phase by formulas, and measured points: (url, measured settings)."""
    url = f"sqlite:///{tmp_path_factory.mktemp('phases')}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:2]), key="a", sizes=64)
    points = swept()
    with open_store(url) as store:
        put_measurements(store, points)
    return url, list(settings_of(points))


@pytest.mark.parametrize("budget", [3, 8])
def test_compare_of_both_has_the_better_of_predicted_and_measured_deployments(every_phase, budget):
    url, rows = every_phase
    told = {kind: {row["mode"]: row for row in asked(url, "compare", rows=kind, input_length=PROMPT, num_devices=budget).dicts()}
            for kind in ("predicted", "both")}  # fmt: skip
    assert told["predicted"].keys() == told["both"].keys() == {"aggregated", "pd"}
    for mode, got in told["both"].items():
        measured = max(
            (budget // row["devices"] * row["qps"], row["probe"])
            for row in short(rows, mode=mode)
            if row["devices"] <= budget
        )
        predicted = told["predicted"][mode]["system_requests_per_s"]
        assert got["system_requests_per_s"] == pytest.approx(max(measured[0], predicted))
        assert got["rows"] == ("measured" if measured[0] > predicted else "predicted")
    assert {row["rows"] for row in told["both"].values()} == {"predicted", "measured"}
    gain = told["both"]["pd"]["system_requests_per_s"] / told["both"]["aggregated"]["system_requests_per_s"]
    assert told["both"]["pd"]["gain"] == pytest.approx(gain)
    picture = picture_of(asked(url, "compare", rows="both", input_length=PROMPT, num_devices=budget))
    assert [(row["mode"], row["rows"], row["system_requests_per_s"]) for row in picture["data"]["values"]] == [
        (mode, told["both"][mode]["rows"], told["both"][mode]["system_requests_per_s"]) for mode in ("aggregated", "pd")
    ]


def test_predicted_and_measured_settings_have_a_frontier_each(both):
    told = {rows: asked(both, "pareto", rows=rows, input_length=PROMPT) for rows in ("predicted", "measured", "both")}
    frontiers = {rows: {row["probe"] for row in answer.dicts()} for rows, answer in told.items()}
    assert frontiers["both"] == frontiers["predicted"] | frontiers["measured"]
    lines = {(row["rows"], row["frontier_of"]) for row in told["both"].dicts()}
    assert lines == {("predicted", "all devices"), ("measured", "all devices, measured")}


@pytest.mark.parametrize("report", ["curve", "pareto"])
def test_a_picture_has_measured_points_over_the_line(both, report):
    answer = asked(both, report, rows="both", input_length=PROMPT)
    picture = picture_of(answer)
    *lines, points = picture["layer"]
    assert points["mark"]["type"] == "point"
    assert points["transform"] == [{"filter": {"field": "rows", "equal": "measured"}}]
    assert "line" in str(lines[0]["mark"])
    drawn = [row for row in picture["data"]["values"] if row["rows"] == "measured"]
    assert len(drawn) == sum(row["rows"] == "measured" for row in answer.dicts()) > 0


def test_a_sweep_is_held_against_runs(both):
    predicted = {row["probe"]: row for row in asked(both, "curve", rows="predicted").dicts()}
    got = asked(both, "diff", rows="both", sweeps=("sweep a", "0.2"))
    rows = {row["probe"]: row for row in asked(both, "curve", input_length=PROMPT).dicts()}
    assert len(got.rows) == 2 * 2 * 4  # devices, plans, numbers of users
    for row in got.dicts():
        before, after = predicted[row["first_probe"]], rows[row["second_probe"]]
        assert (before["device"], before["plan"], before["concurrency"]) == (
            after["device"],
            after["plan"],
            after["concurrency"],
        )
        change = 100 * (after["output_tokens_per_s"] / before["output_tokens_per_s"] - 1)
        assert row["throughput_change_percent"] == pytest.approx(change)
        assert row["rows"] == "predicted to measured"


def test_regress_compares_runs_with_what_a_sweep_predicts(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    device, tp, model = "h100_sxm", PLANS[1][0], "acme/unlisted-8B"
    made = scenario(
        (model, *MODELS[4][1:]),
        WORKLOADS[0],
        (device, *DEVICES[0][1:]),
        precision=PRECISIONS[0],
        plan=PLANS[1],
        phase="aggregated",
    )
    write_sweep(url, [changed(made, serving_model="vllm")], key="a", sizes=64)
    predicted = {row["concurrency"]: row for row in asked(url, "curve", rows="predicted").dicts()}
    points = [
        point(f"{users}-{run}", model=model, device=device, tp=tp, users=users, version="0.21.0", ttft_ms_mean=base * run,
              output_tokens_per_s=predicted[users]["output_tokens_per_s"] * 2)
        for users in (4, 16) for base in [predicted[users]["ttft_ms"] * users] for run in (0.99, 1.0, 1.01)
    ]  # fmt: skip
    with open_store(url) as store:
        put_measurements(
            store,
            [*points, point(9, model=model, device=device, tp=tp, users=1000, version="0.21.0", ttft_ms_mean=9.0)],
        )
    found = regressions(url, baseline="sweep a", against="0.21.0")
    assert [(one.metric, one.verdict, round(one.change_percent), one.runs_before) for one in found.changes] == [
        ("ttft_ms", "worse", 1500, 0), ("ttft_ms", "worse", 300, 0),
        ("output_tokens_per_s", "better", 100, 0), ("output_tokens_per_s", "better", 100, 0),
    ]  # fmt: skip
    assert "concurrency=16" in found.changes[0].setting
    assert [name.endswith("concurrency=1000") for name in found.only_after] == [True]
    assert "sweep a is predicted: it has no interval of repeats" in found.verdict
    (other, *_) = regressions(url, baseline="0.21.0", against="sweep a").changes
    assert (other.metric, other.verdict, other.runs_after) == ("output_tokens_per_s", "worse", 0)
    with pytest.raises(InputError, match="the same sweep"):
        regressions(url, baseline="sweep a", against="a" * 32)


def test_a_session_goes_from_one_kind_of_rows_to_the_other(both):
    kinds = ("predicted", "both", "measured", "predicted", "measured", "both")
    with Session(parse_url(both)) as session:
        for rows in kinds:
            question = question_of("best", {"rows": rows, "input_length": PROMPT, "top": 1000, "tpot_limit": 20.0})
            assert (
                session.ask(question).rows == asked(both, "best", rows=rows, input_length=PROMPT, tpot_limit=20.0).rows
            )


def test_sql_has_both_kinds_in_one_view(both):
    with connect(both) as connection:
        statement = "SELECT rows, count(*), count(weight_bytes) FROM every_probe GROUP BY rows ORDER BY rows"
        measured, predicted = connection.execute(statement).fetchall()
        stored = connection.execute("SELECT count(*) FROM probe").fetchall()[0][0]
    assert measured == ("measured", len(list(settings_of(swept()))), 0)
    assert predicted == ("predicted", stored, stored)


def test_of_a_stated_rate_users_follow_from_what_was_served(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    more = {"ttft_ms_mean": 500.0, "tpot_exclusive_ms_mean": 10.0, "requests_per_s": 2.0, "e2e_ms_mean": 4000.0}
    with open_store(url, create=True) as store:
        put_measurements(store, [
            point(1, device="H100_SXM", tp=1, users=None, rate=2.0, **more),  # 2/s for 4 s: 8 in flight
            point(2, device="H100_SXM", tp=1, users=6, rate=2.5, **more),  # at most 6
            point(3, device="H100_SXM", tp=1, users=None, rate=3.0, ttft_ms_mean=9.0),  # nobody knows
        ])  # fmt: skip
    answer = asked(url, "curve")
    assert [(row["concurrency"], row["output_tokens_per_s"]) for row in answer.dicts()] == [(6, 3000.0), (8, 3000.0)]
    assert any("1 measured settings are left out" in note for note in answer.notes)


def test_lengths_that_a_client_counted_are_of_one_group(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    values = {"ttft_ms_mean": 50.0, "tpot_exclusive_ms_mean": 10.0, "output_tokens_per_s": 100.0}
    with open_store(url, create=True) as store:
        put_measurements(store, [
            point(number, device="H100_SXM", tp=1, users=number + 1, prompt=prompt, **values)
            for number, prompt in enumerate((1000, 1000, 1010.5, 989.25, 1100))
        ])  # fmt: skip
    assert [title.split(" · ")[1] for title in asked(url, "curve").scope] == ["1000/1500", "1100/1500"]
    assert len(asked(url, "curve", input_length=1000).rows) == 4
