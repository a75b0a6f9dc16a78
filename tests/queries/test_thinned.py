"""Rows that can win in place of all rows: the same answers, counts, ties and misses, whatever is asked and wherever rows lie."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import chain

import duckdb
import numpy as np
import pytest
from examples import examples
from generator import DEVICES, MODELS, PLANS, PRECISIONS, block, sweep_record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_run import point_of
from queries_stores import mission_records, read_rows
from quick import quick
from served_store import SERVED_DEVICES, rows_of, served

from queries.asking import question_of, reports
from queries.asking.library import report
from queries.asking.macros import macros, read_sql, without_comments
from queries.learning import OwnPoints
from queries.narrow.kept_rows import MEMORY
from queries.session import Session
from queries.thinned import _FORM, CAN_WIN
from store.errors import InputError
from store.location import parse_url
from store.opening import open_store
from store.parts import ShardBlock, adopt_parts, compact_parts, part_shelf, register_part, write_part
from store.placing import thinned_in_use
from store.placing.shelves import THINNED
from store.reading import read_state, read_transaction
from store.schema.probe_columns import DERIVED_COLUMNS, STEPS
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios, record_interval
from store.writing.voiding import void
from sweepdb.upkeep import thin_parts
from sweepdb.web.pool import SessionPool

SUFFICED = sorted(name for name, one in reports().items() if "winners" in one.reads and one.part_of is None)
SIZES = 24
HEALTHY = list(HealthCheck)


def bent(record, made, kind):
    """The rows of the generator as real ones can be: tied, level, falling, saturated, or beyond the memory."""
    columns = {name: None if values is None else values.copy() for name, values in made.columns.items()}
    sizes = np.asarray(made.batch_sizes)
    if kind == "tied":  # many rows have equal times, and of these some equal rates
        for name in ("ttft_ms", "tpot_inclusive_ms", "tpot_exclusive_ms", "makespan_ms"):
            if columns[name] is not None:
                columns[name] = columns[name][0] * 2.0 ** np.floor(np.log2(columns["concurrency"]))
    if kind == "level" and columns["tpot_exclusive_ms"] is not None:
        columns["tpot_exclusive_ms"] = np.full(len(sizes), columns["tpot_exclusive_ms"][0])
    if kind == "falling":
        for name in ("ttft_ms", "tpot_exclusive_ms", "tpot_inclusive_ms"):
            if columns[name] is not None:
                columns[name] = columns[name] * (1 + 0.4 * np.sin(7.0 * sizes))
    if kind == "saturated":
        for name in ("ttft_ms", "tpot_exclusive_ms", "tpot_inclusive_ms", "makespan_ms"):
            if columns[name] is not None:
                columns[name] = columns[name][0] / 3 * np.maximum(sizes, 3)
    if kind == "heavy":
        columns["kv_cache_bytes"] = sizes.astype(np.int64) * 4_000_000_000
        columns["kv_cache_mean_bytes"] = sizes.astype(np.int64) * 3_000_000_000
    if columns["e2e_ms"] is not None:
        output = record.subject.workload.output_length
        columns["e2e_ms"] = columns["ttft_ms"] + columns["tpot_exclusive_ms"] * (output - 1)
    return replace(made, columns=columns)


KINDS = ("plain", "tied", "level", "falling", "saturated", "heavy", "tied")


def kind_of(record):
    return KINDS[int(hashlib.sha256(record.key.encode()).hexdigest()[:4], 16) % len(KINDS)]


def shard(ref, record, rows, first, last):
    columns = {name: None if values is None else values[first - 1 : last] for name, values in rows.columns.items()}
    composition = rows.composition
    if composition is not None:
        batches, bins, samples = composition
        mine = (batches >= first) & (batches <= last)
        composition = batches[mine], bins[mine], samples[mine]
    made = replace(rows, batch_sizes=rows.batch_sizes[first - 1 : last], columns=columns, composition=composition)
    plan = record.subject.plan
    return ShardBlock(scenario_id=ref.id, scenario_key=ref.key, replicas=plan.dp * plan.pp, record=made)


def written(url, records, rows_of_record):
    """A store of three parts and some rows: scenarios whole in one part, divided between two, and in part rows."""
    with open_store(url, create=True) as store:
        first = begin_sweep(store, sweep_record(key="a" * 32))
        refs = put_scenarios(store, first, records)
        parts = [[], [], []]
        for number, (ref, record) in enumerate(zip(refs, records, strict=True)):
            rows = rows_of_record(record)
            cut = (SIZES, 7, 1, 12)[number % 4]
            parts[number % 3].append(shard(ref, record, rows, 1, cut))
            if cut < SIZES and number % 5:
                parts[(number + 1) % 3].append(shard(ref, record, rows, cut + 1, SIZES))
            elif cut < SIZES:
                put_block(store, first, ref.id, shard(ref, record, rows, cut + 1, SIZES).record)
        for number, blocks in enumerate(parts[:2]):
            register_part(store, first, f"{number:064d}", write_part(part_shelf(store), f"{number:064d}", blocks))
        finish_sweep(store, first, "finished")
        second = begin_sweep(store, sweep_record(key="b" * 32))
        register_part(store, second, f"{2:064d}", write_part(part_shelf(store), f"{2:064d}", parts[2]))
        finish_sweep(store, second, "finished")
        # What both asked for is asked again in part, by a sweep that cuts blocks.
        third = begin_sweep(store, sweep_record(key="c" * 32))
        for ref in refs[::2]:
            record_interval(store, third, ref.id, 2, 9)
        finish_sweep(store, third, "finished")
    return parse_url(url)


MEASURED = ("h100_sxm", *DEVICES[0][1:])  # of the shipped summary of errors: limits on it are read with a confidence


def formulas():
    return [
        record
        for precision in PRECISIONS[:2]
        for record in mission_records(
            models=(MODELS[4],), devices=(MEASURED, DEVICES[1]), plans=PLANS[:4], precision=precision
        )
        if record.status == "ok"
    ]


def engines():
    return [
        record
        for phase in ("prefill", "decode", "aggregated")
        for device in SERVED_DEVICES
        for plan in (PLANS[0], PLANS[1], PLANS[8])
        if (record := served(phase, device, plan)).status == "ok"
    ]


def copied(place, name):
    """The store once more, with its parts, which are its own."""
    to = place.path.with_name(name)
    shutil.copy(place.path, to)
    shutil.copytree(f"{place.path}.parts", f"{to}.parts")
    with closing(sqlite3.connect(to)) as connection:
        for table in ("part", "part_thinned"):
            connection.execute(
                f"UPDATE {table} SET folder = replace(folder, ?, ?)", (f"{place.path}.parts", f"{to}.parts")
            )
        connection.commit()
    location = parse_url(f"sqlite:///{to}")
    adopt_parts(location, move=True)
    return location


def shelf_of(place):
    """The folder of its parts."""
    with open_store(place.url) as store:
        return part_shelf(store)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Stores of formulas, of formulas of which a sweep is voided, and of an engine: each plain and thinned."""
    folder = tmp_path_factory.mktemp("thinned")
    found = {}
    for name, records, rows in (
        ("formulas", formulas(), lambda record: bent(record, block(record, 1, SIZES), kind_of(record))),
        ("served", engines(), lambda record: rows_of(record, SIZES)),
    ):
        plain = written(f"sqlite:///{folder}/{name}.sqlite", records, rows)
        found[name] = (plain, copied(plain, f"{name}-thin.sqlite"))
    voided = copied(found["formulas"][0], "voided.sqlite")
    with open_store(voided.url) as store:
        void(store, "b" * 32, "a test")
    found["voided"] = (voided, copied(voided, "voided-thin.sqlite"))
    for _, thinned in found.values():
        report = thin_parts(thinned)
        assert report.written == 3
        assert 0 < report.winners < report.probes
    return found


