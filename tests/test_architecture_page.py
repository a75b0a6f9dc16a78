"""The pictures of the architecture page are those of the imports, and the paths that it names are there."""

import re

import pytest

from tools.architecture_page import PACKAGES, ROOT, package_arrows, part_arrows, with_pictures

PAGE = ROOT / "docs" / "explanation" / "architecture.md"


def test_the_pictures_are_those_of_the_imports():
    text = PAGE.read_text()
    assert with_pictures(text) == text, "make docs draws them anew"
    assert text.count("```mermaid") == 2


def test_packages_import_downwards():
    arrows = package_arrows()
    assert arrows["store"] == set()
    assert {name for name, targets in arrows.items() if "cli" in targets} <= {"tools"}
    assert {name for name, targets in arrows.items() if "sweepdb" in targets} <= {"cli", "tools"}


@pytest.mark.parametrize("package", PACKAGES)
def test_parts_of_a_package_are_drawn_from_the_top_down(package):
    arrows = part_arrows(package)
    reached = {name: set(targets) for name, targets in arrows.items()}
    for _ in arrows:
        for targets in reached.values():
            targets.update(*(reached.get(target, set()) for target in list(targets)))
    assert not [name for name, targets in reached.items() if name in targets], "parts import each other"


def test_paths_that_the_page_names_are_there():
    named = re.findall(r"`([a-z_]+(?:/[a-z_.]+)+/?)`", PAGE.read_text())
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []
