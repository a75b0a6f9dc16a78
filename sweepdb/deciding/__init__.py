"""`decide`: the answer now, its certainty, and the run worth most. Reads the store, starts nothing:

    found = decide(model, store=store, ruled_out={"a1b2c3d4": "out of memory"}, **options_of_plan)
    while found.next_start is not None:  # else `found.decided` says why no run is worth it
        write_launch(found.next_start.probe, folder, store=store)
        ...  # start it; bench.sh with USERS = rung.concurrency for each rung of found.next_start.ladder; import
        found = decide(model, store=store, ruled_out=..., **options_of_plan)

`ruled_out` gives reasons why scenarios (`Start.scenario`) did not start. Rungs come by worth: a ladder may stop at
any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.deciding.decision import BUDGET, GAIN, MODE, MODES, REPORT, Decision, Mode
    from sweepdb.deciding.saying import NEXT, document, outcome_line, sentences
    from sweepdb.deciding.stored_decision import decide, decided

__getattr__, __dir__ = lazy_face(__name__)
