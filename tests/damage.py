"""Damage to a legal file, as disks, editors, other programs and attackers do it: bytes, and fields of a document.

A strategy of hypothesis for each form of file. What is legal in the end by chance is no matter: a reader answers, or
raises an error of ours."""

from __future__ import annotations

import csv
import io
import json
from copy import deepcopy

from hypothesis import strategies as st

# What JSON or YAML may spell and no document of ours holds, as it stands in the text.
_SPELLED = (
    "1e999", "-1e999", "NaN", "Infinity", "-Infinity", ".nan", "-.inf", "9" * 400, "-" + "9" * 400, "9" * 5000, "1e308",
    "-0.0", "[" * 30 + "]" * 30, "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 100_000,
    r'"\ud800"', r'"\u0000"', r'"\u001b[31m"', "2001-99-99", "2001-01-01", "&a [*a]", "*nobody", "!!python/name:os.system",
    "? [a]", "<<: 1", "0x1F", "0o17", "1_000", "yes", "~", "''", "'",
)  # fmt: skip
_VALUES = (
    None, True, False, 0, -1, 1, 2, 7, 10**9, 2**31, 2**63, -(2**63), 10**300, 0.5, -0.25, 1e-300, 1e300, "", " ", "0",
    "text", "-1", "1e999", "nan", "inf", "\x1b[2Jname", "a\nb", "\r", "\x7f", "\u202e", "é" * 700, "x" * 70_000, [], {},
    [[]], [None], ["text"], [1, -1], [True], {"": None}, {"text": 1}, {"a": {"b": [{}]}},
)  # fmt: skip
_CELLS = (
    "", " ", "-", "text", "0", "-1", "1e999", "nan", "inf", "9" * 400, "1.5", "1,5", '"', '"a', "a\nb", "\x1b[2J", "\x00", "true",
    "é" * 700, "x" * 200_000, "2001-99-99", "1_0", "٣", "１", "0x10",
)  # fmt: skip
_NOISE = (
    b"\x00",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    b"\r",
    b"\n",
    b"\n\n",
    b'"',
    b",",
    b"{",
    b"[" * 5000,
)
_MARK = "\ue000{}\ue001"  # stands where a spelling goes


def damaged_bytes(base: bytes) -> st.SearchStrategy[bytes]:
    """A file with bytes flipped, cut off, taken out, put in, or written twice."""
    place = st.integers(0, max(0, len(base) - 1))

    def flipped(at: int, bit: int) -> bytes:
        return base[:at] + bytes([base[at] ^ (1 << bit)]) + base[at + 1 :] if base else b"\x01"

    def without(at: int, length: int) -> bytes:
        return base[:at] + base[at + length :]

    return st.one_of(
        st.builds(flipped, place, st.integers(0, 7)),
        place.map(lambda at: base[:at]),
        st.builds(without, place, st.integers(1, 40)),
        st.builds(lambda at, noise: base[:at] + noise + base[at:], place, st.sampled_from(_NOISE)),
        st.builds(lambda at, noise: base[:at] + noise + base[at:], place, st.binary(max_size=20)),
        st.builds(lambda at, length: base[: at + length] + base[at:], place, st.integers(1, 200)),
        st.sampled_from(
            [b"", b"\n", base * 2, base.replace(b"\n", b"\r"), base.decode("latin1").encode("utf-16"), b"null", b"[]"]
        ),
    )


@st.composite
def damaged_document(draw: st.DrawFn, base: object) -> bytes:
    """A document of JSON, which YAML is too, with one to three of its fields changed."""
    document = deepcopy(base)
    spelled: list[str] = []
    twice: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        holders = [holder for holder in _holders(document) if holder]
        if not holders:
            break
        _damage(draw, draw(st.sampled_from(holders)), spelled, twice)
    text = json.dumps(document)
    for number, spelling in enumerate(spelled):
        text = text.replace(json.dumps(_MARK.format(number)), spelling)
    for pair in twice:
        text = text.replace(pair, f"{pair}, {pair}", 1)
    return text.encode()


def _holders(value: object) -> list[dict | list]:
    if not isinstance(value, dict | list):
        return []
    inside = value.values() if isinstance(value, dict) else value
    return [value, *(holder for item in inside for holder in _holders(item))]


def _damage(draw, holder: dict | list, spelled: list[str], twice: list[str]) -> None:
    place = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    match draw(st.sampled_from(["other", "other", "spelled", "spelled", "gone", "renamed", "twice", "moved", "added"])):
        case "other":
            holder[place] = deepcopy(draw(st.sampled_from(_VALUES)))
        case "spelled":
            holder[place] = _MARK.format(len(spelled))
            spelled.append(draw(st.sampled_from(_SPELLED)))
        case "gone":
            del holder[place]
        case "renamed" if isinstance(holder, dict):
            holder[draw(st.sampled_from(["", "x", "\x1b[2J", f"{place} ", f"{place}".upper(), "1"]))] = holder.pop(
                place
            )
        case "twice" if isinstance(holder, dict):
            twice.append(f"{json.dumps(place)}: {json.dumps(holder[place])}")
        case "moved":
            holder[place] = [holder[place]] if draw(st.booleans()) else {"x": holder[place]}
        case _ if isinstance(holder, dict):
            holder[draw(st.sampled_from(["unknown", "\x00", "é", "__class__"]))] = deepcopy(
                draw(st.sampled_from(_VALUES))
            )
        case _:
            holder.extend([holder[place]] * draw(st.sampled_from([1, 3, 100])))


@st.composite
def damaged_table(draw: st.DrawFn, base: bytes) -> bytes:
    """A CSV file with cells, columns or lines changed."""
    rows = [list(row) for row in csv.reader(io.StringIO(base.decode()))]
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.integers(0, len(rows) - 1))
        if not rows[row]:
            continue
        column = draw(st.integers(0, len(rows[row]) - 1))
        match draw(st.sampled_from(["cell", "cell", "cell", "dropped", "doubled", "short", "long", "line"])):
            case "cell":
                rows[row][column] = draw(st.sampled_from(_CELLS))
            case "dropped":
                rows = [line[:column] + line[column + 1 :] for line in rows]
            case "doubled":
                rows = [[*line, *line[column : column + 1]] for line in rows]
            case "short":
                rows[row] = rows[row][:column]
            case "long":
                rows[row] = [*rows[row], "more"]
            case _:
                rows.insert(row, list(rows[row]))
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode()
