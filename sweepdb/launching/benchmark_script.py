"""The script that measures a row's prediction and imports the result."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.inputs import Images
from evaluator.ledger import Unmatched, measured_precision
from store.errors import InputError
from sweepdb.launching.expectations import mean_share
from sweepdb.launching.server_command import ENGINE_NAMES, ServerCommand
from sweepdb.launching.stored_instance import StoredInstance

BENCH, LADDER = "bench.sh", "ladder.sh"
_STARTS, _END = ("start.sh", "server.sh"), "END_OF_SWEEPDB_FILE"
CLIENTS = ("vllm", "guidellm", "aiperf")  # the one that is asked by first
_PROMPTS_A_USER = 10  # as clients of the published points ask


def seats_taken(commands: list[ServerCommand]) -> int:
    """Of a pair, those that decode."""
    last = commands[-1]
    return last.instance.concurrency * last.instances


def stated_circumstances(commands: list[ServerCommand]) -> dict[str, str | int | float]:
    first = commands[0]
    stated: dict[str, str | int | float] = {
        "mode": "aggregated" if len(commands) == 1 else "disaggregated",
        "model": first.instance.model_name,
        "device": first.instance.scenario.device.name,
        "engine": first.engine,
        "engine_version": first.version,
        **_formats(first.instance),
        "num_devices": sum(one.instance.devices * one.instances for one in commands),
    }
    for one in commands:
        plan, side = one.instance.plan, "" if len(commands) == 1 else f"{one.role}_"
        sizes = {"tp": plan.tp, "pp": plan.pp, "dp": plan.dp, "ep": plan.ep, "moe_tp": plan.moe_tp}
        if one.several:  # copies of a server are replicas of one that is larger
            sizes["dp"] *= one.instances
            sizes |= {"moe_dp": plan.moe_dp * one.instances} if one.instance.model.routed else {}
        stated |= {f"{side}{name}": size for name, size in sizes.items()}
        if side:
            stated[f"{side}instances"] = one.instances
    shortest = first.instance.values["shortest_length"]
    return stated | ({"shortest_length": shortest} if isinstance(shortest, float) and shortest < 1.0 else {})


def _formats(instance: StoredInstance) -> dict[str, str]:
    """`precision` is that of experts where it says what linears are in; their formats apart say so in any case."""
    linear, experts = instance.precision.linear, instance.precision.experts
    if not instance.model.routed or experts is None or experts == linear:
        return {"precision": linear.lower()}
    try:
        meant = measured_precision(instance.model, experts, None)
    except Unmatched:
        told = linear
    else:
        told = experts if (meant.linear, meant.experts) == (linear, experts) else linear
    return {"precision": told.lower(), "linear_format": linear, "experts_format": experts}


def benchmark_script(commands: list[ServerCommand], users: int) -> str:
    """bench.sh: the row's lengths and concurrency, by one of three clients."""
    instance = commands[-1].instance
    asked = _asked(commands, users)
    bins = (
        "# The row is of a length distribution: this asks its mean lengths alone.\n" if instance.workload.bins else ""
    )
    return filled_file(
        BENCH,
        engine=ENGINE_NAMES[commands[0].engine],
        probes=" and ".join(one.instance.probe for one in commands),
        bins=bins,
        tokenizer=_or_else("TOKENIZER", instance.model_name),
        users=str(asked.users),
        each=str(instance.values["prompts_per_user"] or _PROMPTS_A_USER),
        vllm=_vllm(instance, asked),
        guidellm=_guidellm(instance, asked),
        aiperf=_aiperf(instance, asked),
        clients=", ".join(CLIENTS),
    )


def filled_file(name: str, **words: str) -> str:
    text = Path(__file__).with_name("scripts").joinpath(name).read_text(encoding="utf-8")
    return re.sub("@([a-z]+)@", lambda found: words[found[1]], text)


def ladder_script(users: Sequence[int]) -> str:
    """ladder.sh: one server at several concurrencies, the worthiest first."""
    return filled_file(LADDER, users=" ".join(map(str, users)))


