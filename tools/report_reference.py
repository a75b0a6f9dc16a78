"""The reference page of reports, from headers and SQL variables.

Views and columns: queries.dictionary."""

from __future__ import annotations

from queries.asking import Report, known_variables, reports, variables_taken

_INTRODUCTION = """# Reports

`sweepdb query REPORT` runs one, `--show-sql` prints its SQL. Columns not listed here are those of the
[probe view](schema.md#probe). A pair has those of its sides, with `prefill_` or `decode_` before names that both
have. Missing is NULL, never 0.

Reports that compare devices have `basis`, too: what the rates of a device rest on (`measured`, `carried from`
another device, `fitted to serving points`, `data sheet`). Under limits on times rows have `holds`: whether
measured values are expected to keep them.
"""


def reference_page() -> str:
    return "\n".join([_INTRODUCTION, *(_section(item) for item in reports().values())])


def _section(item: Report) -> str:
    lines = [f"## {item.name}", "", f"{item.summary}", ""]
    taken = [one for name, one in known_variables().items() if name in variables_taken(item.name)]
    if taken:
        lines += ["| variable | type | unit | NULL |", "|---|---|---|---|"]
        lines += [f"| `{one.name}` | {one.type} | {_unit(one.unit)} | {one.null} |" for one in taken]
        lines.append("")
    lines += ["| column | unit | meaning |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {_unit(one.unit)} | {one.meaning} |" for one in item.columns]
    return "\n".join([*lines, ""])


def _unit(unit: str) -> str:
    return "" if unit == "none" else unit
