"""What a question without filters is about, what it says of the rest, and which rows may stand together."""

from __future__ import annotations

import itertools

import pytest
from generator import MODELS, PLANS
from hypothesis import given, settings
from hypothesis import strategies as st
from queries_stores import changed, mission_records, read_rows, write_sweep

import queries
from cli.render.answers import header_lines
from queries.scope_list import stored_scopes
from queries.scoping.groups import SERVICE, joined_services
from store.errors import InputError
from store.location import parse_url
from store.opening import open_store
from store.writing import void

DENSE, MOE, OTHER = MODELS[0], MODELS[4], MODELS[7]
CLIENT = {"shortest_length": 1.0, "prompts_per_user": 10, "poll_steps": 1, "wait_steps": 0}


def address(tmp_path, name="store"):
    return f"sqlite:///{tmp_path}/{name}.sqlite"


def records(model, *, plans=PLANS[:2], devices=None, **fields):
    """Scenarios of a model on one device, every phase; `fields` change their subject."""
    made = mission_records(models=(model,), plans=plans, **({} if devices is None else {"devices": devices}))
    one_device = [record for record in made if record.subject.device_name == made[0].subject.device_name]
    return [changed(record, **fields) if fields else record for record in (made if devices else one_device)]


def engine(model, client=CLIENT, *, serving_model="vllm"):
    """Scenarios as an engine's phases state their service: each its lengths, prefill prompts a user too, aggregated all;
    lengths other than 1 are not as usual."""
    read = {"prefill": ("shortest_length", "prompts_per_user"), "decode": ("shortest_length",), "aggregated": client}
    unusual = "" if client["shortest_length"] == CLIENT["shortest_length"] else "shortest_length"
    return [
        changed(
            record,
            serving_model=serving_model,
            unusual_service=unusual,
            **{name: client[name] for name in read[record.subject.phase] if name in client},
        )
        for record in records(model)
    ]


def models_of(answer):
    return {row["model"] for row in answer.dicts()}


def test_what_can_be_chosen_leaves_out_what_is_void(tmp_path):
    url = address(tmp_path)
    for model, key in ((DENSE, "aaaa"), (MOE, "bbbb")):
        write_sweep(url, records(model), key=key)
    with open_store(url) as store:
        void(store, "bbbb", "wrong clock")
    assert {one.model for one in stored_scopes(parse_url(url))} == {DENSE[0]}


def test_a_question_without_filters_is_about_the_newest_request_and_names_what_it_leaves_out(tmp_path):
    url = address(tmp_path)
    write_sweep(url, records(DENSE), key="1")
    write_sweep(url, records(MOE), key="2")
    write_sweep(url, records(OTHER), key="3", kind="validation")
    write_sweep(url, records(OTHER), key="4", kind="import")
    notebook = queries.open(url)
    answer = notebook.best()
    assert models_of(answer) == {MOE[0]}
    said, _, filters = answer.left_out.partition(": `all`, or ")
    assert said == "2 other subjects in this store"
    assert set(filters.split(", ")) == {f"`model={DENSE[0]}`", f"`model={OTHER[0]}`"}
    assert answer.left_out in "".join(header_lines(answer))
    models = list(dict.fromkeys(one.model for one in stored_scopes(parse_url(url))))
    assert models == [MOE[0], DENSE[0], OTHER[0]]  # a page begins with the same
    every = notebook.best(all=True)
    assert models_of(every) == {DENSE[0], MOE[0], OTHER[0]}
    assert len(set(every.scope)) == 3
    assert every.left_out is None


