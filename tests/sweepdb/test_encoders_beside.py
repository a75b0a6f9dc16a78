"""Encoders on devices of their own from the command to the store, to plans, to servers, and back."""

from __future__ import annotations

import subprocess

import pytest
from conftest_cli import sweepdb as command

import sweepdb
from store.errors import InputError
from sweepdb.explaining import explain_probes
from sweepdb.launching import write_launch
from sweepdb.launching.reading import read_deployment

MODEL = "Qwen/Qwen3-VL-8B-Instruct"
ASKED = {
    "device": "h200_sxm", "input_length": 1000, "output_length": 100, "images": 8, "image_size": "1024x768",
    "serving_model": "sglang",
}  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of instances that encode themselves, and of those beside which one and two devices do."""
    url = f"sqlite:///{tmp_path_factory.mktemp('encoders')}/store.sqlite"
    sweepdb.evaluate(MODEL, **ASKED, num_devices=1, batch_range=(1, 24), encoder_devices=(0, 1, 2), store=url)
    return url


def best(url, phase):
    with sweepdb.open(url) as store:
        return {row["plan"]: row for row in getattr(store, phase)(top=9).dicts()}


def test_rows_count_the_devices_that_encode(url):
    found = best(url, "prefill")
    assert {plan: row["num_devices"] for plan, row in found.items()} == {
        "tp1pp1dp1": 1, "tp1pp1dp1enc1": 2, "tp1pp1dp1enc2": 3,
    }  # fmt: skip
    assert {row["encoder_devices"] for row in found.values()} == {0, 1, 2}
    weights = [found[plan]["weight_bytes"] for plan in ("tp1pp1dp1", "tp1pp1dp1enc1", "tp1pp1dp1enc2")]
    assert weights[0] > weights[1] == weights[2]
    service = [found[plan]["prompt_service_ms"] for plan in ("tp1pp1dp1", "tp1pp1dp1enc1", "tp1pp1dp1enc2")]
    assert service[0] > service[1] >= service[2]
    assert list(best(url, "decode")) == ["tp1pp1dp1"]


def test_a_deployment_of_three_kinds_of_instances_keeps_its_budget(url):
    with sweepdb.open(url) as store:
        pairs = store.pd_ratio(num_devices=7, ttft_limit=2000, top=99).dicts()
    apart = [row for row in pairs if row["prefill_encoder_devices"]]
    assert apart
    for row in pairs:
        used = row["prefill_instances"] * row["prefill_num_devices"] + row["decode_instances"]
        assert used == row["devices_used"] <= 7
        assert row["prefill_num_devices"] == 1 + row["prefill_encoder_devices"]


def test_errors_say_that_no_measured_point_has_them(url):
    with sweepdb.open(url) as store:
        notes = {error.note for error in store.best(top=9).expected_error}
    assert any("encoders on devices of their own" in (note or "") for note in notes)


def test_they_need_images(tmp_path):
    with pytest.raises(InputError, match="`encoder_devices` needs `images`"):
        sweepdb.evaluate(MODEL, device="h200_sxm", input_length=9, output_length=9, encoder_devices=1,
                         store=f"sqlite:///{tmp_path}/store.sqlite")  # fmt: skip


def test_a_plan_finds_the_number_that_carries_most(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    found = sweepdb.plan(
        MODEL, **ASKED, total_devices=4, encoder_devices=(0, 1), ttft_limit=3000, tpot_limit=50, store=url
    )
    assert found.best["devices_used"] <= 4
    with sweepdb.open(url) as store:
        assert {row["encoder_devices"] for row in store.sql("SELECT DISTINCT encoder_devices FROM probe").dicts()} == {
            0,
            1,
        }


def test_an_instance_is_launched_with_its_encoders_and_read_back(url, tmp_path):
    row = next(row for plan, row in best(url, "best").items() if plan.endswith("enc2"))
    folder = tmp_path / "started"
    write_launch(row["probe"], folder, store=url)
    server, encoder = ((folder / name).read_text() for name in ("server.sh", "encoder-of-server.sh"))
    assert "--encoder-urls http://ENCODER_0:8300 http://ENCODER_1:8301" in server
    assert "--language-only" in server
    assert "tensor 1 x data 1 x pipeline 1 = 1, and 2 that encode its images" in server
    assert "--encoder-only" in encoder
    assert "--port $((8300 + ENCODER))" in encoder
    for script in folder.glob("*.sh"):
        subprocess.run(["bash", "-n", script], check=True)
    (read,) = read_deployment(folder / "server.sh").servers
    assert (read.encoder_devices, read.not_mapped) == (2, [])
    again = sweepdb.evaluate(from_deployment=str(folder / "server.sh"), device="h200_sxm", input_length=1000,
                             output_length=100, images=8, image_size="1024x768", store=url)  # fmt: skip
    assert (again.probes_stored, again.scenarios) == (0, 1)


def test_what_launches_none_says_so(url, tmp_path):
    row = next(row for plan, row in best(url, "best").items() if plan.endswith("enc1"))
    with pytest.raises(InputError, match="through a proxy of its examples"):
        write_launch(row["probe"], tmp_path / "a", engine="vllm", store=url)
    with pytest.raises(InputError, match="TensorRT-LLM cannot start"):
        write_launch(row["probe"], tmp_path / "b", engine="trtllm", store=url)
    with pytest.raises(InputError, match="written as shell scripts"):
        write_launch(row["probe"], tmp_path / "c", target="k8s", store=url)


def test_the_command_line_says_how_many(url):
    told = command("query prefill --top 9", url)
    assert "tp1pp1dp1enc2" in told.out


def test_they_travel_with_their_rows(url, tmp_path):
    bundle, other = tmp_path / "bundle", f"sqlite:///{tmp_path}/other.sqlite"
    assert command(f"export {bundle}", url).code == 0
    assert command("db init", other).code == 0
    assert command(f"import {bundle}", other).code == 0
    assert best(other, "prefill").keys() == best(url, "prefill").keys()
    row = best(other, "prefill")["tp1pp1dp1enc2"]
    explained = explain_probes([row["probe"]], other, step="prefill").steps[0]
    assert sum(one.time_ms for one in explained.operators) == pytest.approx(explained.stored_ms)


def test_a_row_is_explained_with_what_encodes_before_it(url):
    rows = best(url, "prefill")
    apart, inside = (rows[plan]["probe"] for plan in ("tp1pp1dp1enc2", "tp1pp1dp1"))
    with sweepdb.open(url) as store:
        found = store.explain(apart)
        assert [step.step for step in found.steps] == ["encode", "prefill"]
        assert [step.step for step in store.explain(inside).steps] == ["prefill"]
        (own,) = store.explain(inside, step="encode").steps
        with pytest.raises(InputError, match="not one of encode, prefill, decode"):
            store.explain(inside, step="images")
    encode = found.steps[0]
    # Two encoders have half of the images each, and add what an engine and a link take
    assert own.summed_ms > encode.summed_ms > own.summed_ms / 2
    assert next(iter(found.headline())).endswith(
        f"2 encoders serve {encode.encoders.prompts_per_s:.4g} prompts/s, {8 * encode.encoders.prompts_per_s:.4g} images/s,"
        " for 1 replica"
    )
    told = command(f"explain {apart} --step encode --top 3", url)
    assert "encoder.layers.attention" in told.out
    both = command(f"explain {apart} {inside} --step encode", url)
    assert "embeddings to the instance" in both.out
