"""Names that steer a reader, a browser, a spreadsheet or a shell, and a store whose every name is one of them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from xml.etree import ElementTree as ET

from store.location import parse_url

NAMES = {
    "meta": '<meta http-equiv=refresh content="0;url=http://evil">',
    "script": "</script></title><script>alert(1)</script><img src=x onerror=alert(1)>",
    "escape": "m\x1b[31mx\x9b\x07",
    "turned": "gnp\u202eexe\u2066",
    "nothing": "a\x00b",
    "no XML": "x\ufffe\uffff\x0b",
    "formula": '=HYPERLINK("http://evil","x")',
    "quotes": "a'b\"c`d$(touch /tmp/owned)\\;&|",
    "lines": "one\r\ntwo\u2028three\ttab",
    "long": "n" * 10_000,
    "astral": "\U0001f600" * 300,
}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
DRAWN = {"svg", "g", "path", "text", "rect", "line", "style", "defs", "clipPath", "tspan", "title"}


def named(url, name):
    """Call everything that has a name so; devices differ in their last letter."""
    with closing(sqlite3.connect(parse_url(url).path)) as connection, connection:
        connection.execute("UPDATE model SET name = ?", [name])
        connection.execute("UPDATE model_alias SET alias = ?", [name])
        connection.execute("UPDATE workload SET label = ?, name = ?", [name, name])
        connection.execute("UPDATE sweep SET label = ?, program_version = ?", [name, name])
        connection.execute("UPDATE scenario SET assumptions = ?, launchable_by = ?", [name, name])
        for (id_,) in connection.execute("SELECT id FROM device").fetchall():
            given = f"{name}{id_}"
            connection.execute(
                "UPDATE subject SET device_name = ? WHERE id IN (SELECT subject_id FROM scenario WHERE device_id = ?)",
                [given, id_],
            )
            connection.execute("UPDATE device SET name = ?, vendor = ? WHERE id = ?", [given, name, id_])


def assert_only_drawn(picture):
    """An SVG has the elements of a picture and no others."""
    assert {element.tag.rpartition("}")[2] for element in ET.fromstring(picture).iter()} <= DRAWN
