"""Writes the shipped operators, evaluator/graph/operators.zip.

    python -m tools.shipped_operators [--anew]

Traces what the file lacks of the catalogue. `--anew`, or a raised CAPTURE_VERSION, traces everything in half an
hour."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from evaluator.evaluate import capture_requests
from evaluator.graph.capture import CaptureRequest, capture_operators
from evaluator.graph.operators import operators_to_json
from evaluator.graph.shipped import DRAFT, FILE, KEY, NUMBER, STEP, TEMPLATES, shipped_text
from evaluator.inputs import ModelSpec, Plan, Precision, list_models, load_device, load_model
from evaluator.inputs.formats import check_precision
from evaluator.inputs.images import EncoderSplit, ImageRequest
from evaluator.inputs.launchable import LAUNCHERS
from evaluator.inputs.plan_search import PlanSearch, plan_choices, powers_of_two
from evaluator.inputs.workloads.workload import Workload, with_images
from evaluator.scenario import Scenario, usual_precision
from store.errors import InputError

MOST_DEVICES = 64
USUAL_ENGINE = "vllm"  # whose plans are traced in every format; others' in the published one
FORMATS = ("FP8",)  # that engines quantise to as they load
CACHES = ("DISABLED",)  # of formats that are named; the published one comes with the published format
# Numbers as JSON has them, fractions as texts; the group is a text that is none, which stays.
_NUMBER = re.compile(r'"-?\d+/\d+"|("[^"]*")|-?\d+')
_TEXT = Workload(input_length=1, output_length=1)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same bytes each time


def wanted(spec: ModelSpec) -> Iterator[CaptureRequest]:
    """Every set that ships."""
    plans = {launchers: _plans(spec, launchers) for launchers in ((USUAL_ENGINE,), tuple(LAUNCHERS))}
    for precision, launchers in formats_of(spec).items():
        yield from steps_of(spec, plans[launchers], precision)
    if spec.vision is not None and not isinstance(spec.vision, str):
        for plan in sorted({Plan(tp=plan.tp, pp=plan.pp) for plan in plans[tuple(LAUNCHERS)]}):
            yield from (_encoder(spec, plan, split) for split in get_args(EncoderSplit))


def formats_of(spec: ModelSpec) -> dict[Precision, tuple[str, ...]]:
    """With the engines whose plans ship."""
    published = _published(spec)
    found: dict[Precision, tuple[str, ...]] = dict.fromkeys(
        (published, replace(published, drafts=spec.native_drafts)), tuple(LAUNCHERS)
    )
    for cache in CACHES:
        named = [check_precision(Precision(linear=name, experts=name, attention=cache)) for name in FORMATS]
        for precision in (replace(published, attention=cache), *named):
            found.setdefault(precision, (USUAL_ENGINE,))
    return found


def _published(spec: ModelSpec) -> Precision:
    """16 bits where not stated."""
    try:
        return check_precision(usual_precision(spec, "physical"))
    except InputError:
        return Precision()


def _plans(spec: ModelSpec, engines: Iterable[str]) -> list[Plan]:
    """For 1, 2, 4 ... 64 devices."""
    searches = [PlanSearch(rule="launchable", engine=engine) for engine in engines]
    found = (plan_choices(spec, size, search) for size in powers_of_two(MOST_DEVICES) for search in searches)
    return sorted({choice.plan for choices in found for choice in choices if choice.illegal is None})


def steps_of(spec: ModelSpec, plans: Iterable[Plan], precision: Precision) -> Iterator[CaptureRequest]:
    """Both kinds of steps."""
    for plan in plans:
        yield from capture_requests(
            _scenario(spec, plan, precision, Workload(input_length=1, output_length=1))
        ).values()


def _encoder(spec: ModelSpec, plan: Plan, split: EncoderSplit) -> CaptureRequest:
    seen = with_images(_TEXT, ImageRequest(count=1, width=512, height=512, split=split), spec)
    return capture_requests(_scenario(spec, plan, Precision(), seen))["encoder"]


def _scenario(spec: ModelSpec, plan: Plan, precision: Precision, workload: Workload) -> Scenario:
    device = load_device("H200_SXM")  # no operator depends on it
    return Scenario(model=spec, device=device, precision=precision, plan=plan, workload=workload, phase="aggregated")


@dataclass(slots=True)
class Packing:
    """A model's sets as a member of the file, templates as texts."""

    columns: dict[str, int] = field(default_factory=dict)
    tables: dict[str, dict[tuple[str, ...], int]] = field(default_factory=dict)  # rows of a template, each once
    shapes: dict[tuple[tuple[str, ...], int], list[tuple[tuple[str, str], list[int]]]] = field(default_factory=dict)

    def add(self, place: tuple[str, str], text: str) -> None:
        data = json.loads(text)
        steps, drafts = data["operators"], data.get("draft_operators", [])
        data |= {"key": KEY[1:-1], "operators": [STEP[1:-1]]}
        data |= {"draft_operators": [DRAFT[1:-1]]} if drafts else {}
        parts = [_taken_apart(_text(part)) for part in (data, *steps, *drafts)]
        rows = []
        for template, numbers in parts:
            table = self.tables.setdefault(template, {})
            rows.append(table.setdefault(numbers, len(table)))
        shape = tuple(template for template, _ in parts), len(steps)
        self.shapes.setdefault(shape, []).append((place, rows))

    def member(self) -> dict[str, Any]:
        """Plain lists."""
        places = sorted(place for sets in self.shapes.values() for place, _ in sets)
        plans, others = (sorted({place[part] for place in places}) for part in (0, 1))
        tables = {
            template: [self._column(numbers) for numbers in zip(*rows, strict=True)]
            for template, rows in self.tables.items()
        }
        numbered = {template: number for number, template in enumerate(tables)}
        shapes = [
            [
                item
                for template, rows in zip(templates, zip(*(rows for _, rows in sets), strict=True), strict=True)
                for item in (numbered[template], self._column(map(str, rows)))
            ]
            for (templates, _), sets in self.shapes.items()
        ]
        return {
            "plans": plans,
            "others": others,
            "rows": [
                [[plans.index(place[0]) for place, _ in sets], [others.index(place[1]) for place, _ in sets]]
                for sets in self.shapes.values()
            ],
            "steps": [steps for _, steps in self.shapes],
            "tables": [[template, *columns] for template, columns in tables.items()],
            "shapes": shapes,
            "columns": list(self.columns),
        }

    def _column(self, values: Iterable[str]) -> int:
        column = list(values)
        text = column[0] if len(set(column)) == 1 else " ".join(column)
        return self.columns.setdefault(text, len(self.columns))


