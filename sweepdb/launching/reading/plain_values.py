"""Values of a document that anybody may have written: what is not as expected is empty, or what is given."""

from __future__ import annotations

from sweepdb.launching.server_command import Role


def mapping(value: object) -> dict[str, object]:
    """A mapping with text as keys."""
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}


def number(value: object, default: int) -> int:
    """A whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def role_of(name: str) -> Role:
    """The role of a name; a server where it is no side."""
    return "prefill" if name == "prefill" else "decode" if name == "decode" else "server"
