"""A validation as a document, as tables and as flat rows. Not here: the picture (cli.render.scatter)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from cli.render.rows import table_lines
from sweepdb.measuring import PEER_FIELDS, AtRate, Choices, Figures, Group, Knowledge, Replay, Validation

FIGURES = ("rows", "median_ape", "mean_ape", "p90_ape", "bias")
COLUMNS = ("by", "group", "metric", *FIGURES)
KNOWN = "all, as known"  # the client, launch and lengths of the source, where it states them
PEER_COLUMNS = ("rows_of_peer", *(f"{name}_{side}" for side in ("there", "of_peer") for name in FIGURES[1:]))
STANDING_COLUMNS = ("by", "group", "whose", "rows", "e2e_median_ape", "e2e_mean_ape", "tau", "regret", "groups",
                    "tau_of_plans", "regret_of_plans", "groups_of_plans")  # fmt: skip
SHOWN_GROUPS = (("device",), ("device", "model", "engine"), ("mode",), ("engine",), ("batch_region",),
                ("length_region",))  # fmt: skip


def as_document(validation: Validation, *, against: str | None) -> dict[str, object]:
    """The answer as plain values; errors, biases and shares in percent. Groups are of points as asked."""
    document: dict[str, object] = {
        "overall": {
            name: asdict(found) for name in validation.metrics() if (found := validation.figures_of(name)) is not None
        },
        "as_known": {
            name: asdict(found)
            for name in validation.metrics()
            if (found := validation.figures_of(name, "known")) is not None
        },
        "groups": [_group_document(group, against) for group in validation.groups()],
        "excluded": [{"rule": one.rule, "rows": one.rows} for one in validation.excluded if not one.repaired],
        "repaired": [{"rule": one.rule, "rows": one.rows} for one in validation.excluded if one.repaired],
        "twins": {"pairs": validation.twins, "further_than_1.25_apart": validation.noisy_twins},
    }
    if validation.at_rates:
        document["at_rates"] = [{**asdict(one), "error": one.error} for one in validation.at_rates]
    if validation.replays:
        document["replays"] = [asdict(one) for one in validation.replays]
    if (spans := validation.first_tokens()) is not None:
        document["ttft_intervals"] = asdict(spans)
    ranking = validation.ranking()
    if ranking is not None:
        document["ranking"] = {"kendall_tau_mean": ranking[0], "groups": ranking[1]}
    if against is not None:
        document["peer"] = _peer_document(validation)
    return document


def _group_document(group: Group, against: str | None) -> dict[str, object]:
    beside = {} if against is None or group.peer is None else {"peer": _beside(group.peer)}
    values = dict(zip(group.by, group.values, strict=True))
    return {**values, "by": list(group.by), "metric": group.metric, **asdict(group.ours), **beside}


def _beside(both: tuple[Figures, Figures]) -> dict[str, object]:
    """The peer's figures, and ours over the same rows."""
    return {**asdict(both[1]), "ours": asdict(both[0])}


def _peer_document(validation: Validation) -> dict[str, object]:
    coverage = validation.coverage_of_peer
    peer: dict[str, object] = {"coverage": None if coverage is None else 100.0 * coverage}
    for metric in PEER_FIELDS:
        both = validation.peer_figures(metric)
        if both is not None:
            peer[metric] = _beside(both)
    standings = [asdict(one) for one in validation.beside_peer()]
    return {**peer, "standings": standings} if standings else peer


def flat_rows(validation: Validation, *, against: str | None) -> tuple[Sequence[str], list[list[object]]]:
    """One row for every group and metric, the whole first, as asked and as known. Groups are of points as asked.

    With a peer, ours and its over the rows both predict."""
    rows: list[list[object]] = []
    whole: tuple[tuple[Knowledge, str], ...] = (("asked", "all"), ("known", KNOWN))
    for knowledge, by in whole:
        for metric in validation.metrics():
            ours = validation.figures_of(metric, knowledge)
            if ours is not None:
                beside = _peer_cells(validation.peer_figures(metric, knowledge), against)
                rows.append([by, "all", metric, *_cells(ours), *beside])
    rows += [
        [" + ".join(group.by), ", ".join(group.values), group.metric, *_cells(group.ours),
         *_peer_cells(group.peer, against)]
        for group in validation.groups()
    ]  # fmt: skip
    return (COLUMNS if against is None else (*COLUMNS, *PEER_COLUMNS)), rows


def _cells(figures: Figures) -> list[object]:
    return [getattr(figures, name) for name in FIGURES]


def _peer_cells(both: tuple[Figures, Figures] | None, against: str | None) -> list[object]:
    if against is None:
        return []
    if both is None:
        return [None] * len(PEER_COLUMNS)
    ours, peer = both
    return [peer.rows, *_cells(ours)[1:], *_cells(peer)[1:]]


