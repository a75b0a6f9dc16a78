"""Draws pictures until its pipe closes. Run as a program.

A line of JSON in, length and bytes out. Imports nothing of ours, to start fast."""

from __future__ import annotations

import json
import struct
import sys

HEAD = struct.Struct(">?Q")  # whether it was drawn, and how many bytes follow: the picture, or why not


def main() -> int:
    import vl_convert

    for line in sys.stdin.buffer:
        asked = json.loads(line)
        options = {"scale": asked["scale"]} if asked["form"] == "png" else {}
        try:
            drawn = getattr(vl_convert, f"vegalite_to_{asked['form']}")(asked["spec"], **options)
        except ValueError as error:
            told = str(error).encode("utf-8", "replace")
            sys.stdout.buffer.write(HEAD.pack(False, len(told)) + told)
        else:
            content = drawn if isinstance(drawn, bytes) else str(drawn).encode()
            sys.stdout.buffer.write(HEAD.pack(True, len(content)) + content)
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