@pytest.mark.parametrize(
    "fields",
    [{"serving_model": "vllm"}, {"compile": False}, {"serving_cost_ms": 5.0}, {"convention": "upstream"}],
)
def test_each_filter_that_is_named_selects_what_was_left_out(tmp_path, fields):
    url = address(tmp_path)
    write_sweep(url, records(DENSE, **fields), key="1")
    write_sweep(url, records(DENSE), key="2")
    notebook = queries.open(url)
    answer = notebook.best()
    first = answer.left_out.partition("`all`, or ")[2]
    assert answer.left_out.startswith("1 other subject in this store: `all`, or ")
    asked = {
        "`compile=False`": {"eager": True}, "`serving_cost=5`": {"serving_cost": 5.0}, "`serving_model=vllm`":
        {"serving_model": "vllm"}, "`convention=upstream`": {"convention": "upstream"},
    }[first]  # fmt: skip
    chosen, (name, value) = notebook.best(**asked), next(iter(fields.items()))
    assert chosen.rows
    assert {row[name] for row in chosen.dicts()} == {value}
    assert {row[name] for row in answer.dicts()} != {value}


def test_a_device_that_only_an_import_brought_is_left_out_and_named(tmp_path):
    url = address(tmp_path)
    both = records(DENSE, devices=None), mission_records(models=(DENSE,), plans=PLANS[:2])
    write_sweep(url, both[0], key="1")
    write_sweep(url, both[1], key="2", kind="import")
    notebook = queries.open(url)
    answer = notebook.best()
    option, _, value = answer.left_out.partition("`all`, or ")[2].strip("`").partition("=")
    assert option == "device"
    assert {row["device"] for row in answer.dicts()} == {both[0][0].subject.device_name}
    assert {row["device"] for row in notebook.best(device=value).dicts()} == {value}


def test_a_store_of_imports_answers_about_the_newest_and_one_of_comparisons_says_what_to_ask(tmp_path):
    imported, compared = address(tmp_path, "imported"), address(tmp_path, "compared")
    write_sweep(imported, records(DENSE), key="1", kind="import")
    write_sweep(imported, records(MOE), key="2", kind="import")
    write_sweep(imported, records(OTHER), key="3", kind="validation")
    assert models_of(queries.open(imported).best()) == {MOE[0]}
    write_sweep(compared, records(DENSE), key="1", kind="validation")
    with pytest.raises(InputError, match="only comparisons") as caught:
        queries.open(compared).best()
    assert "`all`" in str(caught.value.hint)
    assert models_of(queries.open(compared).best(all=True)) == {DENSE[0]}


def test_compiled_and_eager_sides_are_never_paired(tmp_path):
    url = address(tmp_path)
    write_sweep(url, records(DENSE), key="1")
    write_sweep(url, records(DENSE, compile=False), key="2")
    notebook = queries.open(url)
    sides = {f"{row['scenario'][:8]}:{row['batch_size']}": row["compile"] for row in read_rows(url)}
    answer = notebook.pd_ratio(all=True, all_pairs=True, top=2000)
    found = {(sides[row["prefill_probe"]], sides[row["decode_probe"]]) for row in answer.dicts()}
    assert found == {(True, True), (False, False)}
    assert [title.endswith("eager") for title in answer.scope] == [False, True]
    only = notebook.best(compile=True)
    assert {row["compile"] for row in only.dicts()} == {True}


def test_each_difference_between_two_rows_is_in_the_title(tmp_path):
    url = address(tmp_path)
    write_sweep(url, records(DENSE), key="1")
    write_sweep(url, records(DENSE, serving_cost_ms=5.0), key="2")
    write_sweep(url, engine(DENSE), key="3")
    write_sweep(url, engine(DENSE, {**CLIENT, "shortest_length": 0.8}), key="4")
    write_sweep(url, engine(DENSE, {**CLIENT, "seats": 256}), key="5")
    answer = queries.open(url).best(all=True)
    head = min(answer.scope, key=len)
    engines = head + " · vllm"
    assert sorted(answer.scope) == sorted([
        head, head + " · serving cost 5 ms", engines + " · lengths alike · no max-num-seqs",
        engines + " · lengths 0.8-1 · no max-num-seqs", engines + " · lengths alike · max-num-seqs 256",
    ])  # fmt: skip
    grouped = {row["question_group"] for row in answer.dicts()}
    assert len(grouped) == 5


