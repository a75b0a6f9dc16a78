"""Fields of subjects about client, launch and routing, each said once.

Record, columns, filters and titles of groups follow."""

from __future__ import annotations

from dataclasses import field, fields

from store.light_dataclass import dataclass
from store.schema.declaring import DOUBLE, INTEGER, Column, ColumnType, text


def _said(type_: ColumnType, unit: str, meaning: str, title: str, told: str | None = None) -> dict[str, object]:
    """Metadata of a field: its column, and the words of it in the title of a group that differs from others in it."""
    return {"type": type_, "unit": unit, "meaning": meaning, "title": title, "told": told}


@dataclass(frozen=True, slots=True)
class Served:
    """Client, launch and routing; None where the serving model does not read them, and in rows of formula version 1."""

    shortest_length: float | None = field(
        default=None,
        metadata=_said(
            DOUBLE,
            "ratio",
            "shortest request of the client, of its nominal length; NULL: not read",
            "lengths {:g}-1",
            "shortest request of the client, as a share of the nominal length; NULL where the serving model reads none",
        ),
    )
    prompts_per_user: int | None = field(
        default=None,
        metadata=_said(INTEGER, "requests", "requests each user sends; NULL: not read", "{} requests a user"),
    )
    poll_steps: int | None = field(
        default=None,
        metadata=_said(
            INTEGER, "steps", "steps between looks for new requests; NULL: not read", "polled every {} steps"
        ),
    )
    seats: int | None = field(
        default=None,
        metadata=_said(
            INTEGER, "requests", "requests a replica decodes at once; NULL: no bound or not read", "max-num-seqs {}"
        ),
    )
    wait_steps: int | None = field(
        default=None,
        metadata=_said(
            INTEGER, "steps", "steps that prompts wait for each other; NULL: not read", "prompts wait {} steps"
        ),
    )
    routing: str | None = field(
        default=None,
        metadata=_said(
            text(32),
            "none",
            "how experts are loaded; NULL: not read",
            "experts {}",
            "how experts are loaded: balanced or power_law_1.2; NULL: not read",
        ),
    )


SERVICE = tuple(one.name for one in fields(Served))
TITLES = {one.name: str(one.metadata["title"]) for one in fields(Served)}
OF_SERVICE: tuple[Column, ...] = tuple(
    Column(
        one.name,
        one.metadata["type"],
        one.metadata["unit"],
        one.metadata["meaning"],
        nullable=True,
        told=one.metadata["told"],
    )
    for one in fields(Served)
)