def table_text(validation: Validation, *, against: str | None) -> Iterator[str]:
    """Tables for a person: the whole, beside the peer where there is one, groups, exclusions, ranking."""
    _, rows = flat_rows(validation, against=against)
    yield "errors in percent: median, mean and 90th percentile of |predicted - measured| / measured;"
    yield " bias: median of the signed error\n\n"
    yield "as asked: model, device, plan, formats, mean lengths and users, as a question says them\n"
    yield from table_lines(COLUMNS[2:], [row[2 : len(COLUMNS)] for row in rows if row[0] == "all"])
    known = [row[2 : len(COLUMNS)] for row in rows if row[0] == KNOWN]
    if known != [row[2 : len(COLUMNS)] for row in rows if row[0] == "all"]:
        yield "\nas known: with the client and launch that the source states, too\n"
        yield from table_lines(COLUMNS[2:], known)
    if against is not None:
        yield from _peer_lines(validation, against)
    for by in SHOWN_GROUPS:
        name = " + ".join(by)
        found = [row[1 : len(COLUMNS)] for row in rows if row[0] == name]
        if found:
            yield "\n"
            yield from table_lines((name, *COLUMNS[2:]), found)
    yield from _first_token_lines(validation)
    yield from _rate_lines(validation.at_rates)
    yield from _replay_lines(validation.replays)
    yield from _left_out(validation)
    ranking = validation.ranking()
    if ranking is not None:
        yield f"\nranking: mean Kendall tau {ranking[0]:.2f} of tokens/s/device over {ranking[1]} groups that differ in"
        yield " plan or batch\n"


def _first_token_lines(validation: Validation) -> Iterator[str]:
    """How the ends of intervals compare with what was measured."""
    found = validation.first_tokens()
    if found is None:
        return
    yield (
        f"\nTTFT of {found.points} points is predicted as an interval, by whether users stay in step or drift apart:"
        f" {100 * found.inside / found.points:.0f} % were measured inside\n"
    )
    ends = (("apart", found.apart), ("in step", found.in_step))
    yield from table_lines(("users", *FIGURES), [[name, *_cells(one)] for name, one in ends])


def _peer_lines(validation: Validation, against: str) -> Iterator[str]:
    both = [(metric, validation.peer_figures(metric)) for metric in PEER_FIELDS]
    rows = [
        [metric, whose, *_cells(one)]
        for metric, found in both
        if found is not None
        for whose, one in zip(("ours", against), found, strict=True)
    ]
    if not rows:
        yield f"\nno row carries values predicted by {against}\n"
        return
    yield f"\nrows that {against} predicts too"
    if validation.coverage_of_peer is not None:
        yield f" (of those that no rule takes out we predict {validation.coverage_of_peer:.1%})"
    yield "\n"
    yield from table_lines(("metric", "whose", *FIGURES), rows)
    yield from _standing_lines(validation, against)


def _standing_lines(validation: Validation, against: str) -> Iterator[str]:
    """End-to-end errors, orders of plans and batches, and what choosing by them costs, beside the peer's."""
    rows = [
        [found.by, found.value, whose, one.rows, one.e2e.median_ape, one.e2e.mean_ape, *_choice_cells(one.choices),
         *_choice_cells(one.plans)]
        for found in validation.beside_peer()
        for whose, one in (("ours", found.ours), (against, found.peer))
    ]  # fmt: skip
    if rows:
        yield "\nend to end over the same rows; mean Kendall tau and regret of tokens/s/device (percent of the best"
        yield " that the predicted best lacks)\n"
        yield "of groups that differ in plan or batch, and in plan alone at equal users\n"
        yield from table_lines(STANDING_COLUMNS, rows)


def _choice_cells(choices: Choices | None) -> list[object]:
    return [None] * 3 if choices is None else [f"{choices.kendall_tau:.3f}", choices.regret, choices.groups]


def _rate_lines(at_rates: Sequence[AtRate]) -> Iterator[str]:
    """Points of an open loop beside loads at their rate, in ms."""
    if at_rates:
        yield "\npoints that state a rate of requests, beside stored loads at that rate: means in ms\n"
        columns = ("point", "requests_per_s", "metric", "measured", "predicted", "error", "knowledge")
        yield from table_lines(columns, [[_short(getattr(one, name)) for name in columns] for one in at_rates])


def _replay_lines(replays: Sequence[Replay]) -> Iterator[str]:
    """Logs of requests beside their replays, in ms."""
    if replays:
        yield "\nlogs of requests, replayed at their own times: ms measured and played, and the largest distance of the"
        yield " distributions (KS)\n"
        columns = [name for name in Replay.__slots__ if name != "requests_per_s"]
        yield from table_lines(columns, [[_short(getattr(one, name)) for name in columns] for one in replays])


def _short(value: object) -> object:
    return value[:12] if isinstance(value, str) else value


def _left_out(validation: Validation) -> Iterator[str]:
    for title, repaired in (("points left out, by rule", False), ("points repaired and kept, by rule", True)):
        rows = [[one.rule, one.rows] for one in validation.excluded if one.repaired is repaired]
        if rows:
            yield "\n"
            yield from table_lines((title, "rows"), rows)
    if validation.twins:
        yield f"\n{validation.twins} pairs of points have equal settings;"
        yield f" {validation.noisy_twins} of them lie more than a factor of 1.25 apart (kept)\n"
