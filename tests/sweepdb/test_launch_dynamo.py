"""`launch --target dynamo`: the graph keeps to what its definition's public reference says; and graphs of others are read.

Source of GRAPH: docs.nvidia.com/dynamo, reference, Kubernetes API nvidia.com/v1beta1 (DynamoGraphDeployment and the shared
component spec), restated; pods are checked by Kubernetes' own schemas."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml
from launched_rows import CASES, fill, rows_of

from store.errors import InputError
from sweepdb.launching import write_launch
from sweepdb.launching.flag_tables import flag_table
from sweepdb.launching.manifests import BROUGHT
from sweepdb.launching.reading import read_deployment

ANY = {"type": "object"}
COMPONENT = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "maxLength": 63, "pattern": "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"},
        "type": {"enum": ["frontend", "worker", "prefill", "decode", "planner", "epp"]},
        "replicas": {"type": "integer", "minimum": 0},
        "minAvailable": {"type": "integer", "minimum": 1},
        "multinode": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"nodeCount": {"type": "integer", "minimum": 2}},
        },
        "podTemplate": ANY,
        "sharedMemorySize": {"type": ["string", "integer"]},
        **dict.fromkeys(
            (
                "providerOverride", "modelRef", "scalingAdapter", "eppConfig", "compilationCache",
                "topologyConstraint", "experimental",
            ),
            ANY,
        ),
        **{key: {"type": "string"} for key in ("frontendSidecar", "dynamoSidecar", "runtimeVersionOverride")},
        "globalDynamoNamespace": {"type": "boolean"},
        "roles": {"type": "array"},
    },
}  # fmt: skip
GRAPH = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "nvidia.com/v1beta1"},
        "kind": {"const": "DynamoGraphDeployment"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "backendFramework": {"enum": ["sglang", "vllm", "trtllm"]},
                "components": {"type": "array", "maxItems": 25, "items": COMPONENT},
                "env": {"type": "array"},
                "priorityClassName": {"type": "string"},
                **dict.fromkeys(
                    ("providerOverride", "annotations", "labels", "restart", "topologyConstraint", "experimental"), ANY
                ),
            },
        },
    },
}
# Flags of a component that its engine's own parser does not have.
OF_COMPONENTS = {"--disaggregation-mode"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("dynamo"))


@pytest.fixture(scope="module")
def graphs(url, tmp_path_factory):
    """The documents of every engine's graph, of one server, of a pair and over hosts."""
    found = {}
    for engine in BROUGHT:
        for name, which in (
            ("pair", ("pair",)),
            ("alone", CASES["trtllm-compose"][0]),
            ("hosts", CASES["trtllm-hosts"][0]),
        ):
            folder = tmp_path_factory.mktemp(f"{engine}-{name}") / "out"
            write_launch(rows_of(url, which), folder, engine=engine, target="dynamo", store=url)
            found[engine, name] = list(yaml.safe_load_all((folder / "dynamo.yaml").read_text()))
    return found


def components(documents):
    return {one["name"]: one for one in documents[-1]["spec"]["components"]}


def test_graphs_keep_to_their_definition_and_pods_to_that_of_kubernetes(graphs):
    from jsonschema import Draft7Validator

    validate = pytest.importorskip("kubernetes_validate")
    validator = Draft7Validator(GRAPH)
    for documents in graphs.values():
        *settings, graph = documents
        assert not [error.message for error in validator.iter_errors(graph)]
        names = [one["name"].lower() for one in graph["spec"]["components"]]
        assert len(set(names)) == len(names)
        # Grove joins the names of graph, component and role into one of at most 45 letters.
        assert all(len(f"{graph['metadata']['name']}-0-{name}-leader") <= 45 for name in names)
        for one in graph["spec"]["components"]:
            assert [container["name"] for container in one["podTemplate"]["spec"]["containers"]] == ["main"]
            template = {"apiVersion": "v1", "kind": "PodTemplate", "template": one["podTemplate"]}
            validate.validate(template, "1.30", strict=True)
        for one in settings:
            validate.validate(one, "1.30", strict=True)
    wrong = deepcopy(graph)
    wrong["spec"]["components"][1]["replica"] = 2
    assert list(validator.iter_errors(wrong))
    wrong = deepcopy(graph)
    wrong["spec"]["components"][1]["multinode"]["nodeCount"] = 1
    assert list(validator.iter_errors(wrong))


def test_every_flag_is_one_of_the_engine_that_the_release_brings(graphs):
    for (engine, _), documents in graphs.items():
        if engine == "trtllm":
            continue
        table = flag_table(engine, BROUGHT[engine])
        assert table.version == BROUGHT[engine]
        for name, one in components(documents).items():
            if name == "Frontend":
                continue
            (container,) = one["podTemplate"]["spec"]["containers"]
            assert container["command"] == ["python3", "-m", f"dynamo.{engine}"]
            words = container["args"]
            for place, word in enumerate(words):
                if word.startswith("--") and word not in OF_COMPONENTS:
                    flag = table.flags[word]
                    assert not flag.deprecated
                    assert flag.refusal(None if flag.takes == "nothing" else words[place + 1]) is None


