"""Answers beside measured errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.judging.confidence import HELD
    from queries.judging.first_tokens import four_figures
    from queries.judging.subjects import KEY_LENGTH

__getattr__, __dir__ = lazy_face(__name__)
