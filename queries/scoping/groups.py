"""Groups of scenarios that may be ranked or paired; titles name what is unusual."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING

from store.light_dataclass import NamedTuple
from store.schema import FORMULAS, SERVICE, TITLES, USUAL_CONVENTION, Served

if TYPE_CHECKING:
    from store.records import PrecisionRecord

COLUMNS = (  # of a scenario, in the order of Found
    "sc.id", "sc.key", "m.name", "COALESCE(w.name, w.label)", "w.key", "pr.linear_quantization",
    "pr.experts_quantization", "pr.attention_quantization", "pr.mxfp4_group_size",
    "pr.mixers_quantization", "pr.head_quantization", "pr.drafts_quantization", "sj.convention", "sj.phase",
    "sc.formula_version", "d.family", "sj.serving_model", "sj.model_id", "sj.workload_id", "sj.precision_id",
    "sj.compile", "sj.serving_cost_ms", "w.mtp_tokens", "w.output_length", "sj.device_name", "sj.unusual_service",
    *(f"sj.{name}" for name in SERVICE),
)  # fmt: skip
_UNBOUNDED = 0  # seats where as many are served as ask: stored as NULL, yet read
_USUAL_GROUP_SIZE = 32
Base = tuple[object, ...]  # what all rows of a group have in common beside their service
Service = frozenset[tuple[str, object]]  # what a row states of SERVICE


class Found(NamedTuple):
    id: int
    key: str
    model: str
    workload: str
    workload_key: str
    linear_quantization: str
    experts_quantization: str
    attention_quantization: str
    mxfp4_group_size: int
    mixers_quantization: str | None
    head_quantization: str | None
    drafts_quantization: str | None
    convention: str
    phase: str
    formula_version: int
    family: str
    serving_model: str
    model_id: int
    workload_id: int
    precision_id: int
    compile: bool
    serving_cost_ms: float
    mtp_tokens: int
    output_length: float
    device: str
    unusual_service: str | None
    served: Served

    @property
    def service(self) -> Service:
        return _stated(self.served)


@lru_cache(maxsize=1024)
def _stated(served: Served) -> Service:
    stated = asdict(served)
    if stated["poll_steps"] is not None and stated["seats"] is None:  # a closed loop reads seats, bounded or not
        stated["seats"] = _UNBOUNDED
    return frozenset((name, value) for name, value in stated.items() if value is not None)


class Group(NamedTuple):
    """Shared values, stated service, and one for its names."""

    base: Base
    service: Service
    example: Found


def base_of(row: Found, *, over_workloads: bool = False, blended: bool = False) -> Base:
    """Besides service. A blend joins workloads whatever they draft."""
    workload = row.mtp_tokens if over_workloads and not blended else None if over_workloads else row.workload_id
    return (
        row.model_id, workload, row.precision_id, row.convention, row.serving_model, bool(row.compile),
        float(row.serving_cost_ms), row.formula_version,
    )  # fmt: skip


class Grouping:
    """In order. A row that states less belongs to every group it agrees with."""

    def __init__(
        self,
        rows: Sequence[Found],
        phases: Collection[str],
        *,
        over_workloads: bool = False,
        blended: bool = False,
    ) -> None:
        placed = [(base_of(row, over_workloads=over_workloads, blended=blended), row.service) for row in rows]
        stated: dict[Base, dict[Service, Found]] = defaultdict(dict)
        for row, (base, service) in sorted(
            zip(rows, placed, strict=True), key=lambda item: item[0].phase not in phases
        ):
            if row.phase in phases or not stated[base]:  # phases that are looked at come first
                stated[base].setdefault(service, row)
        self.groups: list[Group] = []
        self._by_base: dict[Base, list[int]] = defaultdict(list)
        for row, (base, _) in zip(rows, placed, strict=True):  # in the order of the rows, not of the phases
            if base not in self._by_base:
                for service in joined_services(stated[base]):
                    self._by_base[base].append(len(self.groups))
                    self.groups.append(Group(base=base, service=service, example=stated[base].get(service, row)))
        mine = {place: self._numbers_at(*place) for place in set(placed)}
        self.numbers: tuple[tuple[int, ...], ...] = tuple(mine[place] for place in placed)  # beside the rows

    def _numbers_at(self, base: Base, service: Service) -> tuple[int, ...]:
        return tuple(number for number in self._by_base[base] if _agree(self.groups[number].service, service))

    def titles(self, workload: str | None, models: Mapping[int, str]) -> tuple[str, ...]:
        """A model is named as it was asked for."""
        if not self.groups:
            return ()
        newest: dict[str, int] = {}  # of each convention, which has formulas of its own
        for group in self.groups:
            row = group.example
            newest[row.convention] = max(row.formula_version, newest.get(row.convention, 0))
        lines = [
            _title(group, workload or row.workload, self._varied(group), newest[row.convention], models)
            for group in self.groups
            for row in [group.example]
        ]
        twice = {line for line, count in Counter(lines).items() if count > 1}
        return tuple(
            f"{line} · workload {group.example.workload_key[:8]}" if line in twice else line
            for line, group in zip(lines, self.groups, strict=True)
        )

    def _varied(self, group: Group) -> set[str]:
        """Parts that tell it from groups otherwise alike."""
        services = [dict(self.groups[number].service) for number in self._by_base[group.base]]
        return {name for name in SERVICE if len({service.get(name) for service in services}) > 1}


def joined_services(stated: Iterable[Service]) -> list[Service]:
    """Largest compatible unions, in order of statement.

    {lengths 1}, {lengths 1, seats 8}, {lengths 1, seats 9}: the last two; the first belongs to both."""
    unions: list[Service] = []
    for one in dict.fromkeys(stated):
        unions = list(dict.fromkeys([*unions, *(known | one for known in unions if _agree(known, one)), one]))
    return [one for one in unions if not any(one < other for other in unions)]


def _agree(known: Service, one: Service) -> bool:
    held = dict(known)
    return all(held.get(name, value) == value for name, value in one)


def _title(group: Group, workload: str, varied: Collection[str], newest: int, models: Mapping[int, str]) -> str:
    row = group.example
    parts = [
        models.get(row.model_id, row.model),
        workload,
        formats_title(row),
        "" if row.convention == USUAL_CONVENTION else row.convention,
        "" if row.serving_model == FORMULAS else row.serving_model,
        "" if row.compile else "eager",
        f"serving cost {row.serving_cost_ms:g} ms" if row.serving_cost_ms else "",
        f"{row.mtp_tokens} drafts" if row.mtp_tokens and f"mtp {row.mtp_tokens}" not in workload else "",
        *_service_parts(dict(group.service), varied, (row.unusual_service or "").split(",")),
        "" if row.formula_version == newest else f"formula version {row.formula_version}",
    ]
    return " · ".join(part for part in parts if part)


def formats_title(row: Found | PrecisionRecord) -> str:
    linear, experts, cache = row.linear_quantization, row.experts_quantization, row.attention_quantization
    named = {
        "experts": None if experts == linear else experts,
        "mixers": row.mixers_quantization,
        "head": row.head_quantization,
        "drafts": row.drafts_quantization,
        "KV": None if cache == "DISABLED" else cache,
    }
    said = [linear, *(f"{part} {name}" for part, name in named.items() if name is not None)]
    grouped = row.mxfp4_group_size != _USUAL_GROUP_SIZE and "MXFP4" in f"{linear}{named}"
    return ", ".join(said) + (f", groups of {row.mxfp4_group_size}" if grouped else "")


def _service_parts(service: Mapping[str, object], varied: Collection[str], unusual: Collection[str]) -> Iterable[str]:
    """Unusual lengths, and differences between groups."""
    for name, title in sorted(TITLES.items(), key=lambda item: item[0] not in {"shortest_length", "routing"}):
        value = service.get(name)
        if value is None or not (name in varied or (name == "shortest_length" and name in unusual)):
            continue
        if name == "shortest_length" and value == 1:
            yield "lengths alike"
        elif name == "seats" and value == _UNBOUNDED:
            yield "no max-num-seqs"
        else:
            yield title.format(value).replace("_", " ")
