"""The generated reference pages are what the program would write now, and links between documents lead somewhere."""

import re
from pathlib import Path

import pytest

from cli.reference import FOLDER, queries_markdown, write_pages
from evaluator.profiles.load import profile_from_text
from queries.library import reports

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def test_the_page_of_reports_is_up_to_date():
    assert (FOLDER / "queries.md").read_text(encoding="utf-8") == queries_markdown(), "run: make docs"


def test_every_report_has_its_section_with_every_column():
    sections = dict(re.findall(r"^## ([a-z-]+)\n(.*?)(?=^## |\Z)", queries_markdown(), re.M | re.S))
    for name, report in reports().items():
        assert all(f"`{column.name}`" in sections[name] for column in report.columns), name


def test_pages_are_written_where_asked(tmp_path):
    assert [path.name for path in write_pages(tmp_path)] == ["queries.md", "schema.md"]
    assert (tmp_path / "schema.md").read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    targets = [link for link in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]
    missing = [link for link in targets if not (document.parent / link).exists()]
    assert not missing


def test_the_example_of_a_device_profile_is_accepted():
    text = (ROOT / "docs" / "howto" / "add-a-device.md").read_text(encoding="utf-8")
    profile = profile_from_text(text.split("```yaml\n")[1].split("```")[0], "add-a-device.md")
    assert (profile.name, profile.grid, len(profile.links)) == ("my_device", (16, 8), 2)
