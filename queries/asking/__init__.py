"""Options and limits, headers of reports, checked questions and their SQL parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.asking.declaring import (
        Declared,
        above_zero,
        check_declared,
        declared,
        image_size,
        in_new_words,
        old_word_note,
        one_of,
        option,
        other_words,
        plain_types,
        shown,
        sides_of,
        within,
    )
    from queries.asking.frames import Framed
    from queries.asking.headers import Report, shown_names
    from queries.asking.library import (
        NEAREST,
        OLD_COLUMNS,
        OLD_NAMES,
        old_name_note,
        question_report,
        report,
        reports,
        variables_taken,
    )
    from queries.asking.limits import Limit, Limits, limit_named, limit_table, limits_told, moved_times, relaxed_to
    from queries.asking.options import (
        ATTAINMENT,
        MOST_DEVICES,
        MOST_RATE,
        PARTS,
        PRESETS,
        PairOptions,
        ReportOptions,
        Scope,
        option_table,
    )
    from queries.asking.parameters import check_question, instance_budget
    from queries.asking.pictures import Json, picture_looks, picture_of, report_pictures
    from queries.asking.question import Answer, Question, question_of
    from queries.asking.report_keywords import Keyword, asked_reports, keywords_of
    from queries.asking.variables import known_variables, settings

__getattr__, __dir__ = lazy_face(__name__)
