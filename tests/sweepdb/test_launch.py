"""`launch`: rows as files that start them. Files laid down in `launched` are what is written today:

`PYTHONPATH=.:tests python tests/sweepdb/test_launch.py` lays them down again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from conftest_cli import sweepdb as command
from launched_rows import CASES, MODEL, REQUEST, fill, probes, rows_of
from quick import one_each
from shared_data import shared_data

import sweepdb
from store.errors import InputError
from store.location import parse_url
from sweepdb.launching import write_launch
from sweepdb.launching.flag_tables import flag_table, versions
from sweepdb.launching.folder import read_rows
from sweepdb.launching.server_command import TARGETS
from sweepdb.launching.stored_instance import GIB, read_instance

LAUNCHED = Path(__file__).parent / "launched"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("launched"))


@pytest.fixture(scope="module")
def written_once(url, tmp_path_factory):
    """The files of every case by name, each case written once."""
    return {case: written(url, case, tmp_path_factory.mktemp("written") / case) for case in CASES}


def written(url, case, folder, **more):
    which, options = CASES[case]
    write_launch(rows_of(url, which), folder, store=url, **options, **more)
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("case", CASES)
def test_files_are_those_laid_down(case, written_once):
    files = written_once[case]
    kept = {path.name: path.read_text() for path in sorted((LAUNCHED / case).iterdir())}
    assert files.keys() == kept.keys()
    for name, text in kept.items():
        assert without_numbers(files[name]) == without_numbers(text), name


def without_numbers(text):
    """Predicted numbers and digests have tests of their own; keys of rows and a version move with formulas."""
    text = re.sub(r'("formula_version": )\d+', r"\1N", text)
    text = re.sub(r"-?\d+\.\d+(e-?\d+)?", "N", text)
    return re.sub(r"[0-9a-f]{8,64}", "K", text)


@pytest.mark.parametrize("case", CASES)
def test_scripts_are_shell_and_digests_are_of_the_files(case, written_once):
    files = written_once[case]
    for name, text in files.items():
        if name.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    expected = json.loads(files["expected.json"])
    assert expected["sha256"].keys() == files.keys() - {"expected.json"}
    for name, digest in expected["sha256"].items():
        assert hashlib.sha256(files[name].encode()).hexdigest() == digest


def test_the_same_row_gives_the_same_bytes(url, written_once, tmp_path):
    assert written(url, "vllm-pair-kserve", tmp_path / "again") == written_once["vllm-pair-kserve"]


@pytest.mark.parametrize(
    ("engine", "version"),
    one_each([(name, one) for name in ("vllm", "sglang") for one in reversed(versions(name))], lambda case: case[0]),
)
def test_every_flag_is_one_of_its_version_by_its_full_name(engine, version, url, tmp_path):
    table = flag_table(engine, version)
    assert table.version == version
    for number, which in enumerate([("aggregated", "tp2pp1dp4ep8moetp1moedp1"), ("pair",)]):
        folder = tmp_path / str(number)
        write_launch(rows_of(url, which), folder, engine=engine, engine_version=version, store=url)
        for script in folder.glob("*.sh"):
            if script.name not in {"bench.sh", "router.sh"}:
                for name, value in flags_of(script.read_text()):
                    assert name in table.flags  # abbreviations are not
                    assert table.flags[name].refusal(value) is None
                    assert not table.flags[name].deprecated


def flags_of(script):
    lines = [line.strip().removesuffix("\\").strip() for line in script.partition("exec ")[2].splitlines()]
    for line in lines:
        if line.startswith("--"):
            name, _, value = line.partition(" ")
            yield name, re.sub(r"\$\{[A-Z]+:-(\d+)\}", r"\1", value.strip("'\"")) or None  # as where nobody says it


def test_versions_are_the_newest_and_older_ones_and_the_nearest_older_answers():
    assert [len(versions(name)) for name in ("vllm", "sglang")] == [4, 4]  # newest, two older, and the one of Dynamo
    assert flag_table("vllm").version == versions("vllm")[0]
    assert flag_table("vllm", "0.32.7").version == "0.32.0"
    assert flag_table("vllm", "0.30.1").version == "0.28.0"
    with pytest.raises(InputError, match="older than the flags that are known"):
        flag_table("vllm", "0.8.0")
    with pytest.raises(InputError, match="is no version"):
        flag_table("vllm", "latest")


def test_what_no_version_takes_is_refused():
    table = flag_table("sglang", "0.5.23")
    with pytest.raises(InputError, match="has no flag --cuda-graph-bs"):  # an abbreviation that its parser rejects
        table.check("--cuda-graph-bs", "8")
    with pytest.raises(InputError, match="takes a value"):
        table.check("--tp-size", None)
    with pytest.raises(InputError, match="eight is no int"):
        table.check("--tp-size", "eight")
    with pytest.raises(InputError, match="fp7 is not one of"):
        table.check("--kv-cache-dtype", "fp7")


def test_devices_and_batches_are_those_of_the_row(url, tmp_path):
    for engine, tensor in (("vllm", "--tensor-parallel-size 2"), ("sglang", "--tp-size 8")):
        folder = tmp_path / engine
        write_launch(rows_of(url, CASES["vllm-shell"][0]), folder, engine=engine, store=url)
        script = (folder / "server.sh").read_text()
        assert f"{tensor} " in script
        assert "= 8." in script
    assert "--max-running-requests 24 " in script  # four replicas of six
    assert "--chunked-prefill-size" in script


def test_a_share_of_memory_holds_the_batch_and_leaves_the_reserve(url, tmp_path):
    location = parse_url(url)
    aggregated = [probe for (phase, _), probe in sorted(probes(url).items()) if phase == "aggregated"]
    for probe in aggregated[::12]:
        instance = read_instance(location, probe)
        device = instance.bytes_of("device_memory")
        folder = tmp_path / probe.partition(":")[0]
        write_launch(probe, folder, store=url)
        shares = dict(flags_of((folder / sorted(p.name for p in folder.glob("server*.sh"))[0]).read_text()))
        share = float(shares["--gpu-memory-utilization"])
        assert share * device >= instance.bytes_of("weight", "kv_cache", "activation")
        assert (1 - share) * device >= 10 * GIB


def test_prefill_servers_of_a_lone_prompts_row_fill_their_steps(url, tmp_path):
    with sweepdb.open(url) as store:
        ((lone,),) = store.sql(
            "SELECT probe FROM probe WHERE batch_size = 1 AND phase = 'prefill' AND plan = 'tp4pp1dp1ep4moetp1moedp1'"
        ).rows
    decode = probes(url)["decode", "tp1pp1dp8ep8moetp1moedp1"]
    for engine, seats, share in (
        ("vllm", "--max-num-seqs", "--gpu-memory-utilization"),
        ("sglang", "--max-running-requests", "--mem-fraction-static"),
    ):
        write_launch([lone, decode], tmp_path / engine, engine=engine, store=url)
        flags = dict(flags_of((tmp_path / engine / "prefill.sh").read_text()))
        assert int(flags[seats]) == 4  # three prompts of 2,000 tokens reach into a step of 4,096, and one is fetched
        instance = read_instance(parse_url(url), lone)
        held = instance.bytes_of("weight") + 4 * instance.bytes_of("kv_cache")
        assert float(flags[share]) * instance.bytes_of("device_memory") >= held


@pytest.mark.parametrize("case", ["vllm-pair-llm-d", "vllm-shell"])
def test_values_of_llm_d_keep_to_the_schema_of_its_chart(case, url, tmp_path):
    from jsonschema import Draft7Validator

    schema = json.loads(shared_data("deployments", "llm-d", "values.schema.json").read_text())
    which, _ = CASES[case]
    write_launch(rows_of(url, which), tmp_path / "out", target="llm-d", store=url)
    values = yaml.safe_load((tmp_path / "out/values.yaml").read_text())
    assert not list(Draft7Validator(schema).iter_errors(values))
    assert values.keys() <= schema["properties"].keys()
    assert values["decode"].keys() <= schema["properties"]["decode"]["properties"].keys()
    values["decode"]["parallelism"]["tensr"] = 2
    assert list(Draft7Validator(schema).iter_errors(values))


@pytest.mark.survival  # its definition takes seconds to read
def test_a_service_of_kserve_keeps_to_its_definition(url, tmp_path):
    from jsonschema import Draft7Validator

    text = shared_data("deployments", "kserve", "llminferenceservices.crd.yaml").read_text()
    definition = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    schema = next(
        one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"] if one["name"] == "v1alpha2"
    )
    validator = Draft7Validator(strict(schema))
    for target in ("pair", "alone"):
        which = ("pair",) if target == "pair" else CASES["vllm-hosts"][0]
        write_launch(rows_of(url, which), tmp_path / target, target="kserve", store=url)
        document = yaml.safe_load((tmp_path / target / "llminferenceservice.yaml").read_text())
        assert not [error.message for error in validator.iter_errors(document)]
    document["spec"]["parallelism"]["tensr"] = 2
    assert list(validator.iter_errors(document))


def strict(schema):
    """A definition's schema that refuses unknown keys, which a cluster drops in silence."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if key != "format"}
    if schema.get("x-kubernetes-int-or-string"):
        made = {"type": ["integer", "string"]}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        free = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        if not free:
            made["additionalProperties"] = False
    return made