def one_script(files: Mapping[str, str], folder: str) -> str:
    start = next((name for name in _STARTS if name in files), None)
    if start is None or LADDER not in files:
        raise InputError("one script is of servers on one host", hint="`output` writes a folder that says the rest")
    written = "".join(
        f"cat > {shlex.quote(name)} <<'{_END}'\n{text}{'' if text.endswith(chr(10)) else chr(10)}{_END}\n"
        for name, text in sorted(files.items())
    )
    return filled_file("one.sh", folder=shlex.quote(folder), written=written, start=start, ladder=LADDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Concurrency, and lengths spread evenly around their means."""

    users: int
    prompt: float  # of text
    output: float
    spread: float  # half of the range, as a share of the mean

    def between(self, mean: float) -> tuple[int, int]:
        return math.floor(mean * (1.0 - self.spread)), math.ceil(mean * (1.0 + self.spread))


def _asked(commands: list[ServerCommand], users: int) -> _Asked:
    instance = commands[-1].instance
    mean = mean_share(instance)
    shortest = 2.0 * mean - 1.0
    return _Asked(
        users=users,
        prompt=round(mean * float(str(instance.values["input_length_mean"]))) - _image_tokens(instance),
        output=round(mean * instance.workload.output_length),
        spread=(1.0 - shortest) / (1.0 + shortest),
    )


def _image_tokens(instance: StoredInstance) -> int:
    images = instance.workload.images
    return 0 if images is None else images.prompt_tokens


def _images_of_vllm(images: Images | None) -> dict[str, str | _Variable | None]:
    """Images of one size, where the row has some."""
    if images is None:
        return {"--dataset-name": "random"}
    return {
        "--endpoint": "/v1/chat/completions",
        "--dataset-name": "random-mm",
        "--random-mm-base-items-per-request": str(images.count),
        "--random-mm-num-mm-items-range-ratio": "0",
        "--random-mm-limit-mm-per-prompt": json.dumps({"image": images.count, "video": 0}),
        "--random-mm-bucket-config": f"{{({images.height}, {images.width}, 1): 1.0}}",
    }


def _vllm(instance: StoredInstance, asked: _Asked) -> str:
    return _wrapped("vllm", "bench", "serve", {
        "--base-url": _Variable("BASE_URL"),
        "--backend": "openai" if instance.workload.images is None else "openai-chat",
        "--model": instance.model_name,
        "--tokenizer": _Variable("TOKENIZER"),
        **_images_of_vllm(instance.workload.images),
        "--random-input-len": f"{asked.prompt:.0f}",
        "--random-output-len": f"{asked.output:.0f}",
        "--random-range-ratio": f"{asked.spread:.4g}",
        "--num-prompts": _Variable("REQUESTS"),
        **_LOAD,
        "--percentile-metrics": "ttft,tpot,itl,e2el",
        "--metric-percentiles": "50,90,99",
        "--ignore-eos": None,
        "--save-result": None,
        "--save-detailed": None,
        "--result-dir": _Variable("RESULTS"),
        "--result-filename": _Variable("LOAD", before="vllm-", after=".json"),
    })  # fmt: skip


def _guidellm(instance: StoredInstance, asked: _Asked) -> str:
    if instance.workload.images is not None:
        return "echo 'guidellm is not asked for images here: CLIENT=vllm or aiperf' >&2; exit 2"
    (least_in, most_in), (least_out, most_out) = asked.between(asked.prompt), asked.between(asked.output)
    lengths = (
        f"kind=synthetic_text,prompt_tokens={asked.prompt:.0f},prompt_tokens_min={least_in},prompt_tokens_max={most_in},"
        f"output_tokens={asked.output:.0f},output_tokens_min={least_out},output_tokens_max={most_out}"
    )
    return _wrapped("guidellm", "run", {
        "--backend": _Variable("BASE_URL", before="kind=openai_http,target="),
        "--profile": _Variable("profile"),
        "--constraint": _Variable("REQUESTS", before="kind=max_requests,count="),
        "--tokenizer": _Variable("TOKENIZER", before="kind=hf_auto,model="),
        "--data": lengths,
        "--output": _Variable("RESULTS", before="kind=json,path=", after="/guidellm-$LOAD.json"),
        "--disable-progress": None,
    })  # fmt: skip


def _images_of_aiperf(images: Images | None) -> dict[str, str | _Variable | None]:
    if images is None:
        return {"--endpoint-type": "completions"}
    return {
        "--endpoint-type": "chat",
        "--image-batch-size": str(images.count),
        "--image-width-mean": str(images.width),
        "--image-height-mean": str(images.height),
    }


def _aiperf(instance: StoredInstance, asked: _Asked) -> str:
    # A normal distribution as wide as the even one: its deviation is half of the range over the root of three.
    deviations = [length * asked.spread / math.sqrt(3.0) for length in (asked.prompt, asked.output)]
    return _wrapped("aiperf", "profile", {
        "--url": _Variable("BASE_URL"),
        "--model": instance.model_name,
        "--tokenizer": _Variable("TOKENIZER"),
        **_images_of_aiperf(instance.workload.images),
        "--streaming": None,
        "--isl": f"{asked.prompt:.0f}",
        "--isl-stddev": f"{deviations[0]:.3g}",
        "--osl": f"{asked.output:.0f}",
        "--osl-stddev": f"{deviations[1]:.3g}",
        "--extra-inputs": "ignore_eos:true",
        **_LOAD,
        "--request-count": _Variable("REQUESTS"),
        "--output-artifact-dir": _Variable("RESULTS", after="/aiperf-$LOAD"),
        "--ui": "none",
    })  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable's value, with what stands around it."""

    name: str
    before: str = ""
    after: str = ""

    def quoted(self) -> str:
        return f'"{self.before}${{{self.name}}}{self.after}"'


def _wrapped(*words: str | Mapping[str, str | _Variable | None]) -> str:
    program = [word for word in words if isinstance(word, str)]
    lines = [
        name if value is None else f"{name} {value.quoted() if isinstance(value, _Variable) else shlex.quote(value)}"
        for flags in words
        if not isinstance(flags, str)
        for name, value in flags.items()
    ]
    return " \\\n    ".join([shlex.join(program), *lines])


_LOAD: Mapping[str, None] = {'"${load[@]}"': None}  # two words, as the script has put them together


def _or_else(variable: str, value: str) -> str:
    """Double quotes would run a value with signs."""
    quoted = shlex.quote(value)
    return f'"${{{variable}:-{value}}}"' if quoted == value else f"${{{variable}:-{quoted}}}"
