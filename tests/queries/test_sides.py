"""What may be paired and compared: sides of other devices and sweeps may, sides of other serving models may not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, content_key, scenario
from queries_stores import write_sweep

import queries
from store.errors import InputError


def side(phase, device, serving_model="waves"):
    """One scenario of a phase on a device under a serving model."""
    record = scenario(MODELS[4], WORKLOADS[0], device, precision=PRECISIONS[0], plan=PLANS[0], phase=phase)
    if serving_model == record.subject.serving_model:
        return record
    subject = replace(record.subject, serving_model=serving_model, key=content_key([record.subject.key, serving_model]))
    return replace(record, subject=subject, key=content_key([record.key, serving_model]))


def test_a_pair_may_come_from_two_devices_and_two_sweeps(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, [side("prefill", DEVICES[0])], key="a", sizes=3)
    write_sweep(url, [side("decode", DEVICES[1])], key="b", sizes=3)
    (pair,) = queries.open(url).pd_ratio().dicts()
    assert (pair["prefill_device"], pair["decode_device"]) == (DEVICES[0][0], DEVICES[1][0])
    assert (pair["prefill_first_sweep"], pair["decode_first_sweep"]) == ("a" * 32, "b" * 32)


def test_compare_refuses_sides_of_two_serving_models(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    records = [side("aggregated", DEVICES[0], "steady"), side("prefill", DEVICES[0]), side("decode", DEVICES[0])]
    write_sweep(url, records, key="c", sizes=3)
    with pytest.raises(InputError, match="one serving model; stored here: steady, waves") as refused:
        queries.open(url).compare(num_devices=8)
    assert "`serving_model`" in refused.value.hint
