"""Session variables of a question that asks nothing but its report, for tests that call macros by themselves."""

from __future__ import annotations

from queries.asking.parameters import parameters_of
from queries.asking.question import Question
from queries.asking.variables import known_variables, settings


def set_variables(connection, **values):
    """Set every variable of a question, some of them to these values."""
    known = {**parameters_of(Question(), ("decode",)), **values}
    wanted = {name: value for name, value in known.items() if name in known_variables()}
    connection.execute("\n".join(settings(wanted).values()))
