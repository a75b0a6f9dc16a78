"""Links between documents lead somewhere, and what they show is accepted."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from evaluator.inputs.devices.device_profiles import profile_from_text
from tools.reference_pages import REFERENCE_PAGES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GENERATED = {ROOT / "docs" / "reference" / name for name in REFERENCE_PAGES}  # when the site is built
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    targets = [link for link in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]
    missing = [link for link in targets if not (document.parent / link).exists()
               and (document.parent / link).resolve() not in GENERATED]  # fmt: skip
    assert not missing


def test_the_example_of_a_device_profile_is_accepted():
    text = (ROOT / "docs" / "howto" / "describe-what-you-serve.md").read_text(encoding="utf-8")
    profile = profile_from_text(text.split("```yaml\n")[1].split("```")[0], "my_device.yaml")
    assert (profile.name, profile.grid, len(profile.links)) == ("my_device", (16, 8), 2)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_stand_by_themselves(document):
    """A line right behind a table would become a row of it."""
    lines = [
        line.strip()
        for line in re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL).split("\n")
    ]
    joined = [
        (line, following) for line, following in pairwise(lines)
        if line and following and not line.startswith("<!--") and not following.startswith("<!--")
        and line.startswith("|") != following.startswith("|")
    ]  # fmt: skip
    assert joined == []