def _text(part: object) -> str:
    return json.dumps(part, sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=16_384)
def _taken_apart(text: str) -> tuple[str, tuple[str, ...]]:
    """JSON without numbers, and the numbers."""
    return _NUMBER.sub(lambda found: found[1] or NUMBER, text), tuple(
        found[0] for found in _NUMBER.finditer(text) if not found[1]
    )


def packed(requests: Iterable[CaptureRequest], *, anew: bool) -> tuple[dict[str, Any], int, int]:
    """A member, its number of sets, and how many were traced."""
    found: dict[tuple[str, str], str] = {}
    traced = 0
    for request in requests:
        place = request.place[1:]
        if place not in found:
            text = None if anew else shipped_text(request)
            traced += text is None
            found[place] = text or operators_to_json(capture_operators(request))
    packing = Packing()
    for place in sorted(found, key=lambda one: one[::-1]):
        packing.add(place, found[place])
    return packing.member(), len(found), traced


def of_models(names: tuple[str, ...], anew: bool) -> tuple[str, dict[str, Any], int, int]:
    """Models that differ in names, published formats and encoders alone."""
    specs = [load_model(name)[1] for name in names]
    requests = (request for spec in specs for request in wanted(spec))
    return _model_of(specs[0]), *packed(requests, anew=anew)


def _model_of(spec: ModelSpec) -> str:
    return next(steps_of(spec, [Plan()], Precision())).place[0]


def write(members: Mapping[str, dict[str, Any]], path: Path) -> None:
    """Models share templates."""
    templates = sorted({table[0] for member in members.values() for table in member["tables"]})
    numbered = {template: number for number, template in enumerate(templates)}
    written = {TEMPLATES: templates} | {
        name: {**member, "tables": [[numbered[template], *columns] for template, *columns in member["tables"]]}
        for name, member in sorted(members.items())
    }
    beside = path.with_suffix(".new")
    with ZipFile(beside, "w", ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in written.items():
            text = json.dumps(content, separators=(",", ":"))
            file.writestr(ZipInfo(name, _LONG_AGO), text, ZIP_DEFLATED, compresslevel=9)
    beside.replace(path)


def main(arguments: list[str]) -> None:
    anew = arguments == ["--anew"] or not FILE.exists()
    alike: dict[str, list[str]] = {}
    for name in list_models():
        alike.setdefault(_model_of(load_model(name)[1]), []).append(name)
    members: dict[str, dict[str, Any]] = {}
    total = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        todo = [pool.submit(of_models, tuple(names), anew) for names in alike.values()]
        for number, (one, names) in enumerate(zip(todo, alike.values(), strict=True), start=1):
            model, member, sets, traced = one.result()
            members[model], total = member, total + sets
            sys.stderr.write(f"{number}/{len(todo)} {names[0]}: {sets} sets, {traced} traced\n")
    write(members, FILE)
    sys.stderr.write(f"{FILE}: {total} sets, {FILE.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
