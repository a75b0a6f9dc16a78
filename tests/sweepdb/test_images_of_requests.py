"""Images of requests from the command to the store, to a server, and back."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb as command

import sweepdb
from store.errors import InputError
from store.location import parse_url
from sweepdb.launching import write_launch
from sweepdb.launching.reading import read_deployment
from sweepdb.launching.stored_instance import read_instance

MODEL = "Qwen/Qwen3-VL-8B-Instruct"
NEEDED = {"device": "h200_sxm", "input_length": 1000, "output_length": 100, "num_devices": 2, "tp_sizes": 2}
ONE = {"batch_range": (8, 8), "mode": "aggregated"}
LABEL = "2536/100 with 2 x 1024x768 max-num-batched-tokens 4096"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of a model asked with text, with images, and with images that ranks share."""
    url = f"sqlite:///{tmp_path_factory.mktemp('images')}/store.sqlite"
    sweepdb.evaluate(MODEL, **NEEDED, **ONE, store=url)
    for split in ("weights", "data"):
        sweepdb.evaluate(MODEL, **NEEDED, **ONE, images=2, image_size="1024x768", encoder_split=split, store=url)
    return url


def rows_of(url, **scope):
    with sweepdb.open(url) as store:
        return store.best(**scope, top=5).dicts()


def test_rows_are_of_their_images_and_asked_by_them(url):
    with sweepdb.open(url) as store:
        kept = store.sql(
            "SELECT label, input_length, images, image_width, image_height, image_patches, image_tokens, encoder_split"
            " FROM workload ORDER BY label"
        ).dicts()
    assert [tuple(row.values()) for row in kept] == [
        ("1000/100 max-num-batched-tokens 4096", 1000, None, None, None, None, None, None),
        (LABEL, 2536, 2, 1024, 768, 3072, 768, "weights"),
        (
            "2536/100 with 2 x 1024x768 shared as data max-num-batched-tokens 4096",
            2536,
            2,
            1024,
            768,
            3072,
            768,
            "data",
        ),
    ]
    (text,) = rows_of(url, input_length=1000)
    (shared,) = rows_of(url, images=2, encoder_split="weights")
    (own,) = rows_of(url, image_size="1024X768", encoder_split="data")
    assert text["ttft_ms"] < own["ttft_ms"] < shared["ttft_ms"]
    assert text["weight_bytes"] < shared["weight_bytes"] < own["weight_bytes"]
    assert len(rows_of(url, images=2)) == 2
    again = sweepdb.evaluate(MODEL, **NEEDED, **ONE, images=2, image_size="1024x768", store=url)
    assert (again.probes_stored, again.probes_known) == (0, 1)


def test_a_sweep_file_has_workloads_with_and_without_images(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        f"models: [{MODEL}]\ndevices: [h200_sxm]\nnum_devices: 1\nmode: [prefill]\nbatch_range: [1, 1]\n"
        "workloads:\n- {input_length: 1000, output_length: 100}\n"
        "- {input_length: 1000, output_length: 100, images: 1, image_size: 640x480}\n"
    )
    url = f"sqlite:///{tmp_path}/store.sqlite"
    sweepdb.evaluate(sweep=file, store=url)
    with sweepdb.open(url) as store:
        kept = store.sql("SELECT input_length, image_tokens FROM workload ORDER BY input_length").dicts()
    # 640 x 480: 20 x 15 tokens of 32 pixels
    assert [tuple(row.values()) for row in kept] == [(1000, None), (1300, 300)]


def test_other_images_are_not_stored(url):
    for scope in ({"images": 3}, {"image_size": "768x1024"}):
        with pytest.raises(InputError, match="nothing stored matches"):
            rows_of(url, **scope)
    with pytest.raises(InputError, match="WIDTHxHEIGHT"):
        rows_of(url, image_size="large")


def probe_of(url, split="weights"):
    return rows_of(url, images=2, encoder_split=split)[0]["probe"]


def test_answers_and_explanations_name_the_encoder(url):
    told = command("query best --images 2 --encoder-split weights --explain", url).out
    assert LABEL in told
    assert "2 images of 1024x768 a request: 3072 patches and 768 prompt tokens each" in " ".join(told.split())
    explained = json.loads(command(f"explain {probe_of(url)} --step prefill --format json", url).out)
    labels = {row["operator"] for row in explained}
    assert {"encoder.patch_embed", "encoder.layers.attention", "encoder.deep2.linear2", "encoder.joined.join"} <= labels
    compared = command(f"explain {probe_of(url)} {probe_of(url, 'data')} --step prefill --format json", url)
    gathered = [row for row in json.loads(compared.out) if row["operator"] == "encoder.all_gather"]
    assert len(gathered) == 1


