"""Processor time that own runs add to a question over stored rows. Prints a JSON line a figure.

    python tests/benchmark/bench_conditioning.py [probes [pairs of questions]]

Twenty runs of one server correct its rows: all of the scope, or an eighth of it, beside other devices. Each question is asked by a
session of its own, by turns as predicted and corrected; the figure is the median of the differences, warm: modules are
imported. Without runs, both are the same question."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

# ruff: noqa: E402  the paths come first
sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from figures import say
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, block, content_key, scenario
from queries_stores import changed, write_in_parts, write_sweep

from queries.asking.question import question_of
from queries.learning import OwnPoint, OwnPoints, Server, Setting
from queries.session import Session
from store.location import parse_url
from store.schema import OF_PLANS
from sweepdb.upkeep import thin_parts

SIZES, RUNS, AIM = 1_000, 20, "<= 15"
ASKED = {"best": {"tpot_limit": 60.0}, "pareto": {}}


def store_of(folder, probes, devices, *, thinned=False):
    """A store of so many rows of one model and workload, of plans that differ in copies of experts.

    `thinned`: in a part, beside which lie the rows that can win."""
    scenarios, made = probes // SIZES, []
    plans = [plan for plan in PLANS if plan != (4, 2, 1)]
    for number in range(scenarios):
        device, (rest, of_plan) = DEVICES[number % devices], divmod(number // devices, len(plans))
        one = scenario(
            MODELS[4], WORKLOADS[1], device, precision=PRECISIONS[0], plan=plans[of_plan], phase="aggregated"
        )
        plan = replace(one.subject.plan, redundant_experts=rest)
        made.append(changed(replace(one, subject=replace(one.subject, key=content_key([one.key, rest]), plan=plan)),
                            serving_model="vllm"))  # fmt: skip
    url = f"sqlite:///{folder}/{devices}-{thinned}.sqlite"
    if thinned:
        write_in_parts(url, made, SIZES)
        thin_parts(parse_url(url))
    else:
        write_sweep(url, made, key="a", sizes=SIZES)
    return url, made


def points_of(made):
    """Runs of the first device: twenty settings, each with both times."""
    of_device = [one for one in made if one.subject.device_name == made[0].subject.device_name]
    for number in range(RUNS):
        record = of_device[number * len(of_device) // RUNS]
        subject = record.subject
        plan, formats, size = subject.plan, subject.precision, 2 ** (number % 9)
        server = Server(subject.model.key, subject.device_name, "vllm", formats.linear_quantization,
                        formats.experts_quantization, formats.attention_quantization)  # fmt: skip
        setting = Setting(
            users=float(size * plan.dp * plan.pp), input_length=float(subject.workload.input_length),
            output_length=float(subject.workload.output_length), num_devices=float(plan.tp * plan.pp * plan.dp),
            dp=float(plan.dp), ep=float(plan.ep), plan=" ".join(str(getattr(plan, size.name)) for size in OF_PLANS),
        )  # fmt: skip
        predicted = block(record, size, size).columns
        measured = {
            name: float(predicted[name][0]) * (0.8 + 0.01 * number) for name in ("ttft_ms", "tpot_exclusive_ms")
        }
        yield OwnPoint(key=content_key(number), source=f"{number}.json", server=server, setting=setting,
                       batch_size=size, measured=measured)  # fmt: skip


def seconds(url, report, options, read):
    """Processor seconds of a question in a session of its own, and its answer."""
    question = question_of(report, {**options, "all": True})
    with Session(parse_url(url), own_points=lambda *_: read) as session:
        started = time.process_time()
        answer = session.ask(question)
        return time.process_time() - started, answer


def more_ms(url, report, options, read, pairs):
    """What runs add, the median of pairs of questions; and what the question takes without them."""
    plain, differences = [], []
    for number in range(pairs + 1):
        without, _ = seconds(url, report, options, OwnPoints())
        took, answer = seconds(url, report, options, read)
        if number:  # the first imports
            plain.append(without)
            differences.append(took - without)
    if read.points and not (answer.own_runs and len(answer.own_runs.points) == RUNS):
        raise SystemExit(f"{report}: runs were not read")
    return 1e3 * statistics.median(differences), 1e3 * statistics.median(plain)


def main() -> None:
    probes = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with tempfile.TemporaryDirectory() as folder:
        for devices, words, thinned in ((8, "an eighth", False), (1, "all", False), (8, "an eighth, thinned,", True)):
            url, made = store_of(folder, probes, devices, thinned=thinned)
            points = tuple(points_of(made))
            for report, options in ASKED.items():
                for runs in (points, ()):
                    more, plain = more_ms(url, report, options, OwnPoints(points=runs), pairs)
                    name = f"{len(runs)} runs more of {report}, {words} of {probes:,} rows corrected"
                    say(name, more, "ms", of=round(plain), **({"aim": AIM} if runs else {}))


if __name__ == "__main__":
    main()
