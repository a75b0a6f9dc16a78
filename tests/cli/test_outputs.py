"""Where answers go: every option that names an output takes a file, a pipe, a terminal, a device and `-` alike.

The options are found in the program itself: a command that is added needs a line in `ARGUMENTS`."""

from __future__ import annotations

import csv
import itertools
import os
import pty
import re
import socket
import stat
import tarfile
import threading
from contextlib import contextmanager

import pytest
from conftest_cli import sweepdb, words
from typer.main import get_command

from cli.main import build_app
from cli.shared_options import OUTPUT_SHAPE
from store.whole_files import STANDARD_OUTPUT, written_whole

LENGTHS = "--input-length 3500 --output-length 1500"
ARGUMENTS = {  # of each command; of an option of its own, with another place for the answer
    "plan": f"Qwen/Qwen3-0.6B --device h200_sxm --total-devices 1 {LENGTHS}",
    "schedule": "--trace {day} --ttft-limit 1000 --tpot-limit 20",
    "report": "",
    "launch": "{probe} --engine vllm",
    "explain": "{probe}",
    "query": "best",
    "query --proof": "best --output {folder}/answer",
    "sql": "--schema",
    "sweeps": "",
    "show": "{probe}",
    "models": "",
    "devices": "",
    "workloads": "",
    "support": "Qwen/Qwen3-0.6B h100_sxm vllm",
    "prices": "",
    "calibrate": "a100_sxm --kernels {kernels}",
    "measurements": "list",
    "compare": "{points} {others}",
    "validate": "--measurements {points}",
    "regress": "--baseline before --against after",
    "export": "profile --for keda --ttft-limit 5000 --tpot-limit 50 --quantization BF16 --kv-cache-quantization DISABLED",
    "db check": "",
}
DATED = ("report", "sweeps", "db check")  # which say when, or how much is stored by now
FOLDERS = ("launch", "export")  # which write several files
STORING = ("plan", "calibrate", "validate")
BYTES = ("query pareto --format png", "sql --format parquet --schema")
EVALUATED = (
    "evaluate Qwen/Qwen3-0.6B --device h200_sxm --total-devices 1 --mode aggregated --batch-range 4 "
    f"--serving-model vllm --arrivals poisson --requests 500 {LENGTHS}"
)


def outputs(command=None, name=""):
    """(command, option) of everything that names an output. That of `decide` is a folder beside its answer."""
    if name == "decide":
        return
    command = command or get_command(build_app())
    for child, one in getattr(command, "commands", {}).items():
        yield from outputs(one, f"{name} {child}".strip())
    for parameter in command.params:
        if "--output" in parameter.opts or parameter.metavar == OUTPUT_SHAPE:
            yield name, parameter.opts[-1]


