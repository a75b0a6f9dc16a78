"""Memoising by identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

_Objects = ParamSpec("_Objects")
_Made = TypeVar("_Made")


class SameObjects(Generic[_Objects, _Made]):
    """Memoises by identity: hashing frozen operators and models costs more than what is made of them.

    Objects are held, so that no other gets their address."""

    def __init__(self, make: Callable[_Objects, _Made], *, most: int = 512) -> None:
        self._make = make
        self._most = most  # of which it knows what was made; then it begins anew
        self._known: dict[tuple[object, ...], tuple[_Made, tuple[object, ...]]] = {}
        self.__doc__ = make.__doc__

    def __call__(self, *objects: _Objects.args, **named: _Objects.kwargs) -> _Made:
        place: tuple[object, ...] = (*map(id, objects), *named, *map(id, named.values()))
        found = self._known.get(place)
        if found is None:
            if len(self._known) >= self._most:
                self._known.clear()
            found = self._known[place] = (self._make(*objects, **named), (*objects, *named.values()))
        return found[0]
