"""Readies many scenarios: operators, batch sizes, keyed records, or reasons why not."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field

from evaluator.evaluate import assumptions_of, capture_requests, unsupported
from evaluator.graph.capture import CaptureRequest
from evaluator.graph.operators import OperatorSet, operators_from_json
from evaluator.graph.shipped import operators_of_request, operators_text
from evaluator.identity import RecordBuilder
from evaluator.request import PlannedScenario
from evaluator.scenario import Scenario
from evaluator.together.ranges import BatchRange
from evaluator.together.side_evaluation import Ranged, batch_ranges, likeness
from store.errors import SweepdbError
from store.light_dataclass import dataclass
from store.opening import Store
from store.records import OperatorSetRecord, ScenarioRecord
from store.schema import Status
from store.writing import get_operators, put_operators

_MOST_SAID = 4096


@dataclass(frozen=True, slots=True)
class ReadyScenario:
    """Ready, or failed."""

    planned: PlannedScenario
    record: ScenarioRecord
    operators: Mapping[str, OperatorSet]
    interval: tuple[int, int] | None
    fits: bool = False


@dataclass(slots=True, kw_only=True)
class Readying:
    """Keeps what scenarios of a sweep share."""

    store: Store
    records: RecordBuilder = field(default_factory=RecordBuilder)
    operators: dict[str, OperatorSet] = field(default_factory=dict)
    captured: int = 0
    _said: dict[Hashable, tuple[str | None, object]] = field(default_factory=dict)

    def ready(self, chunk: Sequence[PlannedScenario]) -> list[ReadyScenario]:
        wrong = [_wrong(planned) for planned in chunk]
        wanted = [{} if why else captures(planned) for planned, why in zip(chunk, wrong, strict=True)]
        self._provide({item.key: item for some in wanted for item in some.values()})
        asked: list[tuple[int, Ranged]] = []
        made: dict[int, ReadyScenario] = {}
        for place, (planned, why, some) in enumerate(zip(chunk, wrong, wanted, strict=True)):
            if why is not None:
                made[place] = self.failed(planned, *why)
            else:
                sets = {trace: self.operators[item.key] for trace, item in some.items()}
                asked.append((place, (planned.scenario, sets, planned.batch_range[1])))
        for (place, (_, held, _)), found in zip(asked, batch_ranges([one for _, one in asked]), strict=True):
            made[place] = self._ready(chunk[place], held, found)
        return [made[place] for place in range(len(chunk))]

    def failed(self, planned: PlannedScenario, status: Status, reason: str) -> ReadyScenario:
        record = self.records.scenario(planned.model_name, planned.scenario, status=status, reason=reason)
        return ReadyScenario(planned, record, {}, None)

    def _ready(
        self, planned: PlannedScenario, operators: Mapping[str, OperatorSet], found: BatchRange | Exception
    ) -> ReadyScenario:
        said = found if isinstance(found, Exception) else self._assumptions(planned.scenario, operators)
        if isinstance(said, SweepdbError):
            return self.failed(planned, "unsupported", said.message)
        if isinstance(said, Exception) or isinstance(found, Exception):
            return self.failed(planned, "error", f"{type(said).__name__}: {said}")
        record = self.records.scenario(planned.model_name, planned.scenario, assumptions=said)
        first = planned.batch_range[0]
        return ReadyScenario(planned, record, operators, (first, max(first, found.last)), found.largest_fitting >= 1)

    def _assumptions(self, scenario: Scenario, operators: Mapping[str, OperatorSet]) -> str | Exception | None:
        alike = likeness(scenario, operators, in_memory=True)
        if alike in self._said:
            return self._said[alike][0]
        try:
            said = "\n".join(assumptions_of(scenario, operators)) or None
        except Exception as error:  # noqa: BLE001  one scenario's failure is a row with its reason, not the sweep's end
            return error
        if alike is not None:
            if len(self._said) >= _MOST_SAID:
                self._said.clear()
            self._said[alike] = said, (scenario, operators)  # held, for they are told by identity
        return said

    def _provide(self, wanted: Mapping[str, CaptureRequest]) -> None:
        missing = [key for key in wanted if key not in self.operators]
        self.operators = {key: self.operators[key] for key in wanted if key in self.operators}
        self.operators |= {key: operators_from_json(text) for key, text in get_operators(self.store, missing).items()}
        new = {key: operators_text(wanted[key]) for key in missing if key not in self.operators}
        if not new:
            return
        put_operators(self.store, [OperatorSetRecord(key=key, payload=text) for key, (text, _) in new.items()])
        self.operators |= {key: operators_from_json(text) for key, (text, _) in new.items()}
        self.captured += sum(traced for _, traced in new.values())


def wanted_captures(some: Iterable[PlannedScenario]) -> dict[str, CaptureRequest]:
    return {item.key: item for planned in some if _wrong(planned) is None for item in captures(planned).values()}


def captures(planned: PlannedScenario) -> dict[str, CaptureRequest]:
    return dict(capture_requests(planned.scenario).items())


def capture(request: CaptureRequest, operators: dict[str, OperatorSet]) -> OperatorSet:
    """Shipped or traced, then kept in `operators`."""
    operators[request.key] = operators_of_request(request)
    return operators[request.key]


def _wrong(planned: PlannedScenario) -> tuple[Status, str] | None:
    if planned.illegal is not None:
        return "illegal", planned.illegal
    if planned.scenario.drafting and planned.scenario.model.mtp_layers == 0:
        return "unsupported", f"{planned.model_name} has no MTP module to draft tokens with"
    error = unsupported(planned.scenario)
    return None if error is None else ("unsupported", f"{error.message} ({error.hint})".replace("`", ""))
