"""What every table shares: the declarative base, the naming of constraints, and the types of keys.

Not here: tables."""

from __future__ import annotations

from typing import Annotated

from sqlalchemy import BigInteger, ForeignKey, Integer, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# SQLite gives rowid speed only to a column of the exact type INTEGER.
BigKey = BigInteger().with_variant(Integer, "sqlite")
Identifier = Annotated[int, mapped_column(BigKey, primary_key=True, autoincrement=True)]
Key = Annotated[str, mapped_column(String(64))]
Name = Annotated[str, mapped_column(String(200))]
JsonText = Annotated[str, mapped_column(Text)]

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Declarative base with deterministic constraint names, so that migrations can address them."""

    metadata = MetaData(naming_convention=NAMING)


def reference(target: str, comment: str, *, index: bool = True) -> Mapped[int]:
    """Declare a foreign key to an integer key."""
    return mapped_column(BigKey, ForeignKey(target), index=index, comment=comment)


def optional_reference(target: str, comment: str) -> Mapped[int | None]:
    """Declare a foreign key that may be NULL."""
    return mapped_column(BigKey, ForeignKey(target), nullable=True, index=True, comment=comment)
