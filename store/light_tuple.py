"""`NamedTuple` for modules that a new process imports: the standard library compiles a function for each class, which
takes five times as long as all the rest.

Fields, defaults, `_make`, `_replace` and `_asdict` are as there."""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]  # as the standard library reads a field
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

_FEW = 50  # objects of a class that may be made by name before its __new__ is compiled


def _new(fields: tuple[str, ...], defaults: dict[str, object]) -> Callable[..., Any]:
    """A `__new__` that needs no compiling; a class of many objects has one compiled."""
    put, wanted, made = tuple.__new__, len(fields), 0

    def __new__(cls: type[Any], *values: object, **named: object) -> object:  # noqa: N807
        nonlocal made
        if len(values) == wanted and not named:
            return put(cls, values)
        made += 1
        if made == _FEW:
            cls.__new__ = _compiled(fields, defaults)
        by_place = dict(zip(fields, values, strict=False))
        given = {**defaults, **by_place, **named}
        if len(values) > wanted or by_place.keys() & named.keys() or given.keys() != set(fields):
            raise TypeError(f"{cls.__qualname__} takes {', '.join(fields)}, not {values} and {', '.join(named)}")
        return put(cls, tuple(given[name] for name in fields))

    return __new__


def _compiled(fields: tuple[str, ...], defaults: dict[str, object]) -> Callable[..., Any]:
    taken = ", ".join(f"{name}=_defaults[{name!r}]" if name in defaults else name for name in fields)
    known = {"_put": tuple.__new__, "_defaults": defaults}
    exec(f"def __new__(_cls, {taken}):\n return _put(_cls, ({', '.join(fields)},))", known)  # noqa: S102  our fields
    return cast("Callable[..., Any]", known["__new__"])


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  passed on
else:

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