def lines():
    """A command line of each, and the option that ends it."""
    for command, option in outputs():
        key = command if option == "--output" else f"{command} {option}"
        yield f"{command} {ARGUMENTS[key]}".strip(), option
    yield from ((line, "--output") for line in BYTES)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A store, and what command lines name."""
    folder = tmp_path_factory.mktemp("outputs")
    url = f"sqlite:///{folder}/store.sqlite"
    assert sweepdb(EVALUATED, url).code == 0
    probe = sweepdb("query best --format csv", url).out.splitlines()
    (row,) = csv.DictReader(probe[:2])
    with (folder / "gemm.csv").open("w") as file:
        file.write("m,n,k,dtype,latency_us\n")
        for m, n in itertools.product((16, 256, 2048, 8192), (1024, 4096, 8192)):
            file.write(f"{m},{n},4096,bfloat16,{3 + 2e6 * m * n * 4096 / 187.2e12}\n")
    (folder / "day.csv").write_text("minute,rate\n0,1\n1,2\n")
    with (folder / "points.csv").open("w") as file:
        file.write(
            "model,device,engine,precision,input_length,output_length,concurrency,tp,pp,ttft_ms,tpot_exclusive_ms\n"
        )
        file.write("Qwen/Qwen3-0.6B,h200_sxm,vllm,bf16,3500,1500,1,1,1,20,3\n")
    with (folder / "runs.csv").open("w") as file:
        file.write("model,device,engine,input_length,output_length,concurrency,tp,ttft_ms,tags\n")
        file.writelines(
            f"Qwen/Qwen3-8B,h100_sxm,vllm,1024,512,8,1,{20 + 2 * (tag == 'after')},{tag}\n"
            for tag in ("before", "after")
        )
    assert sweepdb(f"measurements import {folder / 'runs.csv'} --format csv", url).code == 0
    (folder / "others.csv").write_text((folder / "points.csv").read_text().replace(",20,3", ",25,3"))
    made = {"folder": folder, "url": url, "probe": row["probe"], "kernels": folder / "gemm.csv",
            "points": folder / "points.csv", "day": folder / "day.csv", "others": folder / "others.csv", "wanted": {}}  # fmt: skip
    for line, option in lines():
        if line.startswith(STORING):
            wanted(made, line, option)  # what it stores is there before others are asked
    return made


def told(ground, line, option, target):
    """Run a command line with its output there."""
    arguments = [*words(line.format(**ground)), option, str(target)]
    return sweepdb(arguments, None if line.split()[0] in {"models", "devices", "support", "compare"} else ground["url"])


def wanted(ground, line, option):
    """What the command writes to a file, asked once, or anew where it tells what commands have stored meanwhile."""
    if (line, option) not in ground["wanted"] or line == "sweeps" or line.startswith("plan") or option == "--proof":
        target = ground["folder"] / f"wanted-{len(ground['wanted'])}"
        outcome = told(ground, line, option, target)
        assert outcome.code == 0, outcome.err
        ground["wanted"][line, option] = comparable(line, target, target)
    return ground["wanted"][line, option]


def comparable(line, found, target):
    """Content without the name that a report's own command repeats; of a folder or an archive, its files."""
    if found.is_dir():
        return {path.name: path.read_bytes() for path in found.iterdir()}
    if tarfile.is_tarfile(found):
        with tarfile.open(found) as archive:
            return {one.name: archive.extractfile(one).read() for one in archive}
    said = found.read_bytes().replace(f"--output {target}".encode(), b"").replace(b"--output -", b"")
    return re.sub(rb"[0-9a-f]*\d[0-9a-f]*", b"0", said) if line in DATED else said


