"""The dictionary, the views and the reference page say the same."""

from __future__ import annotations

import duckdb
import pytest
from generator import fill

from queries import dictionary as dictionary_module
from queries.asking.headers import read_header
from queries.connect import connect
from queries.dictionary import dictionary, own_columns, schema_text
from queries.vocabulary import vocabulary


@pytest.fixture(scope="module")
def relations():
    return {relation.name: relation for relation in dictionary()}


def test_every_view_and_macro_is_described(relations):
    assert set(vocabulary()) == {name for name, relation in relations.items() if relation.kind != "raw"}
    for relation in relations.values():
        assert relation.meaning
        for column in relation.columns:
            assert column.unit, (relation.name, column.name)
            assert column.meaning, (relation.name, column.name)


def test_the_names_other_programs_rely_on_are_there(relations):
    names = set(relations)
    assert {"probe", "prefill", "decode", "aggregated", "scenario", "sweep", "sweep_probe", "model", "device",
            "measurement", "fits"} <= names  # fmt: skip
    columns = {column.name for column in relations["probe"].columns}
    splits = {
        f"{phase}_step_{kind}_ms"
        for phase in ("prefill", "decode")
        for kind in ("matrix", "vector", "memory", "communication", "overhead")
    }
    documented = """probe subject scenario first_sweep formula_version family model device tp pp dp ep moe_tp moe_dp
        num_devices plan linear_quantization attention_quantization mxfp4_group_size compile convention serving_model
        serving_cost_ms workload input_length input_length_mean output_length prefix_cache_hit_rate max_batched_tokens
        mtp_tokens tokens_per_step phase batch_size concurrency ttft_ms prefill_step_ms prefill_chunks makespan_ms
        decode_step_ms tpot_inclusive_ms tpot_exclusive_ms e2e_ms requests_per_s input_tokens_per_s output_tokens_per_s
        output_tokens_per_s_per_device tokens_per_s_per_user device_memory_bytes weight_bytes kv_cache_bytes
        kv_cache_mean_bytes activation_bytes"""
    assert set(documented.split()) | splits <= columns
    assert "memory_free_bytes" in {column.name for column in relations["fits"].columns}


def test_every_described_relation_can_be_read_from_a_store_with_those_columns(relations, sqlite_url):
    fill(sqlite_url, probes=300)
    with connect(sqlite_url) as connection:
        for relation in relations.values():
            arguments = {"reserved_gib": "10", "kv_charge": "'full'"}
            call = relation.call
            for name, value in arguments.items():
                call = call.replace(name, value)
            if relation.name == "pd_pair":
                call = "pd_pair(1000, 50)"
            if relation.name == "attainment":
                call = "attainment(1000, 50)"
            cursor = connection.execute(f"SELECT * FROM {call} LIMIT 1")
            assert [(name, str(type_)) for name, type_, *_ in cursor.description] == [
                (column.name, column.type) for column in relation.columns
            ], relation.name


def test_no_header_explains_a_column_that_is_not_there(relations):
    for name, file in vocabulary().items():
        explained = {column.name for column in read_header(file.path).columns}
        assert explained <= {column.name for column in relations[name].columns}, name


def test_a_column_that_nothing_explains_is_an_error_that_names_it(tmp_path, monkeypatch):
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "odd.sql").write_text(
        "-- summary: odd\nCREATE VIEW odd AS SELECT model, 1 AS surprise FROM raw.stored_probe;"
    )
    monkeypatch.setattr("queries.vocabulary.VIEWS", folder)
    vocabulary.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"odd\.sql: no header line explains the column surprise"):
            dictionary_module.dictionary()
    finally:
        vocabulary.cache_clear()


def test_the_text_names_every_relation_and_column_once_with_its_unit(relations):
    text = schema_text()
    everything = tuple(relations.values())
    for relation in everything:
        assert f"{relation.call}: {relation.meaning}" in text
        own, _ = own_columns(relation, everything)
        for column in own:
            assert column.meaning in text
    assert "DOUBLE [ms]" in text
    assert "the columns of probe" in text


def test_relations_that_extend_probe_list_what_they_add(relations):
    everything = tuple(relations.values())
    own, repeated = own_columns(relations["fits"], everything)
    assert ([column.name for column in own], repeated) == (["memory_free_bytes"], "probe")
    assert own_columns(relations["probe"], everything) == (relations["probe"].columns, None)


def test_views_of_one_version_of_duckdb_have_the_types_the_page_names(relations):
    """The page is written once; both supported versions of DuckDB must agree with it."""
    assert duckdb.__version__
    assert {column.type for column in relations["probe"].columns} == {
        "VARCHAR", "TIMESTAMP", "INTEGER", "BOOLEAN", "DOUBLE", "BIGINT"
    }  # fmt: skip
