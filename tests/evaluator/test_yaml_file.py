"""YAML of a user: what would end in a traceback, a crash or all of memory ends in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluator.inputs.workloads.lengths import load_distribution
from evaluator.inputs.yaml_file import parse_yaml, read_text
from store.errors import InputError


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("bins: " + "[" * 3_000, "more than 32 levels deep"),
        ("bins: " + "[" * 200_000 + "]" * 200_000, "more than 32 levels deep"),  # would overflow the parser's stack
        ("since: 2001-99-99", "not a YAML file: month must be in"),
        ("weight: " + "1" * 5_000, "not a YAML file: Exceeds the limit"),
        ("bins: [1, 2", "not a YAML file: line 2: did not find expected"),
        ("a: *nobody", "not a YAML file: line 1: "),
        ("a: !!python/object/apply:os.system [ls]", "not a YAML file: line 1: could not determine a constructor"),
    ],
)
def test_what_is_no_document_of_ours_is_one_sentence(text, complaint):
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "x.yaml")
    assert re.match(rf"x\.yaml: .*{re.escape(complaint)}", caught.value.message)
    assert "\n" not in caught.value.message


def test_a_document_is_what_it_says(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfbins: [{weight: 1}]\n")  # with the mark some editors put first
    assert parse_yaml(read_text(path, largest_bytes=100, what="a test"), "a") == {"bins": [{"weight": 1}]}


def test_a_device_without_end_is_read_up_to_the_limit():
    with pytest.raises(InputError, match=r"/dev/zero: its content is too large for a test \(at most 1000\)"):
        read_text(Path("/dev/zero"), largest_bytes=1000, what="a test")


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "1e999", "1" + "0" * 400, "yes", "text"])
def test_a_weight_that_is_no_number_is_named(tmp_path, value):
    path = tmp_path / "lengths.yaml"
    path.write_text(f"bins: [{{min_tokens: 0, max_tokens: 5, weight: {value}}}]")
    with pytest.raises(InputError, match=r"bins\[0\]\.weight must be a finite number, not ") as caught:
        load_distribution(path, output_length=10)
    assert len(caught.value.message) < 200 + len(str(path))


@pytest.mark.parametrize("name", ["min_tokens", "max_tokens", "output_min_tokens", "output_max_tokens"])
def test_a_length_that_is_no_number_is_named(tmp_path, name):
    row = {"min_tokens": 0, "max_tokens": 5, "weight": 1, "output_min_tokens": 0, "output_max_tokens": 5, name: ".nan"}
    path = tmp_path / "lengths.yaml"
    path.write_text("bins: [{" + ", ".join(f"{key}: {value}" for key, value in row.items()) + "}]")
    with pytest.raises(InputError, match=rf"bins\[0\]\.{name} must be a finite number, not nan"):
        load_distribution(path, output_length=None)