@pytest.fixture(scope="module")
def sessions(places):
    """For each store a session on every row and one on rows that can win; `taught` by runs of one of its devices."""
    opened = {name: tuple(Session(place) for place in pair) for name, pair in places.items()}
    opened["taught"] = tuple(Session(place, own_points=runs_of_one_device) for place in places["formulas"])
    yield opened
    for pair in opened.values():
        for session in pair:
            session.close()


def runs_of_one_device(place, _):
    """Three runs of a scenario, whose larger batches are ever faster than predicted: others win than as predicted."""
    rows = [row for row in read_rows(place.url) if row["phase"] == "aggregated" and row["device"] == DEVICES[1][0]]
    ladder = {row["batch_size"]: row for row in rows if row["scenario"] == rows[0]["scenario"]}
    model_key = formulas()[0].subject.model.key
    return OwnPoints(
        points=tuple(
            point_of(model_key, ladder[size], f"{size:064d}", ttft=ttft, tpot=tpot)
            for size, ttft, tpot in ((1, 1.3, 1.2), (6, 0.9, 0.8), (SIZES, 0.4, 0.5))
        )
    )


def answered(session, question):
    """Everything about an answer; a refusal as its sentence."""
    try:
        return session.ask(question)
    except InputError as error:
        return str(error)