@pytest.mark.parametrize(
    ("engine", "split", "flags"),
    [
        ("vllm", "weights", ['--limit-mm-per-prompt \'{"image": 2, "video": 0}\'']),
        ("vllm", "data", ["--mm-encoder-tp-mode data", "--limit-mm-per-prompt"]),
        ("sglang", "data", ["--mm-enable-dp-encoder", "--limit-mm-data-per-request '{\"image\": 2}'"]),
    ],
)
def test_a_row_is_launched_with_its_flags_and_read_back(engine, split, flags, url, tmp_path):
    write_launch(probe_of(url, split), tmp_path / "out", engine=engine, store=url)
    script = (tmp_path / "out" / "server.sh").read_text().replace("\\\n", " ")
    assert all(flag in " ".join(script.split()) for flag in flags), script
    assert ("tp-mode" in script or "dp-encoder" in script) == (split == "data")
    (server,) = read_deployment(tmp_path / "out").servers
    assert server.most_images == 2
    assert (server.encoder_split == "data") == (split == "data")
    assert not any("mm" in one for one in server.not_mapped)
    bench = (tmp_path / "out" / "bench.sh").read_text()
    assert "--dataset-name random-mm" in bench
    assert "'{(768, 1024, 1): 1.0}'" in bench
    assert "--image-width-mean 1024" in bench


def test_trtllm_has_no_such_split(url, tmp_path):
    with pytest.raises(InputError, match="ranks share images"):
        write_launch(probe_of(url, "data"), tmp_path / "out", engine="trtllm", store=url)
    write_launch(probe_of(url), tmp_path / "out", engine="trtllm", store=url)


