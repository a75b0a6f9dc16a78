"""`dataclass` and `NamedTuple` for modules that a new process imports: methods are closures over the fields, where the
standard library compiles six functions for a class, or one. An evaluation declares 240 classes: a seventh of its
processor time.

`dataclasses` sees no difference: fields, replace, asdict and FrozenInstanceError are its own. Only a class that
inherits from one of these is to be one itself."""

from __future__ import annotations

import dataclasses
import operator
from collections import _tuplegetter  # type: ignore[attr-defined]  # as the standard library reads a field
from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

_FEW = 50  # objects of a class that may be made before its __init__ is compiled

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  passed on
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  passed on
else:

    def dataclass(  # noqa: ANN201
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True, order: bool = False
    ):
        """The standard library's, with those of its options that this program uses."""

        def make(cls: type) -> type:
            if cls.__doc__ is None:
                cls.__doc__ = cls.__name__  # or its signature would be written into it
            own = {name for name, value in vars(cls).items() if callable(value)}
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            fields = dataclasses.fields(made)
            names = tuple(field.name for field in fields)
            told = tuple(field.name for field in fields if field.repr)
            methods: dict[str, object] = {"__init__": _init(made, frozen=frozen), "__repr__": _repr(told)}
            if eq:
                compared = tuple(field.name for field in fields if field.compare)
                methods |= {"__eq__": _by(operator.eq, compared), "__hash__": _hash(compared) if frozen else None}
            for one in (operator.lt, operator.le, operator.gt, operator.ge) if order else ():
                methods[f"__{one.__name__}__"] = _by(one, compared)
            if frozen:
                methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
            if frozen and slots:
                methods |= {"__getstate__": _getstate(names), "__setstate__": _setstate(names)}
            for name, method in methods.items():
                if name not in own:
                    setattr(made, name, method)
            return made

        return make


def _init(cls: type[Any], *, frozen: bool) -> Callable[..., None]:
    """An `__init__` that needs no compiling; a class of many objects has one compiled, which takes as long as 100."""
    fields = [field for field in dataclasses.fields(cls) if field.init]
    by_place = tuple(field.name for field in fields if not field.kw_only)
    names = tuple(field.name for field in fields)
    defaults = {field.name: field.default for field in fields if field.default is not MISSING}
    more = [(field.name, field.default_factory) for field in fields if field.default_factory is not MISSING]
    finish = getattr(cls, "__post_init__", None)
    put, wanted, made = object.__setattr__, frozenset(names), 0

    def __init__(self: object, *values: object, **named: object) -> None:  # noqa: N807
        nonlocal made
        made += 1
        if made == _FEW:
            cls.__init__ = _compiled_init(cls, frozen=frozen)
        given = {**dict(zip(by_place, values, strict=False)), **named} if values else named
        wrong = len(given) < len(values) + len(named)
        if len(given) < len(names):
            given = {**defaults, **given}
            for name, make in more:
                if name not in given:
                    given[name] = make()
        if wrong or given.keys() != wanted:
            raise TypeError(f"{cls.__qualname__} takes {', '.join(names)}, not {values} and {', '.join(named)}")
        for name in names:
            put(self, name, given[name])
        if finish is not None:
            finish(self)

    return __init__


def _compiled_init(cls: type[Any], *, frozen: bool) -> Callable[..., None]:
    """The standard library's: a parameter a field, those by keyword last."""
    known: dict[str, object] = {"_put": object.__setattr__, "_lacking": MISSING}
    by_place: list[str] = []
    by_keyword: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name, usual, value = field.name, "", field.name
        if field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            usual, value = "=_lacking", f"_make_{name}() if {name} is _lacking else {name}"
        elif field.default is not MISSING:
            known[f"_usual_{name}"] = field.default
            usual = f"=_usual_{name}"
        if field.init:
            (by_keyword if field.kw_only else by_place).append(name + usual)
            lines.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    taken = ", ".join(["self", *by_place, *(["*", *by_keyword] if by_keyword else [])])
    exec(f"def __init__({taken}):\n " + "\n ".join(lines or ["pass"]), known)  # noqa: S102  fields of our own
    return cast("Callable[..., None]", known["__init__"])


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple([getattr(one, name) for name in names])


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    return lambda self: f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _by(compare: Callable[[Any, Any], bool], names: tuple[str, ...]) -> Callable[[Any, object], bool]:
    values = _values(names)
    return lambda self, other: compare(values(self), values(other)) if type(other) is type(self) else NotImplemented


def _hash(names: tuple[str, ...]) -> Callable[[Any], int]:
    values = _values(names)
    return lambda self: hash(values(self))


def _getstate(names: tuple[str, ...]) -> Callable[[Any], tuple[object, ...]]:
    values = _values(names)
    return lambda self: values(self)  # noqa: PLW0108  a getter by itself is not bound to the instance


def _setstate(names: tuple[str, ...]) -> Callable[[Any, tuple[object, ...]], None]:
    def set_all(self: object, values: tuple[object, ...]) -> None:
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    return set_all


def _refuse_to_set(_self: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _new(fields: tuple[str, ...], defaults: dict[str, object]) -> Callable[..., object]:
    put, wanted = tuple.__new__, len(fields)

    def __new__(cls: type[Any], *values: object, **named: object) -> object:  # noqa: N807
        if len(values) == wanted and not named:
            return put(cls, values)
        by_place = dict(zip(fields, values, strict=False))
        given = {**defaults, **by_place, **named}
        if len(values) > wanted or by_place.keys() & named.keys() or given.keys() != set(fields):
            raise TypeError(f"{cls.__qualname__} takes {', '.join(fields)}, not {values} and {', '.join(named)}")
        return put(cls, tuple(given[name] for name in fields))

    return __new__


if not TYPE_CHECKING:

    class _Named(type):
        def __new__(cls, name: str, bases: tuple[type, ...], held: dict[str, object]) -> type:
            fields = tuple(held.get("__annotations__", ()))
            defaults = {field: held[field] for field in fields if field in held}
            own = {
                "__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields,
                "__new__": _new(fields, defaults),
            }  # fmt: skip
            getters = {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
            return super().__new__(cls, name, bases, held | own | getters)

    class NamedTuple(tuple, metaclass=_Named):  # noqa: SLOT001  its metaclass does
        """Its fields are annotated."""

        def __repr__(self) -> str:
            told = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({told})"

        def __getnewargs__(self) -> tuple[object, ...]:
            return tuple(self)

        @classmethod
        def _make(cls, values: Iterable[object]) -> NamedTuple:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__qualname__} takes {', '.join(cls._fields)}, not {tuple(made)}")
            return made

        def _replace(self, **changed: object) -> NamedTuple:
            return type(self)(**(self._asdict() | changed))

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))