LIMITS = {
    "tpot_limit": st.sampled_from((None, 0.001, 5.0, 9.0, 20.0, 60.0)),
    "ttft_limit": st.sampled_from((None, 40.0, 200.0, 3000.0)),
    "e2e_limit": st.sampled_from((None, None, None, 9000.0)),
    "reserved_memory_gb": st.sampled_from((0.0, 0.0, 10.0, 30.5, 60.0)),
    "confidence": st.sampled_from((None, None, None, 0.8)),
    "num_devices": st.sampled_from((None, 8, 32)),
    "preset": st.sampled_from(("sweepdb", "upstream", "seed001")),
    "kv_charge": st.sampled_from((None, None, "mean")),
    "top": st.integers(1, 6),
    "all_pairs": st.sampled_from((None, None, True)),
    "min_tokens_per_s_per_user": st.sampled_from((None, None, 30.0, 90.0)),
    "rank_by": st.sampled_from(
        (
            None,
            None,
            "qps",
            "throughput",
            "throughput-per-device",
            "ttft",
            "tpot",
            "e2e",
            "tokens-per-s-per-user",
            "batch-size",
            "concurrency",
        )
    ),
    "mode": st.sampled_from((None, "aggregated", "decode", "prefill", "pd")),
    "sweep": st.sampled_from((None, None, "a" * 32, "b" * 32, "c" * 32)),
    "all": st.booleans(),
}
_TAKES = {
    "all_pairs": {"pd-ratio", "devices"},
    "rank_by": {"best", "prefill", "decode", "devices"},
    "mode": {"devices", "sensitivity", "cost"},
    "e2e_limit": {"best", "pareto", "sensitivity", "devices", "deployments", "capacity", "compare"},
}


def drawn(data):
    """A question with options that its report takes."""
    name = data.draw(st.sampled_from(SUFFICED), label="report")
    options = {key: data.draw(values, label=key) for key, values in LIMITS.items()}
    options |= {key: None for key, takers in _TAKES.items() if name not in takers}
    options["all"] = (options["all"] and options["sweep"] is None) or None
    if options["tpot_limit"] is None and options["ttft_limit"] is None:
        options["confidence"] = None
    if name == "sensitivity":
        options["vary"] = data.draw(st.sampled_from(("ttft", "tpot", "e2e", "memory", "tpot,memory")))
    if name in {"pd-counts", "compare"}:
        options["num_devices"] = options["num_devices"] or 16
    if name in {"compare", "capacity", "deployments"}:
        options["top"] = None
    return question_of(name, {key: value for key, value in options.items() if value is not None})


def same_answers(sessions, data, memories=(0, 4)):
    """Ask of every row and of those that can win, whatever both were asked before."""
    whole, thin = sessions[data.draw(st.sampled_from(("formulas", "voided", "served", "taught")), label="store")]
    question = drawn(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MEMORY, str(data.draw(st.sampled_from(memories), label="GiB")))
        expected = answered(whole, question)
        assert answered(thin, question) == expected
        assert answered(thin, question) == expected


@settings(max_examples=examples(24), deadline=None, suppress_health_check=HEALTHY)
@given(data=st.data())
def test_rows_that_can_win_answer_as_all_rows_do(sessions, data):
    same_answers(sessions, data)


