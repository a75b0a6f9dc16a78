"""Sweeps on workers store what a sweep in one process stores, however they are cut and whoever fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import worker_faults
import yaml
from hypothesis import given
from hypothesis import strategies as st
from poison import poisoned_where
from quick import quick
from typer.testing import CliRunner
from working_cases import ALONE, ROWS, request_of, rows, shard_states

import sweepdb
from cli.main import build_app
from evaluator.shards import cut_shards, shard_probes
from evaluator.sweep import run_sweep
from queries.connect import connect
from store.errors import EvaluationError, InputError, StoreError
from store.opening import open_store
from store.sweep_list import list_sweeps
from store.upkeep import check_store
from sweepdb.working import parse_workers, run_on_workers
from sweepdb.working.process_engine import IMPORTED_ONCE, InlineEngine, ProcessEngine
from sweepdb.working.tasks import EngineLostError, Workers, run_shard


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    monkeypatch.setenv("SWEEPDB_SHARD_PROBES", "20")


def test_workers_store_what_one_process_stores_and_nothing_twice(store, expected):
    said = []
    report = run_on_workers(store, request_of(), ALONE, on_progress=said.append)
    assert (report.scenarios, report.probes_stored, report.probes_known) == (18, 108, 0)
    assert report.operators_captured == 6
    assert rows(store.url) == expected
    assert (said[-1].scenarios_done, said[-1].scenarios, said[-1].probes_stored) == (18, 18, 108)
    counts = shard_states(store)
    assert counts == {"stored": 5}  # 24, 24, 24, 24 and 12 probes
    again = run_on_workers(store, request_of(), ALONE)
    assert (again.probes_stored, again.probes_known, again.operators_captured) == (0, 108, 0)
    wider = run_on_workers(store, request_of(batch_range=(1, 8)), ALONE)
    assert (wider.probes_stored, wider.probes_known) == (36, 108)
    assert check_store(store.location).faults == ()


@pytest.mark.parametrize("shares", [1, 3, 9])
def test_the_shares_of_an_array_add_up_and_a_last_run_stores_nothing(tmp_path, expected, shares):
    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        stored = [
            run_on_workers(store, request_of(), Workers(kind="share", share=number, count=shares)).probes_stored
            for number in reversed(range(shares))
        ]
        assert sum(stored) == 108
        assert len([probes for probes in stored if probes]) == min(shares, 5)
        assert rows(store.url) == expected
        whole = run_sweep(store, request_of())  # the whole as one sweep
        assert (whole.scenarios, whole.probes_stored, whole.probes_known) == (18, 0, 108)


def test_rows_of_before_are_known_and_the_rest_lies_in_parts(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/rows.sqlite", create=True) as other:
        run_sweep(other, request_of(batch_range=(2, 4)))
        run_sweep(other, request_of())
        expected = rows(other.url)
    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        run_sweep(store, request_of(batch_range=(2, 4)))
        report = run_on_workers(store, request_of(), ALONE)
        assert (report.probes_stored, report.probes_known) == (54, 54)
        assert rows(store.url) == expected
        assert check_store(store.location).faults == ()


def test_a_poisoned_scenario_is_a_row_with_its_reason_and_the_shard_goes_on(store):
    with poisoned_where(lambda scenario: scenario.plan.tp == 2):
        report = run_on_workers(store, request_of(), ALONE)
    (failure,) = report.failures
    assert (failure.status, failure.reason, failure.scenarios) == ("error", "ZeroDivisionError: a figure of zero", 6)
    assert report.probes_stored == 72
    assert run_on_workers(store, request_of(), ALONE).probes_stored == 36
    assert check_store(store.location).faults == ()


def parts_of(store):
    with connect(store.url) as connection:
        connection.execute(ROWS)
        return connection.files


FULL = StoreError("No space left on device.")


class Flaky(InlineEngine):
    """Fails shards so many times each, for such a reason, before or after they have been registered."""

    def __init__(self, times, *, after=False, error=FULL):
        super().__init__(self._work)
        self.times, self.after, self.error = times, after, error

    def _work(self, task):
        if task.attempt > self.times:
            return run_shard(task)
        if self.after:
            run_shard(task)
        raise self.error


@pytest.mark.parametrize("after", quick([True, False]))
def test_what_fails_twice_is_stored_once(store, expected, after):
    report = run_on_workers(store, request_of(), ALONE, engine=Flaky(2, after=after))
    assert report.probes_stored + report.probes_known == 108
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()


def test_what_fails_three_times_is_named_and_the_rest_is_stored(tmp_path, expected):
    class Poisoned(Flaky):
        def _work(self, task):
            if task.items[0].scenario.phase == "prefill":
                return super()._work(task)
            return run_shard(task)

    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        with pytest.raises(EvaluationError, match=r"failed 3 times, .* first: No space left on device") as caught:
            run_on_workers(store, request_of(), ALONE, engine=Poisoned(9))
        assert "same command again" in caught.value.hint
        assert 0 < len(rows(store.url)) < len(expected)
        counts = shard_states(store)
        assert counts["failed"] > 0
        (summary,) = list_sweeps(store.location)
        assert (
            summary.status_told == f"failed, {counts['stored']} of {counts['stored'] + counts['failed']} shards stored"
        )
        assert summary.shard_failed == "No space left on device."
        shown = CliRunner().invoke(build_app(), ["show", summary.key, "--store", store.url])
        assert "a shard was given up: No space left on device." in shown.output
        assert summary.status_told in shown.output
        run_on_workers(store, request_of(), ALONE)
        assert rows(store.url) == expected
        assert check_store(store.location).faults == ()


@pytest.mark.parametrize(("error", "raised"), [(EngineLostError("gone"), EvaluationError), (KeyboardInterrupt, None)])
def test_what_was_committed_is_kept_when_the_engine_or_its_user_goes(tmp_path, expected, error, raised):
    class Ending(InlineEngine):
        def results(self):
            if self.done == 2:
                raise error
            self.done += 1
            yield from super().results()

        done = 0

    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        if raised is None:
            assert run_on_workers(store, request_of(), ALONE, engine=Ending()).interrupted
        else:
            with pytest.raises(raised, match="was interrupted: gone"):
                run_on_workers(store, request_of(), ALONE, engine=Ending())
        with store.reading() as connection:
            assert connection.exec_driver_sql("SELECT status FROM sweep").scalar_one() == "interrupted"
        assert len(rows(store.url)) == 48
        assert run_on_workers(store, request_of(), ALONE).probes_stored == 60
        assert rows(store.url) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="workers are Pythons of their own there")
def test_a_worker_finds_what_it_needs_imported_and_has_the_variables_of_now(store, monkeypatch):
    tasks = []
    run_on_workers(store, request_of(), ALONE, engine=InlineEngine(lambda task: tasks.append(task) or run_shard(task)))
    for value in ("first", "second"):  # the second pool is copied of what the first one started
        monkeypatch.setenv("SWEEPDB_TRIED", value)
        engine = ProcessEngine(1, worker_faults.surroundings)
        engine.submit(tasks[0])
        ((_, (tried, before, imported)),) = engine.results()
        engine.cancel()
        assert tried == value
        assert set(IMPORTED_ONCE) <= before
        assert imported == set()


@given(lengths=st.lists(st.integers(0, 30), max_size=40), probes=st.integers(1, 100))
def test_shards_hold_every_scenario_once_and_depend_on_nothing_else(lengths, probes):
    class Item:
        def __init__(self, number, length):
            self.key, self.interval = f"{number}", (1, length) if length else None

    items = [Item(number, length) for number, length in enumerate(lengths)]
    cuts = list(cut_shards(items, probes))
    assert [item for cut in cuts for item in cut.items] == items
    assert [cut.number for cut in cuts] == list(range(len(cuts)))
    assert all(cut.probes >= probes for cut in cuts[:-1])
    assert all(cut.probes - (cut.items[-1].interval or (1, 0))[1] < probes for cut in cuts)
    assert [cut.key for cut in cut_shards(items, probes)] == [cut.key for cut in cuts]
    assert len({cut.key for cut in cuts}) == len(cuts)


@pytest.mark.parametrize("text", ["", "dask", "dask:0", "dask://host", "shard:0/4", "shard:5/4", "processes:-1", "4"])
def test_a_word_that_names_no_workers_is_refused(text):
    with pytest.raises(InputError, match="`workers` must be dask://HOST:PORT"):
        parse_workers(text)


def test_words_that_name_workers():
    assert parse_workers("dask://node-1:8786") == Workers(kind="scheduler", address="tcp://node-1:8786")
    assert parse_workers("dask:3") == Workers(kind="dask", count=3)
    assert parse_workers("processes:2") == Workers(kind="processes", count=2)
    assert parse_workers("shard:8/8") == Workers(kind="share", share=7, count=8)


def test_a_size_of_shards_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("SWEEPDB_SHARD_PROBES", "many")
    with pytest.raises(InputError, match="SWEEPDB_SHARD_PROBES is 'many'"):
        shard_probes()


def test_the_manifests_of_the_how_to_are_valid():
    validate = pytest.importorskip("kubernetes_validate")
    page = Path(__file__).parents[2] / "docs" / "howto" / "install-and-operate.md"
    documents = list(yaml.safe_load_all(page.read_text().split("```yaml\n")[1].split("```")[0]))
    assert [one["kind"] for one in documents] == ["Service", "Deployment", "Deployment", "Job"]
    for one in documents:
        validate.validate(one, "1.30", strict=True)
    documents[3]["spec"]["backOffLimit"] = 6
    with pytest.raises(validate.ValidationError):
        validate.validate(documents[3], "1.30", strict=True)


def test_workers_from_python(tmp_path):
    asked = {"device": "TEST_DEVICE", "input_length": 100, "output_length": 20, "num_devices": 1, "batch_range": (1, 4)}
    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as made:
        url = made.url
    with sweepdb.open(url) as store:
        done = store.evaluate("Qwen/Qwen3-8B", workers="shard:1/1", **asked)
        assert done.probes_stored > 0
        assert store.evaluate("Qwen/Qwen3-8B", **asked).probes_known == done.probes_stored
