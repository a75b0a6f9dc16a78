"""Engine profiles as files: what is written is read back, what is wrong is named with its key, content is the key."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evaluator.canonical import canonical
from evaluator.inputs.engines.engine_numbers import CLIENT_RANGES, PROFILE_RANGES
from evaluator.inputs.engines.engine_profiles import (
    NUMBERS,
    Client,
    EngineProfile,
    FittedEngine,
    as_yaml,
    described,
    engine_from_file,
    engine_from_mapping,
    engine_profile,
    key_of_engine,
    label_of_engine,
    list_engines,
    unfitted_engine,
    with_numbers,
)
from evaluator.restore import restored
from store.errors import InputError

PROFILE = {"name": "mine", "admission": "mixed", "profile": {"token_budget": 3000, "step_ms": 0.5}}


@pytest.mark.parametrize("name", list_engines())
def test_every_engine_has_a_profile_that_names_its_source(name: str) -> None:
    profile = engine_profile(name)
    assert profile.name == name
    assert profile.admission == unfitted_engine(name).admission
    assert 0.5 <= profile.prefill_factor <= 2.5


def test_users_drift_apart_under_every_engine_but_old_sglang() -> None:
    drifts = {name: 1.0 - engine_profile(name).client.shortest for name in list_engines()}
    assert drifts.pop("sglang_locked") == 0.0
    assert drifts.pop("vllm") == pytest.approx(0.1)  # every client of its points draws lengths
    assert drifts.pop("sglang") == pytest.approx(0.02)  # nearest with a host that works ahead
    assert drifts.pop("trtllm") == pytest.approx(0.02)  # some clients of its points draw lengths, some do not
    assert all(0.005 <= drift <= 0.01 + 1e-9 for drift in drifts.values())
    assert engine_from_mapping(PROFILE).profile.client == Client(shortest=0.99)
    today, old = engine_profile("sglang"), engine_profile("sglang_locked")
    assert replace(old, name=today.name, client=today.client) == today


milliseconds = st.floats(0.0, 1000.0).map(lambda value: round(value, 6))
profiles = st.builds(
    EngineProfile,
    name=st.sampled_from(["mine", "vllm-2", "a.b_c"]),
    admission=st.sampled_from(["mixed", "prefill_first"]),
    token_budget=st.integers(1, 2**30),
    prefill_factor=st.floats(0.5, 2.0).map(lambda value: round(value, 6)),
    step_ms=milliseconds,
    request_ms=milliseconds,
    client=st.builds(Client, shortest=st.sampled_from([0.5, 1.0]), prompts_per_user=st.integers(1, 20)),
)


@given(profile=profiles)
def test_what_is_written_or_stored_is_read_back(profile: EngineProfile) -> None:
    held_out = {("h100_sxm", "a/b"): with_numbers(profile, {"step_ms": 7.0})}
    fitted = FittedEngine(profile=profile, held_out=held_out, source="20 points of a: b")
    assert engine_from_mapping(yaml.safe_load(as_yaml(fitted))) == fitted
    assert restored(canonical(profile)) == profile


@given(profile=profiles)
def test_the_label_is_the_content_and_the_name_is_no_content(profile: EngineProfile) -> None:
    assert key_of_engine(replace(profile, name="other")) == key_of_engine(profile)
    assert label_of_engine(profile) == f"{profile.name}@{key_of_engine(profile)[:8]}"
    assert len(label_of_engine(profile)) <= 64  # the column that holds it
    changed = [with_numbers(profile, {name: getattr(profile, name) + 1}) for name in NUMBERS]
    changed += [replace(profile, client=replace(profile.client, poll_steps=7))]
    changed += [replace(profile, admission="mixed" if profile.admission == "prefill_first" else "prefill_first")]
    assert len({key_of_engine(one) for one in (profile, *changed)}) == 1 + len(changed)


def test_a_number_that_came_later_is_in_no_key_where_it_is_as_before() -> None:
    plain = EngineProfile(name="x", admission="mixed")
    assert key_of_engine(plain) == "c8f219b5dcc4021fa5e3a77da700480a114e96c9aff90cba6b28f839cb6ec6b4"
    assert key_of_engine(with_numbers(plain, {"latent_layer_ms": 0.5})) != key_of_engine(plain)
    assert key_of_engine(with_numbers(plain, {"handover_ms": 80.0})) != key_of_engine(plain)


def test_every_number_has_a_range() -> None:
    assert set(PROFILE_RANGES) == set(NUMBERS)
    assert set(CLIENT_RANGES) == {item.name for item in fields(Client)}


def test_every_number_is_described() -> None:
    text = described(EngineProfile(name="x", admission="mixed", request_ms=27.830741))
    assert all(f"{name} " in text for name in (*NUMBERS, *(item.name for item in fields(Client))))
    assert "request_ms 27.830741," in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a b"}, "name must be up to 40 letters, digits, dots and dashes, not 'a b'"),
        ({"name": "x" * 41}, "name must be up to 40"),
        ({"admission": "fifo"}, "line 1: admission must be one of prefill_first, mixed, not 'fifo'"),
        ({"profile": {"stepms": 1}}, "unknown key 'stepms'"),
        ({"profile": {"step_ms": True}}, "step_ms must be a number from 0"),
        ({"profile": {"step_ms": float("nan")}}, "step_ms must be a number from 0"),
        ({"profile": {"token_budget": 10.5}}, "token_budget must be a whole number from 1"),
        ({"profile": {"prefill_factor": 0}}, "prefill_factor must be a number from 0.01 to 100, not 0"),
        ({"client": {"shortest": 1.5}}, "shortest must be a number from 0.01 to 1, not 1.5"),
        ({"client": {"poll": 2}}, "unknown key 'poll'"),
        ({"client": 3}, "client must be a mapping, not 3"),
        ({"clients": {}}, "unknown key 'clients'"),
        ({"profile": None}, "profile must be a mapping, not None"),
        ({"name": None}, None),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, change, said) -> None:
    file = tmp_path / "mine.yaml"
    content = {key: value for key, value in (PROFILE | change).items() if key != "name" or value is not None}
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml: ") as refused:
        engine_from_file(file)
    assert (said or "name missing") in refused.value.message


@pytest.mark.parametrize("text", ["[1]", "a: [", "\x00"])
def test_what_is_no_profile_at_all_is_an_error_of_the_file(tmp_path, text) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml"):
        engine_from_file(file)
