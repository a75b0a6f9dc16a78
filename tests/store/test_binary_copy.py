"""Rows packed for PostgreSQL against what the same table gives back, and against rows in plain Python."""

import struct

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from store.schema.declaring import DOUBLE, INTEGER, LONG, Column
from store.writing.arrays import HEADER, TRAILER, packed

COLUMNS = (
    Column("whole", INTEGER, "none", "of four bytes"),
    Column("long", LONG, "none", "of eight bytes", nullable=True),
    Column("double", DOUBLE, "none", "a number", nullable=True),
)


def in_python(row):
    """A row as the format is described, by hand."""
    packed_row = struct.pack(">h", 3) + struct.pack(">ii", 4, row[0])
    packed_row += struct.pack(">i", -1) if row[1] is None else struct.pack(">iq", 8, row[1])
    return packed_row + (struct.pack(">i", -1) if row[2] is None else struct.pack(">id", 8, row[2]))


ROWS = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.none() | st.integers(-(2**53), 2**53),
        st.none() | st.floats(allow_nan=False),
    ),
    min_size=1,
    max_size=12,
)


def arrays(rows):
    longs = [np.nan if row[1] is None else float(row[1]) for row in rows]
    doubles = np.ma.masked_invalid([np.nan if row[2] is None else row[2] for row in rows], copy=True)
    doubles.mask = [row[2] is None for row in rows]
    return [np.array([row[0] for row in rows]), np.array(longs), doubles]


@settings(max_examples=examples(200))
@given(ROWS)
def test_every_row_is_there_once_with_its_gaps(rows):
    given_bytes = b"".join(packed(COLUMNS, arrays(rows)))
    expected = [in_python(row) for row in rows]
    assert len(given_bytes) == sum(map(len, expected))
    rest = list(expected)
    while given_bytes:
        found = next(row for row in rest if given_bytes.startswith(row))
        rest.remove(found)
        given_bytes = given_bytes[len(found) :]
    assert rest == []


def test_a_column_that_is_not_there_is_null():
    (rows,) = packed(COLUMNS, [np.array([7]), None, None])
    assert rows == in_python((7, None, None))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 1e10])
def test_a_value_out_of_range_is_refused_and_not_wrapped(value):
    with pytest.raises(OverflowError, match="whole is out of range"):
        list(packed(COLUMNS, [np.array([value]), None, None]))


def test_postgresql_reads_what_is_packed(postgresql_url):
    import psycopg

    rows = [(1, None, 0.1), (2, 2**53, None), (-3, -7, float("inf")), (4, 5, -0.0)]
    with psycopg.connect(postgresql_url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE numbers (whole integer, long bigint, double double precision)")
        with cursor.copy("COPY numbers FROM STDIN (FORMAT binary)") as copy:
            copy.write(b"".join([HEADER, *packed(COLUMNS, arrays(rows)), TRAILER]))
        assert cursor.execute("SELECT * FROM numbers ORDER BY abs(whole)").fetchall() == rows
