"""Decisions for REST and tools: a question about stored rows, answered with the run that is worth most.

Not here: deciding (sweepdb.deciding)."""

from __future__ import annotations

from collections.abc import Mapping

from queries.asking import Question, shown
from store.errors import InputError, NothingFits
from store.location import StoreLocation
from sweepdb.deciding import BUDGET, GAIN, Decision, decided, document
from sweepdb.sessions import open_session
from sweepdb.web.documents import plain


def decision_document(location: StoreLocation, question: Question, own: Mapping[str, object]) -> dict[str, object]:
    return {name: plain(value) for name, value in document(_asked(location, question, own)).items()}


def decision_script(location: StoreLocation, question: Question, own: Mapping[str, object]) -> str:
    start = _asked(location, question, own).next_start
    if start is None:
        raise NothingFits("no run is worth it")
    from sweepdb.launching import launch_files, one_script

    ladder = [one.concurrency for one in start.ladder]
    files, _ = launch_files(start.probe, store=location.url, ladder=ladder)
    return one_script(files, f"run-{start.scenario}")


def _asked(location: StoreLocation, question: Question, own: Mapping[str, object]) -> Decision:
    budget, gain = _number(own, "budget", BUDGET), _number(own, "gain", GAIN)
    if budget != int(budget):
        raise InputError(f"`budget={budget:g}` is not a whole number of starts")
    with open_session(location.url) as session:
        return decided(session, question, budget=int(budget), gain=gain)


def _number(own: Mapping[str, object], name: str, default: float) -> float:
    try:
        return float(str(own.get(name, default)))
    except ValueError:
        raise InputError(f"`{name}` is a number, not {shown(own[name])}") from None