@pytest.mark.long
@settings(max_examples=examples(1500), deadline=None, suppress_health_check=HEALTHY)
@given(data=st.data())
def test_rows_that_can_win_answer_as_all_rows_do_at_length(sessions, data):
    same_answers(sessions, data)


@pytest.mark.parametrize(
    ("store", "name", "options"),
    quick(
        [
            ("formulas", "best", {"tpot_limit": 20.0, "top": 4}),
            ("served", "best", {"ttft_limit": 3000.0}),
            ("formulas", "best", {"rank_by": "ttft", "reserved_memory_gb": 0.0}),
            ("formulas", "prefill", {"ttft_limit": 200.0, "preset": "upstream"}),
            ("formulas", "pareto", {"reserved_memory_gb": 0.0}),
            ("formulas", "pd-ratio", {"num_devices": 16, "tpot_limit": 60.0}),
            ("formulas", "sensitivity", {"vary": "memory"}),
            ("formulas", "compare", {"num_devices": 16}),
            ("formulas", "best", {"tpot_limit": 60.0, "confidence": 0.8}),
            ("served", "pareto", {}),
            ("served", "pd-counts", {"num_devices": 16}),
        ],
        4,
    ),
)
def test_these_questions_read_thinned_files_and_nothing_is_missing(places, sessions, store, name, options):
    with Session(places[store][1]) as session:
        question = question_of(name, options)
        expected = sessions[store][0].ask(question)
        assert session.ask(question) == expected
        assert expected.rows
        assert session._connection.thinned
        assert any("shard-thin" in path.name for path in session._connection.files)
        assert session.ask(question) == expected  # from memory


@pytest.mark.parametrize(("name", "options"), [("best", {"tpot_limit": 20.0}), ("pareto", {})])
def test_own_runs_of_a_device_need_every_row_of_its_scenarios_alone(places, sessions, name, options):
    question = question_of(name, {**options, "all": True})
    expected = sessions["taught"][0].ask(question)
    with Session(places["formulas"][1], own_points=runs_of_one_device) as session:
        assert session.ask(question) == expected
        corrected = set(session._held.runs.learned.told)
        assert corrected
        bound = {place.scenario_id for place in bound_of(session)}
        assert bound
        assert not bound & corrected
    assert len(expected.own_runs.points) == 3


@pytest.mark.parametrize(
    ("name", "options"),
    quick(
        [
            ("curve", {}),
            ("best", {"rank_by": "batch-size"}),
            ("best", {"tpot_limit": 0.001}),  # misses are counted
            ("pd-ratio", {"all_pairs": True}),
            ("sensitivity", {"vary": "tpot,memory"}),  # limits are quantiles of all rows
        ],
        2,
    ),
)
def test_questions_that_need_every_row_read_every_row(sessions, name, options):
    plain, session = sessions["formulas"]
    session.ask(question_of("best", {"tpot_limit": 20.0, "all": True}))
    assert session._connection.thinned
    question = question_of(name, {**options, "all": True})
    assert session.ask(question) == plain.ask(question)
    assert not session._connection.thinned
    session.ask(question_of("best", {}))


def test_after_a_question_about_every_row_few_are_read_again_where_all_do_not_fit_into_memory(places, monkeypatch):
    _, thin = places["formulas"]
    for gib, again in (("0", True), ("4", False)):
        monkeypatch.setenv(MEMORY, gib)
        with Session(thin) as session:
            session.ask(question_of("curve", {}))
            session.ask(question_of("best", {"tpot_limit": 20.0}))
            assert bool(session._connection.thinned) is again


def test_blocks_that_a_sweep_or_a_void_cuts_are_read_whole(places):
    _, thin = places["formulas"]
    with Session(thin) as session:
        session.ask(question_of("best", {"sweep": "c" * 32}))
        assert all(place.last_batch_size < 2 or place.first_batch_size > 9 for place in bound_of(session))
        session.ask(question_of("best", {"sweep": "a" * 32}))
        assert any(place.first_batch_size < 9 and place.last_batch_size > 2 for place in bound_of(session))
    _, voided = places["voided"]
    with read_transaction(voided) as transaction:
        hidden = set(transaction.values(int, "SELECT id FROM block WHERE sweep_id = 2"))
    with Session(voided) as session:
        session.ask(question_of("best", {}))
        bound = {place.block_id for place in bound_of(session)}
    assert bound
    assert not bound & hidden


