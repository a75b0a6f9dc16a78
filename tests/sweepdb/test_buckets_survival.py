"""Sweeps whose parts go to an S3 bucket, whose server goes away and comes back: nothing twice, nothing half."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from working_cases import ALONE, request_of, rows

from store.errors import EvaluationError, StoreError
from store.parts import compact_parts
from store.placing import made_root
from store.upkeep import check_store
from sweepdb.working import parse_workers, run_on_workers
from sweepdb.working.process_engine import InlineEngine
from sweepdb.working.tasks import run_shard

s3fs = pytest.importorskip("s3fs")
moto = pytest.importorskip("moto.server")
pytestmark = [pytest.mark.survival, pytest.mark.filterwarnings("ignore")]


@dataclass
class Bucket:
    """A server of buckets that can be stopped; what it holds is kept meanwhile."""

    server: object = None
    port: int = 0

    def start(self):
        self.server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.server.start()
        _, self.port = self.server.get_host_and_port()

    def stop(self):
        if self.server is not None:
            self.server.stop()
        self.server = None


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    served = Bucket()
    served.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{served.port}",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "SWEEPDB_PARTS": f"s3://sweeps-{tmp_path.name.replace('_', '-')[-40:].strip('-').lower()}/all",
        "SWEEPDB_SHARD_PROBES": "20",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)  # it waits longer each time
    s3fs.S3FileSystem.clear_instance_cache()  # which remembers the port of the test before
    shelf = made_root(None)
    shelf._files.mkdir(shelf._root.partition("/")[0])
    yield served
    served.stop()


@pytest.mark.parametrize("workers", ["processes:2", "shard:1/1"])
def test_a_sweep_into_a_bucket_stores_what_one_process_stores(store, bucket, expected, workers):
    report = run_on_workers(store, request_of(), parse_workers(workers))
    assert (report.probes_stored, report.failures) == (108, ())
    assert rows(store.url) == expected
    assert compact_parts(store.location).parts == 1
    assert rows(store.url) == expected
    found = check_store(store.location)
    assert (found.faults, found.orphans) == ((), ())


def test_a_bucket_that_comes_back_has_lost_nothing(store, bucket, expected):
    """It goes during the second shard, and returns before that is tried again."""
    seen = []

    def interrupted(task):
        seen.append(task.attempt)
        if len(seen) == 2:
            bucket.stop()
        try:
            return run_shard(task)
        finally:
            if len(seen) == 2:
                bucket.start()

    report = run_on_workers(store, request_of(), ALONE, engine=InlineEngine(interrupted))
    assert report.probes_stored == 108
    assert sorted(seen) == [1, 1, 1, 1, 1, 2]
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()


def test_a_bucket_that_stays_away_is_named_and_the_same_command_adds_what_is_missing(store, bucket, expected):
    seen = []

    def interrupted(task):
        seen.append(task.key)
        if len(seen) == 3:
            bucket.stop()
        return run_shard(task)

    with pytest.raises(EvaluationError, match=r"3 shards of sweep .* failed 3 times.*does not answer"):
        run_on_workers(store, request_of(), ALONE, engine=InlineEngine(interrupted))
    with pytest.raises(StoreError, match="does not answer"):
        rows(store.url)
    assert any("does not answer" in fault for fault in check_store(store.location).faults)
    bucket.start()
    before = rows(store.url)
    assert 0 < len(before) < len(expected)
    assert set(before) < set(expected)
    report = run_on_workers(store, request_of(), ALONE)
    assert report.probes_stored + len(before) == 108
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()
