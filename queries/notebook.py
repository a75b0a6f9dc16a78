"""Questions from Python: one method a report, keywords named as the command's options. For notebooks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from queries.library import reports
from queries.question import PRESETS, Answer, Definitions, Limits, PairOptions, Question, ReportOptions, Scope
from queries.session import Session
from store.errors import InputError
from store.location import parse_url

_LIMITS = {
    "ttft_limits": "ttft_ms",
    "tpot_limits": "tpot_ms",
    "e2e_limits": "e2e_ms",
    "min_tokens_per_s_per_user": "min_tokens_per_s_per_user",
    "reserved_memory_gb": "reserved_gib",
}
_RULES = {
    "tpot_definition": "tpot",
    "prefill_qps": "prefill_qps",
    "decode_qps": "decode_qps",
    "throughput": "throughput",
    "allocation": "allocation",
    "kv_charge": "kv_charge",
}


class Notebook:
    """A store open for questions; `best(tpot_limits=50)` is `sweepdb query best --tpot-limits 50`."""

    def __init__(self, url: str | None = None) -> None:
        self._session = Session(parse_url(url))

    def ask(self, question: Question) -> Answer:
        """Answer a question built by hand."""
        return self._session.ask(question)

    def close(self) -> None:
        """Release the store."""
        self._session.close()

    def best(self, **options: Any) -> Answer:  # noqa: ANN401  keywords are checked by name below
        """The best batch size of each aggregated plan under the limits."""
        return self._ask("best", options)

    def prefill(self, **options: Any) -> Answer:  # noqa: ANN401
        """The best batch size of each prefill plan under the limits."""
        return self._ask("prefill", options)

    def decode(self, **options: Any) -> Answer:  # noqa: ANN401
        """The best batch size of each decode plan under the limits."""
        return self._ask("decode", options)

    def pd_ratio(self, **options: Any) -> Answer:  # noqa: ANN401
        """Prefill and decode instances paired, one line a pair of plans."""
        return self._ask("pd-ratio", options)

    def report(self, name: str, **options: Any) -> Answer:  # noqa: ANN401
        """Any report by its name."""
        return self._ask(name, options)

    def reports(self) -> dict[str, str]:
        """Every report's name and summary."""
        return {name: item.summary for name, item in reports().items()}

    def _ask(self, name: str, options: dict[str, Any]) -> Answer:
        given = dict(options)
        preset = PRESETS[given.pop("preset", "sweepdb")]
        rules = {_RULES[key]: given.pop(key) for key in list(given) if key in _RULES}
        limits = {_LIMITS[key]: given.pop(key) for key in list(given) if key in _LIMITS}
        pairs = {item.name: given.pop(item.name) for item in fields(PairOptions) if item.name in given}
        scope = {item.name: given.pop(item.name) for item in fields(Scope) if item.name in given}
        options_ = {item.name: given.pop(item.name) for item in fields(ReportOptions) if item.name in given}
        plain = {key: given.pop(key) for key in ("top", "rank_by") if key in given}
        if "model" in given:
            scope["models"] = (given.pop("model"),)
        if "device" in given:
            scope["devices"] = (given.pop("device"),)
        if given:
            raise InputError(f"unknown option {min(given)!r} of {name}")
        definitions = {**{item.name: getattr(preset, item.name) for item in fields(Definitions)}, **rules}
        return self._session.ask(
            Question(
                report=name,
                scope=Scope(**scope),
                limits=Limits(**limits),
                definitions=Definitions(**definitions),
                pairs=PairOptions(**pairs),
                options=ReportOptions(**options_),
                **plain,
            )
        )
