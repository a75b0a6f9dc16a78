"""A release as files: `python -m tools.release FOLDER [PYTHON...]` builds what HEAD holds, and tries it.

FOLDER gets the source archive, the wheel made of that archive, and their sums. With Pythons, each installs both into an
empty environment, versions as constraints.txt says, and runs the demo there: a JSON line each. The first one's packages
are the bill of materials, `sbom.cdx.json`."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_SOURCE = "from setuptools import build_meta; import sys; build_meta.build_sdist(sys.argv[1])"
_INSTALLED = """
import json
from importlib.metadata import distributions

def licence(stated):
    classes = [name.rpartition(" :: ")[2] for name in stated.get_all("Classifier", []) if name.startswith("License ::")]
    line = stated.get("License-Expression") or (stated.get("License") or "").partition("\\n")[0]
    return line or " AND ".join(classes)

listed = [one.metadata for one in distributions()]
print(json.dumps([{"name": one["Name"], "version": one["Version"], "license": licence(one)} for one in listed]))
"""
_MEGABYTE = 1e6


def _run(*command: str | Path, cwd: Path = ROOT, surroundings: dict[str, str] | None = None) -> bytes:
    """A failing command ends the release with its own words."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False, env=surroundings)  # noqa: S603  our own
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout


def build(folder: Path) -> list[Path]:
    """The wheel comes from the source archive; both have the commit's time."""
    folder.mkdir(parents=True, exist_ok=True)
    committed = _run("git", "log", "-1", "--format=%ct").decode().strip()
    surroundings = {**os.environ, "SOURCE_DATE_EPOCH": committed}
    with (
        tempfile.TemporaryDirectory() as place,
        tarfile.open(fileobj=io.BytesIO(_run("git", "archive", "HEAD"))) as head,
    ):
        head.extractall(place, filter="data")
        _run(sys.executable, "-c", _SOURCE, folder, cwd=Path(place), surroundings=surroundings)
    (source,) = folder.glob("sweepdb-*.tar.gz")
    _settle(source, int(committed))
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    _run(*pip, "--wheel-dir", folder, source, surroundings=surroundings)
    return [source, *folder.glob("sweepdb-*.whl")]


def _settle(archive: Path, when_s: int) -> None:
    """Setuptools writes the time of the build and the builder's name; the same commit shall give the same bytes."""
    with tarfile.open(archive) as built:
        held = [(entry, built.extractfile(entry)) for entry in sorted(built, key=lambda entry: entry.name)]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as settled:
            for entry, content in held:
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = (
                    when_s,
                    0,
                    0,
                    "",
                    "",
                    {},
                )
                settled.addfile(entry, content)
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=when_s))


def sums(files: list[Path]) -> str:
    """As `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def tried(python: str, file: Path, place: Path) -> dict[str, Any]:
    """Installs into an empty environment and runs the demo: seconds, megabytes, packages."""
    environment = place / "environment"
    _run(python, "-m", "venv", environment)
    empty = _size(environment)
    start = time.perf_counter()
    install = ("install", "--quiet", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt"))
    _run(environment / "bin" / "pip", *install, file)
    installed = time.perf_counter() - start
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SWEEPDB"))}
    path = f"{environment / 'bin'}{os.pathsep}{outside['PATH']}"
    surroundings = {**outside, "PATH": path, "SWEEPDB_STORE": f"sqlite:///{place / 'demo.sqlite'}"}
    start = time.perf_counter()
    _run("sh", ROOT / "docs" / "demo.sh", cwd=place, surroundings=surroundings)
    return {
        "python": _run(environment / "bin" / "python", "-V").decode().split()[1],
        "file": file.name,
        "install_s": round(installed, 1),
        "installed_mb": round((_size(environment) - empty) / _MEGABYTE),
        "demo_s": round(time.perf_counter() - start, 1),
        "packages": json.loads(_run(environment / "bin" / "python", "-c", _INSTALLED, cwd=place)),
    }


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def bill_of_materials(packages: list[dict[str, str]]) -> dict[str, Any]:
    """CycloneDX 1.5 (cyclonedx.org/docs/1.5/json)."""
    listed = sorted(packages, key=lambda package: package["name"].lower())
    components = [_component(one) for one in listed if one["name"] not in {"pip", "setuptools", "sweepdb"}]
    (own,) = (one for one in listed if one["name"] == "sweepdb")
    metadata = {"component": {**_component(own), "type": "application"}}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": metadata,
        "components": components,
    }


def _component(package: dict[str, str]) -> dict[str, Any]:
    name, version = package["name"], package["version"]
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    licenses = [{"license": {"name": package["license"]}}] if package["license"] else []
    return {"type": "library", "name": name, "version": version, "purl": purl, "licenses": licenses}


def main(folder: str, *pythons: str) -> None:
    """Sums come last: a folder that has them is complete."""
    place = Path(folder).resolve()
    files = build(place)
    bill = place / "sbom.cdx.json"
    for python in pythons:
        for file in files:
            with tempfile.TemporaryDirectory() as trial:
                line = tried(python, file, Path(trial))
            packages = line.pop("packages")
            sys.stdout.write(json.dumps(line) + "\n")
            if not bill.exists():
                bill.write_text(json.dumps(bill_of_materials(packages), indent=1) + "\n", encoding="utf-8")
    written = [*files, bill] if bill.exists() else files
    (place / "SHA256SUMS").write_text(sums(written), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
