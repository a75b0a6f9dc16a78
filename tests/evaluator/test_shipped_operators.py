"""Operators that ship: of every model, what is traced now; and one file for the same sets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluator.graph import shipped
from evaluator.graph.capture import capture_operators
from evaluator.graph.operators import operators_to_json
from evaluator.graph.shipped import shipped_text
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import list_models, load_model
from evaluator.inputs.plan_search import PlanSearch, plan_choices
from tools import shipped_operators
from tools.shipped_operators import formats_of, steps_of

ROOT = Path(__file__).parents[2]
RUNS = 8  # days after which each model has had its turn
TODAY = datetime.now(UTC).date().toordinal()


@pytest.mark.parametrize("name", list_models())
def test_every_model_ships_as_it_is_published(name):
    """Red once a model is added, or CAPTURE_VERSION is raised, without a new file."""
    _, spec = load_model(name)
    published, *_ = formats_of(spec)
    for request in steps_of(spec, [Plan()], published):
        assert shipped_text(request) is not None, "python -m tools.shipped_operators writes what ships"


@pytest.mark.parametrize("name", list_models()[TODAY % RUNS :: RUNS])
def test_what_ships_is_what_is_traced(name):
    """Another plan and other formats each day."""
    _, spec = load_model(name)
    formats = formats_of(spec)
    precision = list(formats)[TODAY // RUNS % len(formats)]
    choices = plan_choices(spec, 1 << TODAY % 7, PlanSearch(rule="launchable", engine=formats[precision][-1]))
    legal = [choice.plan for choice in choices if choice.illegal is None] or [Plan()]
    for request in steps_of(spec, [legal[TODAY % len(legal)]], precision):
        assert shipped_text(request) == operators_to_json(capture_operators(request))


def test_what_does_not_ship_is_traced():
    _, spec = load_model("Qwen/Qwen3-0.6B")
    published, *_ = formats_of(spec)
    request = next(steps_of(spec, [Plan(tp=4, dp=3)], published))  # 12 devices: no power of two
    assert shipped_text(request) is None
    assert shipped.operators_text(request) == (operators_to_json(capture_operators(request)), True)


def test_the_same_sets_give_the_same_bytes_and_read_back_as_they_were(tmp_path, monkeypatch):
    requests = [
        request
        for name in ("facebook/opt-125m", "Qwen/Qwen3-30B-A3B")
        for precision in formats_of(load_model(name)[1])
        for plan in (Plan(), Plan(tp=2, dp=1, ep=1))
        for request in steps_of(load_model(name)[1], [plan if name == "facebook/opt-125m" else Plan()], precision)
    ]
    members: dict = {}
    for request in requests:
        members.setdefault(request.place[0], []).append(request)
    packed = {name: shipped_operators.packed(some, anew=True)[0] for name, some in members.items()}
    again = {name: shipped_operators.packed(some[::-1], anew=True)[0] for name, some in reversed(members.items())}
    files = [tmp_path / "one.zip", tmp_path / "another.zip"]
    shipped_operators.write(packed, files[0])
    shipped_operators.write(again, files[1])
    assert files[0].read_bytes() == files[1].read_bytes()
    for kept in (shipped._file, shipped._templates, shipped._shelf):
        kept.cache_clear()
    monkeypatch.setattr(shipped, "FILE", files[0])
    try:
        for request in requests:
            assert shipped_text(request) == operators_to_json(capture_operators(request))
    finally:
        for kept in (shipped._file, shipped._templates, shipped._shelf):
            kept.cache_clear()
