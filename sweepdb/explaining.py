"""Explains stored probes: restored, priced again, and simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.evaluate import evaluate_scenario
from evaluator.explain import EncoderRates, ExplainedOperator, Step, encoder_rates, explain_step
from evaluator.graph import OperatorSet
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving import APART, DRIFTING
from queries.probes import find_probe, parse_reference
from store.errors import InputError
from store.location import parse_url
from sweepdb.own_runs import OwnRunsOfARow, own_runs_of_a_row
from sweepdb.restoring import scenario_with_operators

STEPS: tuple[Step, ...] = ("encode", "prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStep:
    """Operators and stored time. A prompt's images have no stored time."""

    probe: str
    step: str
    stored_ms: float | None
    operators: tuple[ExplainedOperator, ...]
    encoders: EncoderRates | None = None  # of the step `encode`, where they are on devices of their own

    @property
    def summed_ms(self) -> float:
        return sum(item.time_ms for item in self.operators)

    def said(self) -> str:
        if self.stored_ms is not None:
            return f"{self.probe} {self.step} step: {self.stored_ms:.6g} ms stored, {self.summed_ms:.6g} ms summed"
        said = f"{self.probe} {self.step} step: {self.summed_ms:.6g} ms for the images of one prompt"
        if self.encoders is None:
            return f"{said} alone, which are encoded inside its prefill step"
        one, many = self.encoders, self.encoders.devices > 1
        return (
            f"{said} before its prefill; {one.devices} {'encoders serve' if many else 'encoder serves'}"
            f" {one.prompts_per_s:.4g} prompts/s, {one.images_per_s:.4g} images/s, for"
            f" {one.replicas} {'replica' if one.replicas == 1 else 'replicas'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The lower value first."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.least:.4g} to {self.most:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """TTFT of in-step and of drifting requests; e2e and tokens differ less."""

    probe: str
    ttft_ms: Span
    e2e_ms: Span
    output_tokens_per_s: Span

    def said(self) -> str:
        return (
            f"{self.probe} TTFT: {self.ttft_ms} ms, by whether users of equal lengths stay in step or drift apart;"
            f" end to end {self.e2e_ms} ms, {self.output_tokens_per_s} output tokens/s a replica"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One or two probes, step by step."""

    steps: tuple[ExplainedStep, ...]
    first_tokens: tuple[FirstTokens, ...] = ()  # where one number says too much of them
    own_runs: tuple[OwnRunsOfARow, ...] = ()  # of rows whose server was measured

    def headline(self) -> Iterator[str]:
        """Stored against summed time."""
        for item in self.steps:
            yield item.said()
        for one in self.first_tokens:
            yield one.said()
        for own in self.own_runs:
            yield from own.said()
        yield ""

    def rows(self, top: int | None) -> tuple[list[str], list[list[object]]]:
        """The longest first."""
        columns = ["step", "operator", "kind", "count", "gflop", "mbyte", "time_ms", "bound", "share_percent"]
        rows: list[list[object]] = []
        for step in self.steps:
            for item in step.operators[:top]:
                gflop = (item.matrix_flops + item.vector_flops) / 1e9
                rows.append([step.step, item.label, item.kind, item.count, gflop, item.moved_bytes / 1e6, item.time_ms,
                             item.bound, 100 * item.share])  # fmt: skip
        return columns, rows

    def side_by_side(self, top: int | None) -> tuple[list[str], list[list[object]]]:
        """By label and kind, the largest difference first."""
        columns = ["step", "operator", "kind", "a_ms", "b_ms", "difference_ms", "a_bound", "b_bound"]
        by_probe: dict[str, dict[tuple[str, str, str], ExplainedOperator]] = {}
        for step in self.steps:
            found = {(step.step, item.label, item.kind): item for item in step.operators}
            by_probe.setdefault(step.probe, {}).update(found)
        first, second = (by_probe[name] for name in dict.fromkeys(item.probe for item in self.steps))
        rows: list[list[object]] = []
        for key in dict.fromkeys((*first, *second)):
            a, b = first.get(key), second.get(key)
            difference = (b.time_ms if b else 0.0) - (a.time_ms if a else 0.0)
            rows.append([*key, a and a.time_ms, b and b.time_ms, difference, a and a.bound, b and b.bound])
        rows.sort(key=lambda row: -abs(float(str(row[columns.index("difference_ms")]))))
        return columns, rows[:top]


def explain_probes(references: Sequence[str], store_url: str | None, *, step: str | None) -> Explanation:
    if step not in {None, *STEPS}:
        raise InputError(f"`step={step}` is not one of {', '.join(STEPS)}")
    if len(set(references)) != len(references):
        raise InputError("the two probes are the same")
    found = [_explained(name, store_url, step) for name in references]
    return Explanation(
        steps=tuple(item for steps, _ in found for item in steps),
        first_tokens=tuple(one for _, one in found if one is not None),
        own_runs=tuple(own for own in (own_runs_of_a_row(parse_url(store_url), name) for name in references) if own),
    )


def _explained(text: str, store_url: str | None, step: str | None) -> tuple[list[ExplainedStep], FirstTokens | None]:
    location = parse_url(store_url)
    columns, row = find_probe(location, text)
    values = dict(zip(columns, row, strict=True))
    reference = parse_reference(text)
    scenario, sets = scenario_with_operators(location, reference.scenario)
    steps = [
        ExplainedStep(
            probe=text,
            step=name,
            stored_ms=float(str(stored)),
            operators=explain_step(scenario, reference.batch_size, sets, name),
        )
        for name in ("prefill", "decode")
        if (stored := values[f"{name}_step_ms"]) is not None and step in {None, name}
    ]
    if step == "encode" or (step is None and _encodes_apart(scenario)):
        encode = ExplainedStep(
            probe=text,
            step="encode",
            stored_ms=None,
            operators=explain_step(scenario, reference.batch_size, sets, "encode"),
            encoders=encoder_rates(scenario, sets),
        )
        steps.insert(0, encode)
    return steps, _first_tokens(text, scenario, reference.batch_size, sets)


def _encodes_apart(scenario: Scenario) -> bool:
    known = scenario.engine is not None or "@" not in scenario.serving_model
    return known and scenario.plan.encoder_devices > 0


def _first_tokens(
    probe: str, scenario: Scenario, batch_size: int, operators: Mapping[str, OperatorSet]
) -> FirstTokens | None:
    """None within APART.

    Not for a phase alone or without an engine; drawn lengths keep nobody in step."""
    if scenario.engine is None and "@" in scenario.serving_model:
        return None
    engine = serving_engine(scenario)
    if scenario.phase != "aggregated" or engine is None or not DRIFTING <= engine.client.shortest < 1.0:
        return None
    found, share = [], (1.0 + engine.client.shortest) / 2
    for shortest in (engine.client.shortest, 1.0):
        asked = replace(scenario, client=replace(engine.client, shortest=shortest))
        block = evaluate_scenario(asked, np.asarray([batch_size]), dict(operators))
        # A stored row's: of the mean lengths that its client asks.
        whole = float(block.e2e_ms[0] - (1.0 - share) * scenario.workload.output_length * block.tpot_exclusive_ms[0])
        found.append((float(block.ttft_ms[0]), whole))
    ttft, e2e = (Span(least=min(pair), most=max(pair)) for pair in zip(*found, strict=True))
    if ttft.most <= APART * ttft.least:
        return None
    # 8 users, answers of 100 tokens in 2 to 4 s: 8 x 100 / 4 = 200 to 400 tokens/s.
    tokens = 1e3 * batch_size * share * scenario.workload.output_length
    return FirstTokens(
        probe=probe,
        ttft_ms=ttft,
        e2e_ms=e2e,
        output_tokens_per_s=Span(least=tokens / e2e.most, most=tokens / e2e.least),
    )
