"""A question's scenarios, and their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.scoping.groups import formats_title

__getattr__, __dir__ = lazy_face(__name__)
