"""The first part of a report, for whoever reads no further, and what its words mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from queries.pairs import rate_spans
from store.texts import counted
from sweepdb.planning import short_plan
from sweepdb.reporting.page_text import amount, listed, paragraph

if TYPE_CHECKING:
    from queries.asking import Answer
    from store.texts import Html
    from sweepdb.reporting.contents import Contents

Row = Mapping[str, object]
_FIRST = ("Its first tokens", "Next comes", "Near its limit")  # sentences of a plan that belong to the answer
_SPLIT = re.compile(r"\b(TP|DP|PP|EP)\d")
_WORDS = (
    ("TP", "TP 2 (tensor parallelism): two devices share every layer of one instance."),
    ("DP", "DP 2 (data parallelism): one instance holds two copies, each with requests of its own."),
    ("PP", "PP 2 (pipeline parallelism): two groups of devices hold half of the layers each."),
    ("EP", "EP 2 (expert parallelism): the experts of a layer are spread over two devices."),
)
_KINDS = {
    "aggregated": "Aggregated: every instance reads prompts and writes answers.",
    "pd": "Disaggregated: some instances read prompts (prefill), others write the answers (decode), and each"
    " prompt's keys and values travel between them.",
}
_TIMES = (
    "TTFT: the time until the first token of an answer. TPOT: the time for each further token.",
    "End to end: the time until the last token.",
    "In flight: requests that are served at the same moment.",
)


def answer_part(decision: Contents, best: Sequence[Row], spoken: Callable[[str], str]) -> Iterator[Html]:
    yield paragraph(_subject(decision), kind="scope")
    first, *others = map(spoken, decision.plan.sentences())
    yield paragraph(first, kind="lead", id_="sentence")
    yield paragraph(_limits(decision.answer), kind="scope", id_="limits")
    told = [*_sure(decision, best[0]), *_money(best)] if best else []
    yield listed([*told, *(one for one in others if one.startswith(_FIRST))])


def words_part(rows: Sequence[Row]) -> Html:
    """The words that a report uses, for people who do not speak them every day."""
    plans = " ".join(short_plan(str(row[name])) for row in rows for name in _PLANS if row[name] is not None)
    used = set(_SPLIT.findall(plans))
    kinds = dict.fromkeys(str(row["mode"]) for row in rows)
    return listed([*(_KINDS[kind] for kind in kinds), *(told for name, told in _WORDS if name in used), *_TIMES])


_PLANS = ("plan", "prefill_plan", "decode_plan")


def _subject(decision: Contents) -> str:
    if decision.lengths is None:
        return decision.answer.scope[0]
    prompt, answer = decision.lengths
    return f"{decision.answer.scope[0]}. Prompts of {prompt:,.0f} tokens, answers of {answer:,.0f}."


def _sure(decision: Contents, row: Row) -> Iterator[str]:
    tokens = amount(row["output_tokens_per_s"])
    spans = "; ".join(rate_spans(decision.answer, str(row["device"]), str(row["mode"]), tokens))
    yield f"These numbers are predicted. Half of measured tokens/s lie {spans}."


def _money(best: Sequence[Row]) -> Iterator[str]:
    row = best[0]
    if row["usd_per_hour"] is None:
        yield f"What it costs is not known: no price of {row['device']} is stored."
        return
    least = min((one for one in best if one["usd_per_hour"] is not None), key=_a_token)
    yield f"It costs {amount(row['usd_per_hour']):,.2f} USD an hour, {_a_token(row):,.3g} USD a million output tokens."
    if least is not row and _a_token(least) < _a_token(row):
        kind = "aggregated" if least["mode"] == "aggregated" else "disaggregated"
        yield (
            f"For less money a token: {least['device']}, {kind}, {_a_token(least):,.3g} USD a million output tokens,"
            f" with {amount(least['system_requests_per_s']) / amount(row['system_requests_per_s']):.2f} x the rate."
        )


def _a_token(row: Row) -> float:
    return amount(row["usd_per_million_output_tokens"])


def _limits(answer: Answer) -> str:
    limits, pairs = answer.question.limits, answer.question.pairs
    told = [*limits.told(), *limits.surely, f"{limits.reserved_gib:g} GiB of each device kept free"]
    if pairs.num_devices is not None:
        told.append(counted(pairs.num_devices, "device"))
    if pairs.target_qps is not None:
        told.append(f"{pairs.target_qps:g} requests/s to carry")
    if pairs.target_users is not None:
        told.append(f"{counted(pairs.target_users, 'user')} at once")
    return f"Asked: {', '.join(told)}."