@contextmanager
def standard_output(file):
    """Standard output is a file that something was written to before, as where a shell appends."""
    kept = os.dup(1)
    with file.open("wb") as opened:
        opened.write(b"before\n")
        opened.flush()
        os.dup2(opened.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


@contextmanager
def read_from(pipe, found):
    """Somebody reads a pipe to its end into a file."""
    reader = threading.Thread(target=lambda: found.write_bytes(pipe.read_bytes()))
    reader.start()
    yield
    reader.join(timeout=60)
    assert not reader.is_alive()


def device(path, number):
    """A device of our own, as root could replace one of the machine; others cannot."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, number))
        path.write_bytes(b"") if number == 3 else None
    except PermissionError:
        path.symlink_to({3: "/dev/null", 7: "/dev/full"}[number])
    return path


def state(path):
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_rdev


every = pytest.mark.parametrize(("line", "option"), list(lines()), ids=lambda word: word.replace(" ", "_")[:40])


@every
def test_standard_output(ground, tmp_path, line, option):
    sent_to_standard_output(ground, tmp_path, line, option, "-")


@pytest.mark.survival
@every
def test_standard_output_by_its_name(ground, tmp_path, line, option):
    sent_to_standard_output(ground, tmp_path, line, option, "/dev/stdout")


def sent_to_standard_output(ground, tmp_path, line, option, target):
    expected, file = wanted(ground, line, option), tmp_path / "stdout"
    before = STANDARD_OUTPUT.readlink()
    with standard_output(file):
        outcome = told(ground, line, option, target)
    assert outcome.code == 0, outcome.err
    said = file.read_bytes()
    assert said.startswith(b"before\n")
    file.write_bytes(
        said.removeprefix(b"before\n") + outcome.out.encode()
    )  # bytes go to the descriptor, text to the stream
    assert comparable(line, file, target) == expected
    assert STANDARD_OUTPUT.readlink() == before


@pytest.mark.survival
@every
def test_a_pipe_is_written_to_and_stays(ground, tmp_path, line, option):
    expected, pipe, found = wanted(ground, line, option), tmp_path / "pipe", tmp_path / "found"
    os.mkfifo(pipe)
    before = state(pipe)
    with read_from(pipe, found):
        outcome = told(ground, line, option, pipe)
    assert outcome.code == 0, outcome.err
    assert comparable(line, found, pipe) == expected
    assert state(pipe) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found", "pipe"]


@pytest.mark.survival
@every
def test_a_device_takes_it_or_says_why_not(ground, tmp_path, line, option):
    null, full = device(tmp_path / "null", 3), device(tmp_path / "full", 7)
    before = state(null), state(full)
    taken, refused = told(ground, line, option, null), told(ground, line, option, full)
    assert taken.code == 0, taken.err
    assert refused.code == 3
    assert f"error: {full}: cannot be written: No space left on device.\n" in refused.err
    assert (state(null), state(full)) == before


@pytest.mark.survival
@every
def test_a_link_stays_and_its_file_is_written(ground, tmp_path, line, option):
    expected, link, file = wanted(ground, line, option), tmp_path / "link", tmp_path / "file"
    if "calibrate" not in line and not line.startswith(FOLDERS):  # which write nothing over
        file.write_text("before")
    link.symlink_to("file")
    if line.startswith(FOLDERS):
        file.mkdir()
    outcome = told(ground, line, option, link)
    assert outcome.code == 0, outcome.err
    assert str(link.readlink()) == "file"
    assert comparable(line, file, link) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.survival
@every
def test_nothing_else_is_written_to(ground, tmp_path, line, option):
    kept = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(kept))
    link = tmp_path / "link"
    link.symlink_to(kept)
    before = state(kept), state(link)
    for target in (kept, link):
        outcome = told(ground, line, option, target)
        assert outcome.code == 2
        assert len([said for said in outcome.err.splitlines() if said.startswith("error: ")]) == 1
        assert str(target) in outcome.err
    assert (state(kept), state(link)) == before


def test_a_file_stays_behind_its_link_and_devices_stay(ground, tmp_path):
    """Of one command what the long rounds ask of each."""
    for number, test in enumerate((test_standard_output_by_its_name, test_a_pipe_is_written_to_and_stays, test_a_device_takes_it_or_says_why_not,
                                   test_a_link_stays_and_its_file_is_written, test_nothing_else_is_written_to)):  # fmt: skip
        (tmp_path / str(number)).mkdir()
        test(ground, tmp_path / str(number), "models", "--output")


def test_a_terminal_named_as_a_file_gets_no_control_character(ground):
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    outcome = sweepdb(["sql", "SELECT chr(27) || 'x' AS a", "--format", "csv", "--output", name], ground["url"])
    os.close(slave)
    shown = os.read(master, 1000)
    os.close(master)
    assert outcome.code == 0, outcome.err
    assert shown == b"a\r\n\\x1bx\r\n"


def test_two_answers_do_not_share_standard_output(ground):
    outcome = sweepdb("query best --proof -", ground["url"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "would both go to standard output" in outcome.err


def test_what_is_shown_in_a_browser_is_a_file(ground):
    outcome = sweepdb(["sql", "SELECT 1", "--open", "--output", "-"], ground["url"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "--open shows a file" in outcome.err


def test_a_file_of_that_name_is_named_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sweepdb("models --format csv --output ./-").code == 0
    assert (tmp_path / "-").read_text().startswith("model,")


def test_a_reader_that_left_is_no_error_of_the_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BrokenPipeError):  # noqa: PT012  the reader leaves while the file is written
        with written_whole(pipe) as temporary:
            temporary.write_text("unread")
            os.close(reader)
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
