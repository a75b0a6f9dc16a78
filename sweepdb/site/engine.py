"""DuckDB for browsers from two npm packages: 32 MB that no wheel should hold."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from store.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """Digest, and members with their names in a site."""

    name: str
    version: str
    digest: str  # SHA-512 in base64, as npm states it
    members: Mapping[str, str]

    @property
    def file(self) -> str:
        """As `npm pack` names it."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


# Its DuckDB is 1.4.3, and must be no older than the format of published files (queries.publishing.duckdb_targets).
_DUCKDB = Package(
    name="@duckdb/duckdb-wasm",
    version="1.32.0",
    digest="IewXTNYEjsZCPE9weUWgtjGxUlMRo7qhX0GF6tq/KjK8bnY+RAl4cyUdYUfcdzbyb4b9ZxPC+FOsCcxgaKFWMg==",
    members={
        "package/dist/duckdb-browser.mjs": "duckdb.js",
        "package/dist/duckdb-browser-eh.worker.js": "duckdb.worker.js",
        "package/dist/duckdb-eh.wasm": "duckdb.wasm",
        "package/package.json": "duckdb.package.json",  # says whose it is, and the licence
    },
)
_ARROW = Package(
    name="apache-arrow",
    version="17.0.0",
    digest="X0p7auzdnGuhYMVKYINdQssS4EcKec9TCXyez/qtJt32DrIMGbzqiaMiQ0X6fQlQpw8Fl0Qygcv4dfRAr5Gu9Q==",
    members={
        "package/Arrow.esnext.min.js": "arrow.js",
        "package/LICENSE.txt": "arrow.LICENSE.txt",
        "package/NOTICE.txt": "arrow.NOTICE.txt",
    },
)
_PACKAGES = (_DUCKDB, _ARROW)
_PACK = f"npm pack {' '.join(f'{one.name}@{one.version}' for one in _PACKAGES)}"
_TIMEOUT_S = 600.0
_NAMED = '"apache-arrow"'  # which a browser does not find without a map of names
_AS_MODULE = (
    "const exports = {{}}, module = {{ exports }};\n{}\nexport const {{ RecordBatchReader, Table, Type }} = exports;\n"
)


def find_engine(folder: Path | None) -> Path:
    """The one named, else the user's cache, which npm fills."""
    if folder is not None:
        if missing := _missing(folder):
            raise InputError(f"{folder} has no {missing[0]}", hint=f"fetch it with: cd {folder} && {_PACK}")
        return folder
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweepdb"
    if _missing(kept):
        _fetch(kept)
    return kept


def packed(engine: Path, target: Path) -> None:
    """Refuses an archive that is not npm's."""
    target.mkdir(parents=True)
    for package in _PACKAGES:
        path = engine / package.file
        digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        if digest != package.digest:
            raise InputError(f"{path} is not {package.name} {package.version} as npm has it", hint=f"again: {_PACK}")
        with tarfile.open(path) as archive:
            for member, name in package.members.items():
                source = archive.extractfile(member)
                assert source is not None
                with (target / name).open("wb") as file:
                    shutil.copyfileobj(source, file)
    _adapt(target / "duckdb.js", lambda text: text.replace(_NAMED, '"./arrow.js"'))
    _adapt(target / "arrow.js", _AS_MODULE.format)


def _adapt(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line for line in change(text).split("\n") if "sourceMappingURL" not in line), "utf-8")


def _missing(folder: Path) -> list[str]:
    return [one.file for one in _PACKAGES if not (folder / one.file).is_file()]


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise InputError(
            "a site needs DuckDB for browsers, which is not here, and there is no npm to fetch it",
            hint=f"where npm is: {_PACK}; bring both files here and name their folder with `engine`",
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(  # noqa: S603  npm, with words of ours
            [npm, *_PACK.split()[1:]],
            env=os.environ | {"npm_config_loglevel": "silent", "npm_config_pack_destination": str(folder)},
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed or _missing(folder):
        raise InputError(
            "npm could not fetch DuckDB for browsers",
            hint=f"see why: {_PACK}; then name the folder of both files with `engine`",
        )
