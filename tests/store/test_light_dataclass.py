"""Classes of `store.light_dataclass` do what the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from dataclasses import FrozenInstanceError, asdict, field, fields, replace

import pytest

from store import light_dataclass

KINDS = {"light": light_dataclass.dataclass, "standard": dataclasses.dataclass}


def declared(kind):
    """The same classes by one of the two decorators: frozen with a default and a factory, and one that may change."""
    dataclass = KINDS[kind]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Point:
        x: int
        y: int = 2
        tags: tuple[str, ...] = field(default_factory=tuple)

        def __post_init__(self):
            if self.x < 0:
                raise ValueError("negative")

    @dataclass(frozen=True, slots=True)
    class Pair:
        first: int
        second: int = 0

    @dataclass(slots=True)
    class Counter:
        count: int = 0

    @dataclass(frozen=True, slots=True, kw_only=True, eq=False)
    class Same:
        value: int

        def __repr__(self):
            return "mine"

    @dataclass(frozen=True, slots=True, order=True)
    class Version:
        major: int
        minor: int = field(default=0, kw_only=True)
        said: str = field(init=False, compare=False, repr=False)

        def __post_init__(self):
            object.__setattr__(self, "said", f"{self.major}.{self.minor}")

    return Point, Pair, Counter, Same, Version


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    name: str
    size: int = 1


@light_dataclass.dataclass(frozen=True, slots=True)
class Light:
    name: str
    size: int = 1


@pytest.fixture(params=[*KINDS, "compiled"])
def kind(request, monkeypatch):
    """A decorator; `compiled` has each class's __init__ compiled once its first object is made."""
    if request.param == "compiled":
        monkeypatch.setattr(light_dataclass, "_FEW", 1)
    return "light" if request.param == "compiled" else request.param


def made_once(classes):
    """The same classes after one object of each."""
    point_class, pair, counter, same, version = classes
    assert [point_class(x=1), pair(1), counter(), same(value=1), version(1)]
    return classes


def test_values_defaults_and_what_dataclasses_knows(kind):
    point_class, pair, counter, same, _ = made_once(declared(kind))
    point = point_class(x=1)
    assert (point.x, point.y, point.tags) == (1, 2, ())
    assert [one.name for one in fields(point_class)] == ["x", "y", "tags"]
    assert asdict(replace(point, y=5)) == {"x": 1, "y": 5, "tags": ()}
    assert point == point_class(x=1, y=2)
    assert hash(point) == hash((1, 2, ()))
    assert point != point_class(x=3)
    assert point != (1, 2, ())
    assert repr(point).endswith("Point(x=1, y=2, tags=())")
    assert pair.__match_args__ == ("first", "second")
    assert pair(7) == pair(7, second=0)
    assert repr(same(value=1)) == "mine"
    assert same(value=1) != same(value=1)  # without eq an object equals itself alone
    changed = counter()
    changed.count += 1
    assert changed == counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(changed)
    assert not hasattr(point, "__dict__")


def test_order_and_fields_apart_from_it(kind):
    *_, version = made_once(declared(kind))
    first, later = version(1, minor=9), version(2)
    assert first < later <= version(2, minor=0)
    assert later >= version(2) > first
    assert (first.said, later.said) == ("1.9", "2.0")
    object.__setattr__(later, "said", "two")  # no part of what is compared, hashed or shown
    assert later == version(2)
    assert hash(later) == hash((2, 0))
    assert repr(later).endswith("Version(major=2, minor=0)")
    with pytest.raises(TypeError):
        first < (2, 0)  # noqa: B015


def test_what_is_wrong_is_refused(kind):
    point_class, pair, _, _, version = made_once(declared(kind))
    point = point_class(x=1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises(ValueError, match="negative"):
        replace(point, x=-1)
    for wrong in (point_class, lambda: point_class(x=1, z=2), lambda: pair(1, 2, 3), pair, lambda: version(1, 2)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError):
        pair(1, first=2)


@pytest.mark.parametrize("made", [Light("a", 3), Standard("a", 3)], ids=KINDS)
def test_copies_and_pickles_are_equal(made):
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert copy.copy(made).size == 3


class LightPlace(light_dataclass.NamedTuple):
    """A place."""

    name: str
    size: int = 2

    @property
    def twice(self) -> int:
        return 2 * self.size


class StandardPlace(typing.NamedTuple):
    """A place."""

    name: str
    size: int = 2

    @property
    def twice(self) -> int:
        return 2 * self.size


@pytest.mark.parametrize("place", [LightPlace, StandardPlace])
def test_a_named_tuple_has_fields_by_place_and_name(place):
    one = place("here")
    assert one == ("here", 2) == place(name="here") == place("here", size=2) == place._make(["here", 2])
    assert (one.name, one.size, one.twice) == ("here", 2, 4)
    assert place._fields == ("name", "size")
    assert place._field_defaults == {"size": 2}
    assert one._replace(size=5) == ("here", 5)
    assert one._asdict() == {"name": "here", "size": 2}
    assert repr(one) == f"{place.__name__}(name='here', size=2)"
    assert typing.get_type_hints(place) == {"name": str, "size": int}
    assert place.__doc__ == "A place."
    for copied in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert copied == one
        assert type(copied) is place
    match one:
        case place(name, size):
            assert (name, size) == one
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize("place", [LightPlace, StandardPlace])
@pytest.mark.parametrize(
    ("values", "named"), [((), {}), (("a", 1, 2), {}), (("a",), {"name": "b"}), (("a",), {"other": 1})]
)
def test_a_named_tuple_refuses_other_values(place, values, named):
    with pytest.raises(TypeError):
        place(*values, **named)
    with pytest.raises(TypeError):
        place._make([*values, 1, 2, 3])
    with pytest.raises(AttributeError):
        place("a").name = "b"
