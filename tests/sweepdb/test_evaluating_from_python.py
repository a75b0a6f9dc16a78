"""`sweepdb.evaluate` and its siblings: keywords of the command, typed reports, and not a word printed."""

from __future__ import annotations

import inspect
import itertools

import pytest

import sweepdb
from queries.asking import question_of
from store.errors import InputError
from sweepdb.evaluating.option_values import options_by_keyword, options_of
from sweepdb.planning.planning_options import asked_of
from sweepdb.web.asked import question_of_parameters

EXAMPLE = {"device": "TEST_DEVICE", "num_devices": 8, "input_length": 350, "output_length": 150, "batch_range": 4,
           "mode": "decode", "tp_sizes": 8}  # fmt: skip
MODEL = "Qwen/Qwen3-0.6B"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store that the function itself filled."""
    url = f"sqlite:///{tmp_path_factory.mktemp('evaluated')}/store.sqlite"
    sweepdb.evaluate(MODEL, **EXAMPLE, store=url)
    return url


def test_evaluating_reports_and_prints_nothing(sqlite_url, capsys):
    seen = []
    done = sweepdb.evaluate(MODEL, **EXAMPLE, store=sqlite_url, label="mine", progress=seen.append)
    assert (done.scenarios, done.probes_stored, done.probes_known, done.failures) == (1, 4, 0, ())
    assert done.notes == (
        "assumed: TEST_DEVICE served by formulas (waves), BF16 weights as published, every legal plan",
    )
    assert repr(done) == f"<Evaluation {done.sweep}: 1 scenario, 4 probes stored, 0 already there>"
    assert (seen[-1].scenarios_done, seen[-1].probes_stored) == (1, 4)
    with sweepdb.open(sqlite_url) as store:
        assert store.sweeps()[0].label == "mine"
        assert len(store.decode()) == 1
        again = store.evaluate(MODEL, **{**EXAMPLE, "batch_range": (2, 6)})
        assert (again.probes_stored, again.probes_known) == (2, 3)
        assert store.curve().dicts()[-1]["batch_size"] == 6
    assert capsys.readouterr() == ("", "")


def test_progress_is_said_on_stderr_when_asked_for(sqlite_url, capsys):
    sweepdb.evaluate(MODEL, **EXAMPLE, store=sqlite_url, progress=True)
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.splitlines()[0].startswith("assumed: ")
    assert said.splitlines()[-1] == "1/1 scenarios, 4 probes stored"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": 3}, "`device` must be a name or a list of names, not 3"),
        ({"num_devices": "8"}, "`num_devices` must be a whole number or a list of them, not '8'"),
        ({"output_length": [7]}, r"`output_length` must be a number, not \[7\]"),
        ({"input_length": 3.5}, "`input_length` must be a whole number or the file of a distribution, not 3.5"),
        ({"compile": "yes"}, "`compile` must be true or false, not 'yes'"),
        ({"batch_range": (1, 2, 3)}, "`batch_range` must be the largest batch size"),
        ({"convention": "usual"}, "`convention` usual is not one of physical, upstream"),
        ({"mode": "prefil"}, "`mode` prefil is not one of prefill, decode, aggregated"),
        ({"engine": "vllm", "serving_model": "vllm"}, "`engine` and `serving_model` are one option: give one of them"),
        ({"eager": "yes"}, "`compile` must be true or false, not 'yes'"),
        ({"devise": "a"}, "unknown option 'devise' of evaluate\nnearest: device"),
        ({"total_devices": 4}, "give `num_devices` or `total_devices`, not both"),
        ({"jobs": 0}, "`jobs` must be at least 1, not 0"),
        ({"jobs": "2"}, "`jobs` must be a whole number, not '2'"),
        ({"input_length": None}, "`input_length` is missing"),
        ({"store": 3}, "`store` is an address or a path, not 3"),
        ({"sweep": 3}, "`sweep` must be the path of a YAML file, not 3"),
        ({"label": 3}, "`label` must be a text, not 3"),
        ({"workers": 3}, "`workers` must be such as dask:4, not 3"),
        ({"workers": "3"}, "`workers` must be dask://HOST:PORT, dask:N, processes:N or shard:I/M, not '3'"),
        ({"progress": "yes"}, "`progress` must be True, False or a function, not 'yes'"),
    ],
)
def test_a_bad_argument_is_named_by_its_keyword(sqlite_url, options, message):
    with pytest.raises(InputError, match=message):
        sweepdb.evaluate(MODEL, **{**EXAMPLE, "store": sqlite_url, **options})


def test_a_model_that_fits_nowhere_is_an_error(sqlite_url):
    with pytest.raises(InputError, match=r"does not fit the device memory.*\n.*`num_devices`"):
        sweepdb.evaluate("deepseek-ai/DeepSeek-V3", **{**EXAMPLE, "num_devices": 1, "tp_sizes": 1}, store=sqlite_url)


def test_the_signature_is_what_is_declared():
    parameters = inspect.signature(sweepdb.evaluate).parameters
    assert set(options_by_keyword()) <= set(parameters)
    assert set(parameters) - set(options_by_keyword()) == {
        "from_deployment",
        "sweep",
        "store",
        "label",
        "workers",
        "jobs",
        "progress",
        "engine",
        "eager",
    }
    bound = inspect.signature(sweepdb.OpenStore.evaluate).parameters
    assert set(parameters) - set(bound) == {"store"}
    assert "\n\nKeywords:\n    device: device names" in inspect.getdoc(sweepdb.OpenStore.evaluate)
    for item in options_by_keyword().values():
        assert item.option.help in inspect.getdoc(sweepdb.evaluate) or item.keyword == "model"


def test_keywords_read_as_the_command_line_does():
    told = options_of({"model": "a,b,a", "device": ["x", "y"], "num_devices": 4, "quantization": "FP8",
                       "batch_range": 9, "input_length": 100, "compile": False, "family": None})  # fmt: skip
    assert (told.models, told.devices, told.num_devices, told.linear) == (("a", "b"), ("x", "y"), (4,), ("FP8",))
    assert (told.batch_range, told.input_length, told.compile, told.family) == ((1, 9), "100", False, "auto")


def test_keywords_are_spelled_as_on_the_command_line():
    told = options_of({"engine": ["vllm", "sglang"], "eager": True})
    assert (told.serving_models, told.compile) == (("vllm", "sglang"), False)
    planned = asked_of("m", {"engine": "vllm", "eager": True, "total_devices": 8}).evaluated
    assert (planned.serving_models, planned.compile) == (("vllm",), False)
    assert question_of("best", {"engine": "vllm", "eager": True}) == question_of(
        "best", {"serving_model": "vllm", "compile": False}
    )
    for eager in (True, False):  # a text of an address: "false" is no True
        of_address = question_of_parameters("best", [("engine", "vllm"), ("eager", f"{eager}")])
        assert of_address == question_of("best", {"engine": "vllm", "eager": eager})


def test_lengths_come_from_a_file(tmp_path, sqlite_url):
    lengths = tmp_path / "lengths.yaml"
    lengths.write_text(
        "bins: [{min_tokens: 0, max_tokens: 100, weight: 1}, {min_tokens: 100, max_tokens: 300, weight: 1}]"
    )
    sweepdb.evaluate(MODEL, **{**EXAMPLE, "input_length": lengths, "output_length": 10}, store=sqlite_url)
    sweepdb.evaluate(MODEL, **EXAMPLE, store=sqlite_url)
    with sweepdb.open(sqlite_url) as store:
        (asked,) = store.decode(input_length=lengths).dicts()
        assert (asked["input_length"], asked["input_length_mean"]) == (None, 125.0)  # bins of 50 and 200 tokens
        assert store.decode(input_length=350).dicts()[0]["input_length_mean"] == 350
        with pytest.raises(InputError, match="`input_length` is a whole number, not '350'"):
            store.decode(input_length="350")
        with pytest.raises(InputError, match=r"`input_length=gone.yaml`: not a whole number, and no such file"):
            store.decode(input_length="gone.yaml", workload="mine")


def test_a_title_names_the_model_that_is_asked_for(sqlite_url):
    """Both are one shape, which a store holds once: the newest request, its sweep or the filter says which is meant."""
    narrow, wide = "Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B"
    first = sweepdb.evaluate(narrow, **EXAMPLE, store=sqlite_url, quantization="BF16")
    second = sweepdb.evaluate(wide, **EXAMPLE, store=sqlite_url, quantization="BF16")
    assert (second.probes_stored, second.probes_known) == (0, 4)
    with sweepdb.open(sqlite_url) as store:
        for asked, named in (
            ({}, wide), ({"sweep": first.sweep}, narrow), ({"sweep": second.sweep}, wide), ({"model": narrow}, narrow),
            ({"model": "qwen3-32b"}, wide), ({"all": True}, narrow),
        ):  # fmt: skip
            assert store.decode(**asked).scope == (f"{named} · 350/150 · BF16",), asked


def test_a_step_is_explained(url):
    with sweepdb.open(url) as store:
        probe = store.decode().dicts()[0]["probe"]
        (step,) = store.explain(probe).steps
        assert step.summed_ms == pytest.approx(step.stored_ms)
        with pytest.raises(InputError, match="`step=both` is not one of encode, prefill, decode"):
            store.explain(probe, step="both")
        with pytest.raises(InputError, match="the two probes are the same"):
            store.explain(probe, probe)
        with pytest.raises(InputError, match="`other` must be a reference such as a1b2c3d4:175, not 3"):
            store.explain(probe, 3)


def test_rows_are_carried_to_another_store(url, tmp_path):
    out = sweepdb.export_bundle(tmp_path / "bundle", store=url)
    other = f"sqlite:///{tmp_path}/other.sqlite"
    brought = sweepdb.import_bundle(tmp_path / "bundle", store=other)
    assert (out.sweeps, out.probes) == (brought.sweeps, brought.probes) == (1, 4)
    with sweepdb.open(other) as store:
        assert len(store.coverage()) == 1
    with pytest.raises(InputError, match="`format=json` is not one of parquet, csv"):
        sweepdb.export_bundle(tmp_path / "again", format="json", store=url)


def test_measured_points_are_compared(tmp_path, sqlite_url, capsys):
    file = tmp_path / "points.csv"
    file.write_text(
        "model,device,engine,precision,mode,num_devices,tp,concurrency,input_length,output_length,ttft_ms_mean,"
        "tpot_exclusive_ms_mean\n"
        "Qwen/Qwen3-8B,h100_sxm,vllm,bf16,aggregated,1,1,16,1024,128,95,8.5\n"
        "Qwen/Qwen3-8B,h100_sxm,vllm,bf16,aggregated,1,1,32,1024,many,95,8.5\n"
    )
    done = sweepdb.validate(file, store=sqlite_url)
    assert isinstance(done, sweepdb.Validation)
    assert done.figures_of("tpot").rows == 1
    assert done.excluded[0].rule == "line could not be read"
    assert capsys.readouterr() == ("", "")
    with pytest.raises(InputError, match="`measurements` must be a file or a list of files, not 3"):
        sweepdb.validate(3, store=sqlite_url)
    with pytest.raises(InputError, match="`engine` must be a text, not 3"):
        sweepdb.validate(file, engine=3, store=sqlite_url)


def test_a_device_is_fitted_to_measured_kernels(tmp_path, sqlite_url, capsys):
    table = tmp_path / "gemm.csv"
    sizes = itertools.product((1, 64, 1024, 8192), (1024, 4096), (1024, 4096))
    rows = [(m, n, k, 1e6 * (3e-6 + 2 * m * n * k / 1e14 + 2 * n * k / 1e12)) for m, n, k in sizes]
    table.write_text("\n".join(["m,n,k,dtype,latency_us", *(f"{m},{n},{k},bfloat16,{us}" for m, n, k, us in rows)]))
    kept = sweepdb.calibrate("a100_sxm", table, profile=tmp_path / "mine.yaml", store=sqlite_url)
    assert (kept.version, kept.output, kept.fit.profile.family) == (1, tmp_path / "mine.yaml", "calibrated")
    assert kept.output.exists()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernels": "k.csv"}, "`kernels` needs the device"),
        ({}, r"calibrate needs `kernels=DIR_OR_FILE` or `measure=cpu\|cuda`"),
        ({"measure": "tpu"}, "`measure` tpu is not one of cpu, cuda"),
        ({"measure": "cpu", "budget": "60"}, "`budget` must lie between 1 and 86400 seconds, not '60'"),
        ({"device": 3, "kernels": "k.csv"}, "`device` must be a text, not 3"),
        ({"device": "a100_sxm", "kernels": 3}, "`kernels` must be a file or a list of files, not 3"),
    ],
)
def test_what_cannot_be_calibrated_is_named_by_its_keyword(options, message):
    with pytest.raises(InputError, match=message):
        sweepdb.calibrate(**options)


def test_calibrating_never_writes_over_a_file(tmp_path):
    there = tmp_path / "there.yaml"
    there.write_text("")
    with pytest.raises(InputError, match=r"is there already\nname another file: `profile=FILE.yaml`"):
        sweepdb.calibrate("h100_sxm", tmp_path, profile=there)
