"""Reads an engine's flags from its own parser, for sweepdb/launching/flags.

`python -m tools.engine_flags vllm 0.33.0 FOLDER`: FOLDER is the unpacked wheel, whose parser's imports must be
installed, torch without a GPU too."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

FLAGS = Path(__file__).parents[1] / "sweepdb" / "launching" / "flags"


def _vllm() -> argparse.ArgumentParser:
    platforms: Any = import_module("vllm.platforms")
    platforms._current_platform = import_module("vllm.platforms.cpu").CpuPlatform()  # noqa: SLF001  none is detected
    parser: Any = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    import_module("vllm.engine.arg_utils").AsyncEngineArgs.add_cli_args(parser)
    parser.add_argument("--host")  # of `vllm serve`, whose own parser imports the whole server
    parser.add_argument("--port", type=int)
    parser.add_argument("--headless", action="store_true")
    return parser  # type: ignore[no-any-return]


def _sglang() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return parser


PARSERS: Mapping[str, Callable[[], argparse.ArgumentParser]] = {"vllm": _vllm, "sglang": _sglang}


def table(parser: argparse.ArgumentParser) -> list[dict[str, object]]:
    """A row a flag: names, type and choices, and a plain default."""
    rows = []
    for action in parser._actions:  # noqa: SLF001  the parser offers no other list
        names = sorted(action.option_strings, key=lambda name: not name.startswith("--"))
        if not names or "--help" in names:
            continue
        help_text = "" if action.help in {None, argparse.SUPPRESS} else str(action.help)
        row: dict[str, object] = {"names": names, "takes": _takes(action)}
        if action.choices is not None:
            row["choices"] = sorted(str(choice) for choice in action.choices)
        if isinstance(action.default, str | int | float) and not isinstance(action.default, bool):
            row["default"] = action.default
        if action.required:
            row["required"] = True
        if "deprecated" in help_text.lower()[:200]:
            row["deprecated"] = True
        rows.append(row)
    return sorted(rows, key=lambda row: str(row["names"]))


def _takes(action: argparse.Action) -> str:
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return "nothing"
    name = getattr(action.type, "__name__", "str") if action.type is not None else "str"
    kind = name if name in {"int", "float", "str"} else "text"
    return f"{kind}s" if action.nargs in {"+", "*"} else kind


def main(engine: str, version: str, folder: str) -> None:
    sys.path.insert(0, folder)
    found = table(PARSERS[engine]())
    FLAGS.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"engine": engine, "version": version})[1:-1]
    lines = ",\n".join(json.dumps(row) for row in found)
    (FLAGS / f"{engine}-{version}.json").write_text(f'{{{head}, "flags": [\n{lines}\n]}}\n', encoding="utf-8")
    sys.stdout.write(f"{engine} {version}: {len(found)} flags\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
