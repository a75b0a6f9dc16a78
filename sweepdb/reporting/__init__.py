"""One HTML file about whole deployments, for people who decide; needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.texts import Html, element, embedded, html_of, html_page
    from sweepdb.planning.planning_options import report_options
    from sweepdb.reporting.contents import Contents, contents_of, of_plan
    from sweepdb.reporting.drawing import drawable, drawing_engine, drawn, vega_script
    from sweepdb.reporting.page_file import plain_page, rate_page, report_page
    from sweepdb.reporting.page_text import paragraph, preformatted, table_text
    from sweepdb.reporting.pictures import (
        explained_picture,
        picture_with,
        scheduled_picture,
        trend_picture,
        validated_picture,
    )

__getattr__, __dir__ = lazy_face(__name__)