def bound_of(session):
    """The blocks that a session reads from thinned files."""
    return list(chain.from_iterable(session._connection.thinned._bound.values()))


def test_answers_hold_whatever_becomes_of_thinned_files(places):
    whole, place = places["formulas"][0], copied(places["formulas"][1], "lost.sqlite")
    question = question_of("best", {"tpot_limit": 20.0})
    with Session(whole) as session:
        expected = session.ask(question)
    with read_transaction(place) as transaction:
        files = [shelf_of(place).path / row.name for row in thinned_in_use(transaction)]
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-1])
    with Session(place) as session:
        assert session.ask(question) == expected
        assert sum("shard-thin" in path.name for path in session._connection.files) == 1
    with closing(sqlite3.connect(place.path)) as connection:  # written by a program of other rules
        connection.execute("UPDATE part_thinned SET rules = rules + 1")
        connection.commit()
    with Session(place) as session:
        assert session.ask(question) == expected
        assert not session._connection.thinned
    assert thin_parts(place).written == 3
    with Session(place) as session:
        assert session.ask(question) == expected
        assert session._connection.thinned


def test_compaction_forgets_thinned_files_and_writes_them_for_its_parts(places, monkeypatch):
    from store.parts import compacting

    whole, place = places["formulas"][0], copied(places["formulas"][1], "compacted.sqlite")
    question = question_of("best", {"tpot_limit": 20.0})
    compact_parts(place)
    with Session(place) as session:
        assert not session._connection.thinned
    assert thin_parts(place).written == 1
    monkeypatch.setattr(compacting, "RETIRED_KEPT_S", 0.0)
    assert compact_parts(place).files_removed == 6  # three parts, each with its thinned file
    assert thin_parts(place).written == 0
    with Session(whole) as plain, Session(place) as session:
        assert session.ask(question) == plain.ask(question)
        assert session._connection.thinned
    (part,) = shelf_of(place).named()
    files = {path.name for path in shelf_of(place).path.glob("*.parquet")}
    assert files - {part} == {name for name in files if name.startswith(THINNED)}
    assert len(files) == 2


NUMBERS = st.sampled_from((None, 1.0, 1.0, 2.0, 2.5, 3.0, 4.0, 0.0, float("inf"), float("nan")))
GROWING = st.lists(st.sampled_from((0.0, 0.0, 0.25, 1.0)), min_size=9, max_size=9)
_COLUMNS = ("ttft_ms", "tpot_inclusive_ms", "tpot_exclusive_ms", "e2e_ms", "first", "second", "rate", "twice")


@st.composite
def blocks(draw):
    """The rows of one block: each column grows mostly, or is anything."""
    count = draw(st.integers(1, 9))
    rows = {}
    for name in _COLUMNS:
        if draw(st.integers(0, 5)):
            rows[name] = (1.0 + np.cumsum(draw(GROWING))[:count]).tolist()
        else:
            rows[name] = draw(st.lists(NUMBERS, min_size=count, max_size=count))
    held = st.lists(st.integers(0, 8), min_size=count, max_size=count)
    rows["kv_cache_bytes"] = sorted(draw(held)) if draw(st.integers(0, 3)) else draw(held)
    rows["kv_cache_mean_bytes"] = (
        draw(held) if not draw(st.integers(0, 2)) else [n // 2 for n in rows["kv_cache_bytes"]]
    )
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]


@pytest.fixture(scope="module")
def engine():
    """A DuckDB with the macros that tell which rows can win."""
    with duckdb.connect() as connection:
        for name in ("mean_length", "is_formula", "by_engine"):
            connection.execute(macros()[name].sql)
        yield connection


