"""Own points in files beside the store: one for each model on a device, as sources name them.

A file holds while its points and the program stay."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from queries.learning import Apart, FailedStart, OwnPoint, OwnPoints, Server
from store.errors import SweepdbError
from store.light_dataclass import NamedTuple
from store.whole_files import written_whole

KeyAndDevice = tuple[str, str]  # of a model, and our name
NAMES = "own-points.json"
_CELLS = tuple(OwnPoint.__slots__)
_MADE_OF: Mapping[str, Callable[[Any], Any]] = {"server": Server._make, "prompts": Apart._make, "order": tuple}
_cells_of = attrgetter(*_CELLS)


class StatedModel(NamedTuple):
    """As sources name it, and where it was served."""

    model: str
    device: str


class KeptPoints:
    def __init__(self, folders: Iterable[Path], program: str) -> None:
        self._folders = [folder for folder in folders if folder.is_dir()]
        self._program = program

    def names(self, stated: Collection[StatedModel]) -> Mapping[StatedModel, KeyAndDevice | None]:
        """None where the catalogue has no such model or device."""
        told = self._told(NAMES, self._program)
        with suppress(KeyError, TypeError, ValueError):
            known = {StatedModel(*one): None if name is None else (name[0], name[1]) for one, name in told["names"]}
            if known.keys() >= {*stated}:
                return {one: known[one] for one in stated}
        from sweepdb.own_runs.points import key_and_device

        found = {one: key_and_device(*one) for one in stated}
        self._put(NAMES, self._program, {"names": list(found.items())})
        return found

    def load(self, group: StatedModel, digest: str) -> OwnPoints | None:
        """None where outdated or unreadable."""
        told = self._told(_file_of(group), digest)
        with suppress(KeyError, TypeError, ValueError):
            failed = zip(_points(one for one, *_ in told["failed"]), told["failed"], strict=True)
            return OwnPoints(
                points=tuple(_points(told["points"])),
                failed=tuple(FailedStart(point, why, day) for point, (_, why, day) in failed),
            )
        return None

    def keep(self, group: StatedModel, digest: str, found: OwnPoints) -> None:
        failed = [(_cells_of(one.point), one.why, one.day) for one in found.failed]
        self._put(_file_of(group), digest, {"points": list(map(_cells_of, found.points)), "failed": failed})

    def _told(self, name: str, digest: str) -> dict[str, Any]:
        """Nothing where no file has this digest."""
        for folder in self._folders:
            with suppress(OSError, ValueError, KeyError, TypeError):
                told: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
                if told["digest"] == digest:
                    return told
        return {}

    def _put(self, name: str, digest: str, told: Mapping[str, object]) -> None:
        if not self._folders:
            return
        text = json.dumps({"digest": digest, **told})
        for folder in self._folders:
            with suppress(OSError, SweepdbError), written_whole(folder / name) as path:
                path.write_text(text, encoding="utf-8")
                return


def _file_of(group: StatedModel) -> str:
    return f"own-points-{hashlib.sha256(json.dumps(group).encode()).hexdigest()[:16]}.json"


def _points(every: Iterable[list[Any]]) -> Iterator[OwnPoint]:
    from queries.learning import Setting  # brings NumPy, which a store without points does not need

    kinds = {_CELLS.index(name): kind for name, kind in _MADE_OF.items()} | {_CELLS.index("setting"): Setting._make}
    for cells in every:
        for place, made in kinds.items():
            if cells[place] is not None:
                cells[place] = made(cells[place])
        yield OwnPoint(**dict(zip(_CELLS, cells, strict=True)))