def test_devices_are_those_of_the_row_over_its_hosts(graphs):
    for (engine, name), documents in graphs.items():
        found = components(documents)
        assert found.pop("Frontend")["type"] == "frontend"
        devices = {
            role: (
                one["replicas"],
                one.get("multinode", {}).get("nodeCount", 1),
                int(one["podTemplate"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]),
            )
            for role, one in found.items()
        }
        assert devices == {
            "pair": {"prefill": (3, 1, 4), "decode": (2, 1, 8)},
            "alone": {"server": (1, 1, 4)},
            "hosts": {"server": (1, 2, 8)},
        }[name], engine  # fmt: skip
        hosts = [word for one in found.values() for word in one["podTemplate"]["spec"]["containers"][0]["args"]]
        assert not {"--nnodes", "--node-rank", "--data-parallel-address", "--headless"} & set(hosts)  # the operator's


def test_settings_of_tensorrt_llm_are_a_file_that_the_component_names(graphs):
    *settings, graph = graphs["trtllm", "pair"]
    files = {one["metadata"]["name"]: one["data"] for one in settings}
    for one in graph["spec"]["components"][1:]:
        pod = one["podTemplate"]["spec"]
        (container,), (volume,) = pod["containers"], pod["volumes"]
        path = container["args"][container["args"].index("--extra-engine-args") + 1]
        folder, _, name = path.rpartition("/")
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": folder}]
        assert yaml.safe_load(files[volume["configMap"]["name"]][name])["kv_cache_config"]


def test_another_version_than_the_release_brings_is_refused(url, tmp_path):
    row = rows_of(url, CASES["trtllm-compose"][0])
    with pytest.raises(InputError, match=r"Dynamo 1\.5\.1 brings vLLM 0\.28\.0, not 0\.33\.0") as raised:
        write_launch(row, tmp_path / "out", target="dynamo", engine_version="0.33.0", store=url)
    assert raised.value.hint == "`engine_version=0.28.0`, or `target=k8s`"


OLD = """
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: old}
spec:
  services:
    Frontend: {componentType: frontend, replicas: 1}
    VllmDecodeWorker:
      componentType: worker
      subComponentType: decode
      replicas: 2
      extraPodSpec:
        mainContainer:
          command: [/bin/sh, -c]
          args: ["exec python3 -m dynamo.vllm --model Qwen/Qwen3-32B --tensor-parallel-size 4 --max-num-seqs 64"]
    VllmPrefillWorker:
      componentType: worker
      extraPodSpec:
        mainContainer:
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-32B, --tensor-parallel-size, "2", --is-prefill-worker, --made-up, "3"]
"""


def test_a_graph_of_the_version_before_is_read(tmp_path):
    (tmp_path / "old.yaml").write_text(OLD)
    decode, prefill = read_deployment(tmp_path / "old.yaml").servers
    assert (decode.role, decode.instances, decode.model, decode.tp) == ("decode", 2, "Qwen/Qwen3-32B", 4)
    assert decode.most_requests == 64
    assert (prefill.role, prefill.instances, prefill.tp, prefill.not_mapped) == ("prefill", 1, 2, ["--made-up"])


def test_settings_that_are_not_in_the_file_are_named(tmp_path):
    graph = {
        "kind": "DynamoGraphDeployment",
        "spec": {"components": [{"name": "w", "type": "worker", "podTemplate": {"spec": {"containers": [{
            "name": "main", "command": ["python3", "-m", "dynamo.trtllm"],
            "args": ["--model-path", "Qwen/Qwen3-8B", "--extra-engine-args", "/engine/agg.yaml", "--other", "1"],
        }]}}}]},
    }  # fmt: skip
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(graph))
    (server,) = read_deployment(tmp_path / "g.yaml").servers
    assert (server.role, server.model) == ("server", "Qwen/Qwen3-8B")
    assert server.not_mapped == ["/engine/agg.yaml, which was not found", "--other"]


def test_flags_of_the_release_that_newer_engines_lack_are_known(url, tmp_path):
    write_launch(rows_of(url, ("pair",)), tmp_path / "out", target="dynamo", store=url)
    text = (tmp_path / "out" / "dynamo.yaml").read_text()
    assert "--no-enable-prefix-caching" in text  # of vLLM 0.28
    assert not flag_table("vllm").has("--no-enable-prefix-caching")
    for server in read_deployment(tmp_path / "out" / "dynamo.yaml").servers:
        assert server.not_mapped == []