def winners(connection, phase, rows):
    """Batch sizes that `can_win` keeps of one block."""
    named = {
        "prefill": (*NAMED["prefill"], None),
        "decode": (*NAMED["decode"], None),
        "aggregated": ("requests_per_s", None, "output_tokens_per_s", "output_tokens_per_s_twice"),
    }[phase]
    doubles = {*chain.from_iterable(NAMED.values()), *_COLUMNS[:4], "tokens_per_s_per_user"}
    columns = dict.fromkeys(sorted(doubles), "DOUBLE") | dict.fromkeys(
        ("batch_size", "block_id", "scenario_id", "weight_bytes", "activation_bytes", "kv_cache_bytes",
         "kv_cache_mean_bytes", "device_memory_bytes", "output_length", "formula_version"), "BIGINT"
    ) | {"phase": "VARCHAR", "serving_model": "VARCHAR", "shortest_length": "DOUBLE"}  # fmt: skip
    connection.execute(f"CREATE OR REPLACE TABLE probe ({', '.join(f'{k} {v}' for k, v in columns.items())})")
    for size, row in enumerate(rows, start=1):
        given = dict.fromkeys(columns) | {name: row[name] for name in _COLUMNS[:4]}
        given |= {name: row[key] for name, key in zip(named, _COLUMNS[4:], strict=True) if name is not None}
        given |= {
            "batch_size": size, "block_id": 1, "scenario_id": 1, "phase": phase, "serving_model": "waves",
            "formula_version": 2, "weight_bytes": 0, "activation_bytes": 0, "device_memory_bytes": 6,
            "kv_cache_bytes": row["kv_cache_bytes"], "kv_cache_mean_bytes": row["kv_cache_mean_bytes"],
            "tokens_per_s_per_user": user_rate(row, phase),
        }  # fmt: skip
        connection.execute(f"INSERT INTO probe VALUES ({', '.join('?' * len(columns))})", [given[k] for k in columns])
    connection.execute("CREATE OR REPLACE TEMP VIEW contending AS SELECT *, block_id AS lot FROM probe")
    connection.execute(read_sql(CAN_WIN))
    return {size for (size,) in connection.execute("SELECT batch_size FROM can_win").fetchall()}


NAMED = {
    "prefill": ("prefill_capacity_requests_per_s", "prefill_ttft_requests_per_s", "input_tokens_per_s"),
    "decode": ("decode_minus_one_requests_per_s", "decode_full_requests_per_s", "output_tokens_per_s"),
    "aggregated": ("requests_per_s", "output_tokens_per_s", "output_tokens_per_s_twice"),
}


def user_rate(row, phase):
    tpot = row["tpot_exclusive_ms"]
    return None if phase == "prefill" or not tpot else 1000.0 / tpot


def at_most(value, limit):
    return value is not None and value <= limit  # of NaN nothing is


def can_be_picked(rows, phase):
    """Batch sizes that some question picks, or that stand on some frontier: every limit that could matter is tried."""
    qps_rules = {"prefill": ("first", "second"), "decode": ("first", "second"), "aggregated": ("first",)}[phase]
    rate_rules = ("rate", "twice") if phase == "aggregated" else ("rate",)
    limited = {"prefill": ("ttft_ms",), "decode": ("tpot_inclusive_ms", "tpot_exclusive_ms"),
               "aggregated": _COLUMNS[:4]}[phase]  # fmt: skip
    latency = {"prefill": "ttft_ms", "decode": "tpot_exclusive_ms", "aggregated": "e2e_ms"}[phase]
    found = set()
    for charge in ("kv_cache_bytes", "kv_cache_mean_bytes"):
        for qps in qps_rules:
            bars = [[(None, None)], *([(name, row[name]) for row in rows if row[name] is not None] for name in limited)]
            bars.append([(charge, row[charge]) for row in rows])
            for name, limit in chain.from_iterable(bars):
                admitted = [
                    (size, row)
                    for size, row in enumerate(rows, start=1)
                    if row[charge] <= 6 and row[qps] is not None and row[qps] > 0
                    and (name is None or at_most(row[name], limit))
                ]  # fmt: skip
                for measure in (qps, *rate_rules):
                    ranked = [
                        (-row[measure], row[latency] if row[latency] is not None else float("inf"), size)
                        for size, row in admitted
                        if row[measure] is not None and not np.isnan(row[measure])
                    ]
                    if ranked:
                        found.add(min(ranked)[2])
    return found