def test_objects_of_kubernetes_are_valid(url, tmp_path):
    validate = pytest.importorskip("kubernetes_validate")
    for engine in ("vllm", "sglang", "trtllm"):
        write_launch(
            rows_of(url, CASES["trtllm-compose"][0]), tmp_path / engine, engine=engine, target="k8s", store=url
        )
        documents = list(yaml.safe_load_all((tmp_path / engine / "kubernetes.yaml").read_text()))
        assert {one["kind"] for one in documents} >= {"Deployment", "Service"}
        for one in documents:
            validate.validate(one, "1.30", strict=True)
    wrong = next(one for one in documents if one["kind"] == "Deployment")
    wrong["spec"]["replica"] = 2
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.30", strict=True)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (("aggregated", "tp4pp1dp2ep1moetp8moedp1"), {"engine": "trtllm"}, "cannot start tp4pp1dp2ep1moetp8moedp1"),
        (("decode", "tp8pp1dp1ep8moetp1moedp1"), {}, "is a decode row"),
        (("aggregated", "tp4pp1dp4ep16moetp1moedp1"), {"target": "k8s"}, "spans 2 hosts"),
        (("aggregated", "tp4pp1dp1ep4moetp1moedp1"), {"engine": "sglang", "target": "llm-d"}, "llm-d serves with vLLM"),
        (("aggregated", "tp4pp1dp1ep4moetp1moedp1"), {"target": "helm"}, "`target=helm` is not one of"),
        (("aggregated", "tp4pp1dp1ep4moetp1moedp1"), {"engine": "tgi"}, "`engine=tgi` is not one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_is_refused_with_its_rule(rows, options, message, url, tmp_path):
    with pytest.raises(InputError, match=message):
        write_launch(rows_of(url, rows), tmp_path / "out", store=url, **options)
    assert not (tmp_path / "out").exists()


def test_slices_that_cut_blocks_of_weights_are_refused(tmp_path):
    # 768 / 4 = 192 columns of an expert are one and a half blocks of 128, and vLLM raises ValueError.
    store = f"sqlite:///{tmp_path}/store.sqlite"
    served = {"tp_sizes": (4,), "ep_sizes": (1,), "moe_tp_sizes": (4,), "num_devices": 4, "mode": "aggregated"}
    asked = {**REQUEST, **served, "store": store}
    assert any("vllm can launch no plan" in note for note in sweepdb.evaluate(f"{MODEL}-FP8", **asked).notes)
    assert not any("no plan" in note for note in sweepdb.evaluate(MODEL, **asked).notes)
    with sweepdb.open(store) as opened:
        ((probe, engines),) = opened.sql(
            "SELECT probe, launchable FROM probe WHERE linear_quantization = 'FP8_BLOCK'"
        ).rows
    assert engines == "trtllm"
    with pytest.raises(InputError, match="must be whole blocks"):
        write_launch(probe, tmp_path / "out", store=store)


def test_rows_as_they_are_typed():
    assert read_rows("a1b2c3d4:19").probes == ("a1b2c3d4:19",)
    for typed in (["a1b2c3d4:1", "e5f6a7b8:18", "4P1D"], "a1b2c3d4:1:e5f6a7b8:18:4p1d"):
        assert (read_rows(typed).probes, read_rows(typed).counts) == (("a1b2c3d4:1", "e5f6a7b8:18"), (4, 1))
    assert read_rows(["a1b2c3d4:1", "e5f6a7b8:18"]).counts == (1, 1)
    for typed in ("a1b2c3d4", ["a1b2c3d4:1", "4P1D"], ["a1b2c3d4:1", "e5f6a7b8:18", "0P1D"], "a:1:b:2:c:3"):
        with pytest.raises(InputError):
            read_rows(typed)


def test_a_folder_with_files_is_left_alone(url, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    probe = rows_of(url, CASES["trtllm-compose"][0])[0]
    done = command(["launch", probe, "--output", str(tmp_path)], url)
    assert (done.code, done.err.splitlines()) == (2, [
        f"error: {tmp_path} is not empty.", "hint: --force writes into it all the same, or name another."
    ])  # fmt: skip
    done = command(["launch", probe, "--output", str(tmp_path), "--force", "--target", "compose"], url)
    assert done.code == 0
    assert str(tmp_path / "compose.yaml") in done.out
    assert "not set: " in done.err
    assert set(TARGETS) == {"shell", "compose", "k8s", "llm-d", "kserve", "dynamo"}


def test_the_benchmark_asks_what_the_row_predicts(url, written_once):
    files = written_once["vllm-shell"]
    assert 'USERS="${USERS:-24}"' in files["bench.sh"]
    said = json.loads(files["expected.json"])
    assert (said["measured_as"]["tp"], said["measured_as"]["dp"], said["deployment"]["users"]) == (2, 4, 24)
    expected = said["roles"]["server"]
    with sweepdb.open(url) as store:
        (row,) = store.sql(f"SELECT ttft_ms, tpot_exclusive_ms FROM probe WHERE probe = '{expected['probe']}'").dicts()
    assert expected["predicted"]["ttft_ms"] == row["ttft_ms"]
    assert expected["predicted"]["tpot_exclusive_ms"] == row["tpot_exclusive_ms"]


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "another"])
def test_one_command_starts_all_ranks_of_tensorrt_llm_over_hosts(launcher, written_once, tmp_path):
    script = tmp_path / "server.sh"
    script.write_text(written_once["trtllm-hosts"]["server.sh"])
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("srun", "mpirun"):
        (programs / name).write_text('#!/bin/sh\necho "$0" "$@"\n')
        (programs / name).chmod(0o755)
    hosts = {"HOSTS": "a:8,b:8"} if launcher == "mpirun" else {"SRUN_ARGS": "--container-image x"}
    surroundings = {"PATH": f"{programs}:{os.environ['PATH']}", "LAUNCHER": launcher, **hosts}
    run = subprocess.run(["bash", str(script)], env=surroundings, capture_output=True, text=True, check=False)
    started = "trtllm-llmapi-launch trtllm-serve Qwen/Qwen3-30B-A3B --port 8000 --extra_llm_api_options"
    if launcher == "another":
        assert (run.returncode, run.stderr) == (2, "LAUNCHER=another is not one of srun, mpirun\n")
        return
    ranks = {
        "srun": "-N 2 --ntasks 16 --ntasks-per-node 8 --mpi=pmix --gres=gpu:8 --container-image x",
        "mpirun": "-n 16 -H a:8,b:8 --allow-run-as-root",
    }[launcher]
    assert run.stdout == f"{programs / launcher} {ranks} {started} server-engine.yaml\n"
    config = yaml.safe_load(written_once["trtllm-hosts"]["server-engine.yaml"])
    assert config["tensor_parallel_size"] * config["pipeline_parallel_size"] == 16


