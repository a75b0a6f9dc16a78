"""Proofs: question, answer, and digests of rows, so that anyone can ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.proofs.answer_files import KeptAnswer
    from queries.proofs.document import probes_of
    from queries.proofs.verifying import verify_proof, write_proof

__getattr__, __dir__ = lazy_face(__name__)