@settings(max_examples=examples(300), deadline=None, suppress_health_check=HEALTHY)
@given(phase=st.sampled_from(("prefill", "decode", "aggregated")), rows=blocks())
def test_no_row_is_left_out_that_any_limit_makes_the_best(engine, phase, rows):
    kept = winners(engine, phase, rows)
    assert can_be_picked(rows, phase) <= kept
    if phase != "prefill":
        points = [
            (size, user_rate(row, phase), row[measure])
            for measure in (("rate", "twice") if phase == "aggregated" else ("rate", "first"))
            for size, row in enumerate(rows, start=1)
            if min(row["kv_cache_bytes"], row["kv_cache_mean_bytes"]) <= 6
            and row["first"] is not None and row["first"] > 0 and user_rate(row, phase) and row[measure] is not None
            and np.isfinite(row[measure])
        ]  # fmt: skip
        for size, speed, measure in points:
            if not any(s >= speed and ((s > speed and m >= measure) or m > measure) for _, s, m in points):
                assert size in kept


def test_a_block_that_never_gets_better_keeps_few_rows(engine):
    rows = [
        {**{name: float(size) for name in _COLUMNS[:4]}, "first": min(size, 3.0), "second": None,
         "rate": min(size, 3.0), "twice": 1.0, "kv_cache_bytes": size // 3, "kv_cache_mean_bytes": size // 4}
        for size in range(1, 31)
    ]  # fmt: skip
    assert winners(engine, "aggregated", rows) == {1, 2, 3}
    rows[20]["ttft_ms"] = 2.0  # better than smaller ones
    assert winners(engine, "aggregated", rows) == {1, 2, 3, 21}


def test_a_rate_of_a_row_that_no_limit_admits_hides_none_behind_it(engine):
    rows = [
        {**dict.fromkeys(_COLUMNS[:4], float(size)), "first": qps, "second": qps, "rate": rate, "twice": None,
         "kv_cache_bytes": 1, "kv_cache_mean_bytes": 1}
        for size, (qps, rate) in enumerate(((1.0, 1.0), (0.0, 5.0), (1.0, 3.0)), start=1)
    ]  # fmt: skip
    assert winners(engine, "decode", rows) == {1, 2, 3}


# What rows can win follows from these texts. If one of them changes so that another row can, raise _FORM (queries/thinned.py), so
# that thinned files of before are not read; then write the new digest here.
JUDGING = "075e"


def test_rules_are_of_the_macros_that_judge():
    texts = [read_sql(CAN_WIN), *STEPS.values()]
    texts += [column.source for column in DERIVED_COLUMNS if column.name != "plan"]
    texts += [macros()[name].sql for name in ("judged_rows", "judged", "admitted", "picked", "keeps_limits", "tpot_by", "mean_length", "is_formula",
                                              "by_engine",
                                              "ruled_tpot", "needed")]  # fmt: skip
    said = " ".join(" ".join(map(without_comments, texts)).split())
    assert (_FORM, hashlib.sha256(said.encode()).hexdigest()[:4]) == (3, JUDGING)


def test_reports_that_count_or_list_rows_do_not_say_that_few_suffice():
    for name in ("curve", "nearest", "sensitivity-grid", "why", "diff", "coverage", "by-length"):
        assert "winners" not in report(name).reads


def test_a_server_tells_the_moment_of_a_question_that_wanted_every_row(places):
    place = copied(places["formulas"][1], "moved.sqlite")
    pool = SessionPool(place)
    few, every = question_of("best", {"all": True}), question_of("curve", {"all": True})

    async def asking():
        first = await pool.ask(few)
        again = await pool.ask(few, first.state)
        with open_store(place.url) as store:
            void(store, "b" * 32, "a test")
        held = await pool.ask(few, first.state)
        moved = await pool.ask(every, first.state)
        return first, again, held, moved, await pool.ask(few, moved.state)

    first, again, held, moved, after = asyncio.run(asking())
    pool.close()
    assert again.state == held.state == first.state
    assert held.answer.rows == first.answer.rows
    assert moved.state == after.state == read_state(place) != first.state
    with Session(place) as session:
        assert after.answer.rows == session.ask(few).rows
        assert moved.answer.rows == session.ask(every).rows