def test_a_server_is_evaluated_with_the_images_that_it_takes(tmp_path):
    file = tmp_path / "serve.sh"
    file.write_text(
        f"vllm serve {MODEL} --tensor-parallel-size 2 --max-num-seqs 8 --mm-encoder-tp-mode data"
        " --limit-mm-per-prompt '{\"image\": 2}'\n"
    )
    url = f"sqlite:///{tmp_path}/store.sqlite"
    asked = {
        "device": "h200_sxm",
        "input_length": 1000,
        "output_length": 100,
        "from_deployment": str(file),
        "store": url,
    }
    sweepdb.evaluate(**asked, images=2, image_size="1024x768")
    with sweepdb.open(url) as store:
        assert store.sql("SELECT DISTINCT images, encoder_split FROM workload").dicts() == [
            {"images": 2, "encoder_split": "data"}
        ]
    with pytest.raises(InputError, match="takes 2 a request"):
        sweepdb.evaluate(**asked, images=3, image_size="1024x768")
    file.write_text(f"vllm serve {MODEL} --tensor-parallel-size 2 --language-model-only\n")
    with pytest.raises(InputError, match="takes 0 a request"):
        sweepdb.evaluate(**asked, images=1, image_size="1024x768")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"images": 2}, "`images` needs `image_size`"),
        ({"image_size": "640x480"}, "`image_size` needs `images`"),
        ({"encoder_split": "data"}, "`encoder_split` needs `images`"),
        ({"images": 0, "image_size": "640x480"}, "`images` must be at least 1"),
        ({"images": 1, "image_size": "640"}, "WIDTHxHEIGHT"),
        ({"images": 1, "image_size": "640x480", "encoder_split": "both"}, "both is not one of weights, data"),
        ({"images": 1, "image_size": "640x480", "model": "Qwen/Qwen3-8B"}, "reads text alone"),
        ({"images": 1, "image_size": "640x480", "model": "moonshotai/Kimi-K3"}, "'kimi_k3' is read"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_stored(given, said, tmp_path):
    model = {"model": MODEL, **given}.pop("model")
    asked = {name: value for name, value in given.items() if name != "model"}
    with pytest.raises(InputError, match=said):
        sweepdb.evaluate(model, **NEEDED, **ONE, **asked, store=f"sqlite:///{tmp_path}/store.sqlite")
    assert not list(tmp_path.iterdir())


def test_requests_that_arrive_wait_for_the_images_of_others(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    asked = {**NEEDED, "mode": "aggregated", "batch_range": (1, 1), "arrivals": "poisson", "rates": (2.0,)}
    for more in ({}, {"images": 2, "image_size": "1024x768"}):
        sweepdb.evaluate(MODEL, **asked, **more, requests=400, store=url)
    with sweepdb.open(url) as store:
        text, pictured = store.sql(
            "SELECT l.ttft_mean_ms FROM load l JOIN scenario s ON s.scenario = l.scenario ORDER BY l.ttft_mean_ms"
        ).dicts()
    assert pictured["ttft_mean_ms"] > text["ttft_mean_ms"]


LOG = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"


def log_of(path, images):
    """100 requests of 2,000 tokens and 20 of answer, one a second."""
    lines = (f"{number}.0,{images(number)},2000,20\n" for number in range(100))
    path.write_text(LOG + "".join(lines))
    return f"trace:{path}"


def test_a_log_that_states_images_is_played_with_its_own(tmp_path):
    """Azure's columns: prompt lengths count the images, which one request in two has."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    asked = {**NEEDED, "mode": "aggregated", "batch_range": (1, 1), "rates": (0.1,), "keep_requests": True}
    pictures = {"images": 1, "image_size": "1024x768"}
    log = log_of(tmp_path / "log.csv", lambda number: number % 2)
    told = [sweepdb.evaluate(MODEL, **asked, **more, arrivals=log, store=url).notes for more in ({}, pictures)]
    assert any("with `images` and `image_size` they are encoded" in note for note in told[0])
    assert any("as many images as the log states" in note for note in told[1])
    with sweepdb.open(url) as store:
        kept = store.sql(
            "SELECT s.workload, r.number, r.prompt_tokens, r.ttft_ms FROM load_request r JOIN load l USING (load_id)"
            " JOIN scenario s ON s.scenario = l.scenario ORDER BY r.number"
        ).dicts()
    text, pictured = ([row for row in kept if ("with 1" in row["workload"]) is one] for one in (False, True))
    assert {row["prompt_tokens"] for row in kept} == {2000}
    more = [two["ttft_ms"] - one["ttft_ms"] for one, two in zip(text, pictured, strict=True)]
    assert len(more) == 95
    # Alone on the server, a request without an image takes what it takes as text, one with an image the encoder more.
    with_image = max(more)
    assert with_image > 3.0
    assert all(one == pytest.approx(0.0, abs=0.01) or one == pytest.approx(with_image, abs=0.01) for one in more)
    assert sum(one > 1.0 for one in more) in {47, 48}


def test_images_are_added_to_a_log_of_text_and_must_fit_one_that_has_them(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    asked = {**NEEDED, "mode": "aggregated", "batch_range": (1, 1), "rates": (0.1,), "keep_requests": True}
    text = tmp_path / "text.csv"
    text.write_text("time,input_length,output_length\n" + "".join(f"{one}.0,500,9\n" for one in range(100)))
    pictures = {"images": 2, "image_size": "1024x768"}
    sweepdb.evaluate(MODEL, **asked, **pictures, arrivals=f"trace:{text}", store=url)
    with sweepdb.open(url) as store:
        kept = store.sql("SELECT DISTINCT prompt_tokens FROM load_request").dicts()
    assert [row["prompt_tokens"] for row in kept] == [500 + 2 * 768]
    log = log_of(tmp_path / "log.csv", lambda number: 3 * (number == 6))
    outcome = sweepdb.evaluate(MODEL, **asked, **pictures, arrivals=log, store=url)
    (why,) = [failure.reason for failure in outcome.unplayed]
    assert "request 7 of the log has 3 images in 2000 tokens, but one of 1024x768 is 768 tokens" in why


def test_errors_say_that_no_measured_point_has_images(url):
    text = [error.note or "" for error in sweepdb_errors(url, input_length=1000)]
    pictured = [error.note or "" for error in sweepdb_errors(url, images=2, encoder_split="weights")]
    assert not any("images" in note for note in text)
    assert any("no measured point has images" in note for note in pictured)


def sweepdb_errors(url, **scope):
    with sweepdb.open(url) as store:
        return store.best(**scope).expected_error


def test_a_row_read_back_still_says_what_was_left_out(url, tmp_path):
    """Parts that were not evaluated are in no key and no spec: what was assumed keeps them."""
    with sweepdb.open(url) as store:
        text = store.best(input_length=1000).dicts()[0]["probe"]
        pictured = store.best(images=2, encoder_split="weights").dicts()[0]["probe"]
    location = parse_url(url)
    assert read_instance(location, text).model.left_out == "image encoder"
    assert read_instance(location, pictured).model.left_out == ""
    write_launch(text, tmp_path / "text", engine="vllm", store=url)
    assert "not evaluated: image encoder" in (tmp_path / "text" / "not_set.txt").read_text()