def test_a_router_names_every_instance(written_once):
    for case, program in (("vllm-pair-shell", "vllm-router"), ("sglang-pair-shell", "sglang_router.launch_router")):
        router = written_once[case]["router.sh"]
        assert program in router
        assert re.findall(r"--(prefill|decode) http://\w+_(\d):(\d+)", router) == [
            ("prefill", "0", "8100"), ("prefill", "1", "8100"), ("prefill", "2", "8100"),
            ("decode", "0", "8200"), ("decode", "1", "8200"),
        ]  # fmt: skip
    places = yaml.safe_load(written_once["trtllm-pair-shell"]["router.yaml"])
    assert (places["context_servers"]["num_instances"], places["generation_servers"]["num_instances"]) == (3, 2)
    assert places["context_servers"]["urls"] == ["PREFILL_0:8100", "PREFILL_1:8100", "PREFILL_2:8100"]
    for case in ("vllm-pair-shell", "trtllm-pair-shell", "vllm-pair-dynamo"):
        assert "router in front" not in written_once[case]["not_set.txt"]
    for case in ("vllm-shell", "vllm-pair-dynamo"):  # one instance; a frontend of its own
        assert "router.sh" not in written_once[case]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        address = fill(Path(folder))
        for name in CASES:
            written(address, name, LAUNCHED / name, force=True)
    sys.stdout.write(f"{LAUNCHED}\n")
