"""No group of measured points is predicted worse than at the last release, unless a release says so."""

from tools.accuracy_moved import groups, kept, moved, worse


def test_no_group_is_predicted_worse_than_at_the_last_release():
    grown = worse(kept(), groups())
    assert grown == [], "mend it, or say it in the release notes and keep it: python -m tools.accuracy_moved --keep"


def test_every_group_of_the_release_is_still_predicted():
    assert set(kept()) - set(groups()) == set()


def test_a_group_is_worse_by_two_points_and_a_tenth():
    before = {"small": 4.0, "large": 60.0, "better": 10.0, "gone": 5.0}
    # 2.1 points of 4 % are worse; 5 points of 60 % are less than a tenth; 1.9 points are let pass whatever the share.
    assert worse(before, {"small": 6.1, "large": 65.0, "better": 3.0}) == ["small"]
    assert worse(before, {"small": 5.9, "large": 66.1}) == ["large"]


def test_what_moved_is_a_table_both_ways():
    before = {"a": 4.0, "b": 10.0, "c": 5.0, "gone": 5.0}
    table = moved(before, {"a": 6.1, "b": 3.0, "c": 6.0, "new": 1.0}).splitlines()[2:]
    assert table == ["| a | 4.0 | 6.1 |", "| b | 10.0 | 3.0 |", "| new | none | 1.0 |", "| gone | 5.0 | none |"]
    assert moved(before, before) == "nothing moved"