@pytest.mark.parametrize(("shortest", "said"), [(1.0, ""), (0.8, " · lengths 0.8-1")])
def test_a_title_names_a_client_only_where_its_lengths_are_not_the_usual_ones(tmp_path, shortest, said):
    url = address(tmp_path)
    write_sweep(url, engine(DENSE, {**CLIENT, "shortest_length": shortest}), key="1")
    (title,) = queries.open(url).best().scope
    assert title == f"{DENSE[0]} · 3500/1500 · BF16 · vllm{said}"


def test_rows_that_state_no_client_stand_beside_each(tmp_path):
    url = address(tmp_path)
    for key, client in (("1", CLIENT), ("2", {**CLIENT, "shortest_length": 0.8})):
        stated = [
            changed(record, shortest_length=None, prompts_per_user=None)
            if record.subject.phase == "prefill"
            else record
            for record in engine(DENSE, client, serving_model="seed002")
        ]
        write_sweep(url, stated, key=key)
    notebook = queries.open(url)
    pairs = notebook.pd_ratio(all=True, top=100)
    lengths = {f"{r['scenario'][:8]}:{r['batch_size']}": r["shortest_length"] for r in read_rows(url)}
    by_group = {}
    for row in pairs.dicts():
        by_group.setdefault(row["question_group"], set()).add(lengths[row["decode_probe"]])
    assert sorted(map(sorted, by_group.values())) == [[0.8], [1.0]]
    alone = notebook.prefill(all=True)  # asked alone they are one group
    assert len({row["question_group"] for row in alone.dicts()}) == 1
    newest = notebook.best()
    assert {row["shortest_length"] for row in newest.dicts()} == {0.8}
    older = notebook.best(shortest_length=1.0)
    assert {row["shortest_length"] for row in older.dicts()} == {1.0}


@pytest.mark.parametrize(("seats", "expected"), [(256, {256}), (None, {256, None})])
def test_a_filter_on_the_launch_leaves_unbounded_servers_out(tmp_path, seats, expected):
    url = address(tmp_path)
    write_sweep(url, engine(DENSE, {**CLIENT, "seats": 256}), key="1")
    write_sweep(url, engine(DENSE), key="2")
    answer = queries.open(url).best(all=True, **({} if seats is None else {"max_num_seqs": seats}))
    assert {row["max_num_seqs"] for row in answer.dicts()} == expected


def test_of_two_formula_versions_the_newest_counts_and_the_other_is_named(tmp_path):
    url = address(tmp_path)
    old = [changed(record, version=1) for record in records(DENSE, plans=PLANS[:3])]
    write_sweep(url, old, key="1")
    assert {row["formula_version"] for row in queries.open(url).best().dicts()} == {1}
    write_sweep(url, [changed(record, version=2) for record in records(DENSE, plans=PLANS[:2])], key="2")
    notebook = queries.open(url)
    answer = notebook.best()
    assert {row["formula_version"] for row in answer.dicts()} == {2}
    assert "formula version 2 (of 1 too: --all-versions)" in "".join(header_lines(answer))
    every = notebook.best(all_versions=True)
    assert {(row["question_group"], row["formula_version"]) for row in every.dicts()} == {(0, 1), (1, 2)}
    assert every.scope[0] == f"{every.scope[1]} · formula version 1"
    assert any(line.endswith("formula version 1, 2") for line in header_lines(every))
    assert len(every.rows) == 5  # three plans by the first version, two by the second


STATED = st.dictionaries(st.sampled_from(SERVICE[:4]), st.integers(0, 2), max_size=4)


@settings(deadline=None)
@given(st.lists(STATED, min_size=1, max_size=6))
def test_joined_services_are_the_largest_sets_that_agree(stated):
    one_each = list(dict.fromkeys(frozenset(item.items()) for item in stated))

    def agrees(items):
        values = {}
        return all(values.setdefault(name, value) == value for item in items for name, value in item)

    unions = {
        frozenset().union(*chosen)
        for size in range(1, len(one_each) + 1)
        for chosen in itertools.combinations(one_each, size)
        if agrees(chosen)
    }
    largest = {one for one in unions if not any(one < other for other in unions)}
    assert set(joined_services(one_each)) == largest
    assert len(joined_services(one_each)) == len(largest)
