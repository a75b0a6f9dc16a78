"""Questions and answers, for those who show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.asking import (
        NEAREST,
        OLD_COLUMNS,
        OLD_NAMES,
        PARTS,
        Answer,
        Declared,
        Json,
        Limits,
        Question,
        Report,
        asked_reports,
        declared,
        given_options,
        instance_budget,
        keywords_of,
        old_name_note,
        old_word_note,
        option_table,
        picture_of,
        plain_types,
        question_of,
        question_report,
        relaxed_to,
        report,
        shown_names,
    )
    from queries.composition import COMPOSITION_COLUMNS, RealisedMean, composition_table, realised_means
    from queries.dictionary import dictionary, schema_text
    from queries.errors import BASIS, METRIC_NAMES, WHOSE, ExpectedError
    from queries.judging import HELD
    from queries.proofs import KeptAnswer, probes_of, verify_proof, write_proof
    from queries.sandbox import StatementLimits, run_sql, write_parquet
    from queries.session import Session
    from sweepdb.sessions import open_session

__getattr__, __dir__ = lazy_face(__name__)
