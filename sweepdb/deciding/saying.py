"""A decision in sentences and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import combinations

from queries.judging import MEASURED, PREDICTED
from store.schema import short_plan
from store.texts import counted
from sweepdb.deciding.decision import Chosen, Decision, Outcome, Run, Start

NEXT = "Run next"
_DISAGREEING = 1.25  # times between two runs of one setting from which both are named


def sentences(found: Decision) -> Iterator[str]:
    yield _answer(found)
    if found.simulated:
        yield "An instance carries at most the rate that simulated loads of it keep within the limits."
    elif found.curve.question.pairs.target_qps is not None:
        yield (
            "Servers are compared as users who wait keep them busy; requests that arrive in bursts need more:"
            " `sweepdb plan` with `rate` simulates them."
        )
    yield from _read(found)
    yield from (f"Left out, its server failed: {scenario} ({why})." for scenario, why in found.ruled_out.items())
    if found.decided is not None:
        yield f"Decided: {found.decided}."
    for number, start in enumerate(found.next_starts):
        yield _start(start, first=number == 0)


def deployment(one: Chosen) -> str:
    """`4 x TP2 on h200_sxm, 47 users each`."""
    each = " each" if one.instances > 1 else ""
    return f"{one.instances} x {short_plan(one.plan)} on {one.device}, concurrency {one.concurrency}{each}"


def outcome_line(found: Decision, one: Outcome) -> str:
    """A result of the next start, and the answer after it."""
    if one.then is None:
        said = "none of these keeps the limits: no answer is left"
    elif found.answer is not None and one.then.probe == found.answer.probe and one.kept is None:
        said = "nothing better: the answer stays"
    else:
        kept = "none of these keeps the limits" if one.kept is None else f"concurrency {one.kept} keeps the limits"
        said = f"{kept}: then {deployment(one.then)}, about {one.then.output_tokens_per_s:,.0f} tokens/s"
    return f"{_percent(one.probability)}: {said}"


def document(found: Decision) -> dict[str, object]:
    return {
        "answer": None if found.answer is None else asdict(found.answer),
        "decided": found.decided,
        "gain": found.gain,
        "next_starts": [asdict(one) for one in found.next_starts],
        "rows": found.dicts(),
        "plans": {label: short_plan(label) for label in _labels(found)},
        "runs": [asdict(one) for one in found.runs],
        "bands": [asdict(one) for one in found.bands],
        "ruled_out": dict(found.ruled_out),
        "outcomes": [outcome_line(found, one) for start in found.next_starts[:1] for one in start.outcomes],
        "sentences": list(sentences(found)),
        "sweep": found.sweep,
    }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def _labels(found: Decision) -> list[str]:
    return list(dict.fromkeys([*(one.plan for one in found.others), *(one.plan for one in found.bands)]))


def _answer(found: Decision) -> str:
    one = found.answer
    if one is None:
        return "Answer now: none. No stored setting is believed to keep the limits."
    known = one.stands if one.stands in {MEASURED, PREDICTED} else f"predicted, corrected: {one.stands}"
    return (
        f"Answer now: {deployment(one)}: {one.requests_per_s:.3g} requests/s ({one.output_tokens_per_s:,.0f} tokens/s)"
        f" on {counted(one.num_devices, 'device')}, {known}."
        f" Probability that all limits are kept: {_percent(one.holds)}."
    )


def _read(found: Decision) -> Iterator[str]:
    count = len(found.runs)
    if not count and any(one.stands.endswith(("run", "runs")) for one in found.others):
        yield "No run of yours is of a setting here; runs of other settings correct them."
        return
    if not count:
        yield "No run of yours was read: `sweepdb measurements import` brings results of benchmark clients."
        return
    kept = sum(one.keeps_limits is True for one in found.runs)
    yield f"{count} {'run' if count == 1 else 'runs'} of yours read; {kept} kept all limits."
    for mine, theirs in combinations(found.runs, 2):
        yield from _contradicting(mine, theirs)
    for one in found.disagreements:
        yield (
            f"Run {one.key[:8]} disagrees with its neighbours in {one.metric} by {abs(one.deviations):.1f} standard"
            f" deviations: left out? See `sweepdb measurements show {one.key[:8]}`."
        )
    for version in found.versions_left_out:
        yield f"Runs of version {version} disagree with the others, and are not read."


def _contradicting(one: Run, other: Run) -> Iterator[str]:
    if (one.device, one.plan, one.concurrency) != (other.device, other.plan, other.concurrency):
        return
    for name, mine, theirs in (("TTFT", one.ttft_ms, other.ttft_ms), ("TPOT", one.tpot_ms, other.tpot_ms)):
        if mine and theirs and max(mine / theirs, theirs / mine) >= _DISAGREEING:
            yield (
                f"Two runs of {short_plan(one.plan)} at concurrency {one.concurrency:g} disagree: {name} {mine:.4g} ms"
                f" ({one.measurement[:8]}) and {theirs:.4g} ms ({other.measurement[:8]}). Both are read."
            )


def _start(one: Start, *, first: bool) -> str:
    users = ", ".join(map(str, sorted(rung.concurrency for rung in one.ladder)))
    begin = NEXT if first else "Then"
    return (
        f"{begin}: start {short_plan(one.plan)} on {counted(one.num_devices, 'device')} of {one.device} (launch"
        f" {one.probe}) and measure concurrency {users}: expected to gain {_percent(one.gain)}."
    )
