"""Questions from Python: one method a report, keywords named as the command's options. For notebooks."""

from __future__ import annotations

from typing import Any

from queries.asking.library import reports
from queries.asking.question import Answer, Question, question_of
from queries.session import Session
from store.location import parse_url


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

    def capacity(self, **options: Any) -> Answer:  # noqa: ANN401
        """What each number of devices carries, and the fewest that carry `target_qps`."""
        return self._ask("capacity", options)

    def compare(self, **options: Any) -> Answer:  # noqa: ANN401
        """The best aggregated deployment against the best split one on `num_devices`."""
        return self._ask("compare", options)

    def pareto(self, **options: Any) -> Answer:  # noqa: ANN401
        """Configurations that no other beats in both tokens/s/device and tokens/s/user."""
        return self._ask("pareto", options)

    def curve(self, **options: Any) -> Answer:  # noqa: ANN401
        """Every stored batch size of each plan that fits memory."""
        return self._ask("curve", options)

    def devices(self, **options: Any) -> Answer:  # noqa: ANN401
        """The best configuration of each device; `mode` chooses the phase, or pd."""
        return self._ask("devices", options)

    def nearest(self, **options: Any) -> Answer:  # noqa: ANN401
        """The closest misses of the limits."""
        return self._ask("nearest", options)

    def sensitivity(self, **options: Any) -> Answer:  # noqa: ANN401
        """The best throughput as a function of the limits in `vary`."""
        return self._ask("sensitivity", options)

    def why(self, **options: Any) -> Answer:  # noqa: ANN401
        """Two `probes` side by side."""
        return self._ask("why", options)

    def diff(self, **options: Any) -> Answer:  # noqa: ANN401
        """What changed between two `sweeps` of the same subjects."""
        return self._ask("diff", options)

    def coverage(self, **options: Any) -> Answer:  # noqa: ANN401
        """What is stored, how densely, with how many failures."""
        return self._ask("coverage", options)

    def cost(self, **options: Any) -> Answer:  # noqa: ANN401
        """Tokens per $ and per kWh by the prices entered."""
        return self._ask("cost", options)

    def by_length(self, **options: Any) -> Answer:  # noqa: ANN401
        """The best aggregated plan and P:D pair of each stored workload, by input length."""
        return self._ask("by-length", options)

    def mix(self, **options: Any) -> Answer:  # noqa: ANN401
        """A weighted blend of workloads, `mix=(("chat", 0.6), ("code", 0.4))`, on `num_devices`."""
        return self._ask("mix", options)

    def report(self, name: str, **options: Any) -> Answer:  # noqa: ANN401
        """Any report by its name."""
        return self._ask(name, options)

    def reports(self) -> dict[str, str]:
        """Every report's name and summary."""
        return {name: item.summary for name, item in reports().items()}

    def _ask(self, name: str, options: dict[str, Any]) -> Answer:
        return self._session.ask(question_of(name, options))
