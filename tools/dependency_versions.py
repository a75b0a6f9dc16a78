"""The demo with the oldest or newest dependencies: `python -m tools.dependency_versions oldest FOLDER`.

Installs what `make demo` does into an environment in FOLDER, from wheels alone. Oldest are the bounds of
pyproject.toml; their own dependencies are new."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRA = "serve"  # as `make demo` installs
_BOUND = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=([0-9.]+)[^;]*(;.*)?")


def lower_bounds() -> list[str]:
    """As constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    matches = map(_BOUND.fullmatch, [*project["dependencies"], *project["optional-dependencies"][EXTRA]])
    return [f"{match[1]}=={match[2]}{match[3] or ''}" for match in matches if match is not None]


def main(which: str, folder: str) -> int:
    """Returns the demo's exit code."""
    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    environment, constraints = place / "environment", place / "constraints.txt"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)  # noqa: S603  our own arguments
    constraints.write_text("\n".join(lower_bounds() if which == "oldest" else []) + "\n", encoding="utf-8")
    install = ["install", "--quiet", "--only-binary", ":all:", "--constraint", str(constraints)]
    pip = [str(environment / "bin" / "pip"), *install, f"{ROOT}[{EXTRA}]"]
    subprocess.run(pip, check=True)  # noqa: S603  our own arguments
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    surroundings = {**os.environ, "PATH": path, "SWEEPDB_STORE": f"sqlite:///{place / 'demo.sqlite'}"}
    demo = ["sh", str(ROOT / "docs" / "demo.sh")]
    return subprocess.run(demo, check=False, cwd=place, env=surroundings).returncode  # noqa: S603  our own arguments


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
