"""What the command line reads itself against what Typer reads, and errors that stay Typer's."""

from typing import Annotated

import pytest
import typer
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.help.commands import DescribedCommand, PlainValue
from store.errors import InputError

TEXTS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.integers(-3, 9).map(str),
    st.floats(allow_nan=True).map(repr),
    st.text(alphabet="+-.eE0123456789_ ", max_size=8),
    st.sampled_from(["", "nan", "inf", "-0", "007", "1_000", "٣", "1e400", " 5", "5.0", ".", "+.5e-3"]),
)


def echo(
    whole: int = 0,
    number: float = 0.0,
    word: str = "",
    several: Annotated[list[str] | None, typer.Option()] = None,
    few: Annotated[int, typer.Option(min=-1, max=7)] = 3,
):
    typer.echo(repr((whole, number, word, several, few)))


def program(cls):
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=cls)(echo)
    return app


PLAIN, USUAL = program(DescribedCommand), program(typer.core.TyperCommand)


@settings(max_examples=examples(300))
@given(st.sampled_from(["whole", "number", "word", "several", "few"]), TEXTS)
def test_every_word_is_read_as_typer_reads_it(option, text):
    arguments = [f"--{option}={text}"]
    plain, usual = (CliRunner().invoke(app, arguments) for app in (PLAIN, USUAL))
    if option in {"whole", "number", "few"} and usual.exit_code == 2:  # a number that Typer refuses in pydantic's words
        assert isinstance(plain.exception, InputError)
        assert plain.exception.message.startswith(f"--{option} must be ")
    else:
        assert (plain.exit_code, plain.output) == (usual.exit_code, usual.output)


def test_what_was_not_given_is_the_default():
    assert CliRunner().invoke(PLAIN, []).output == "(0, 0.0, '', None, 3)\n"


@pytest.mark.parametrize("option", ["whole", "number", "few"])
def test_a_wrong_number_is_told_in_our_words(option):
    result = CliRunner().invoke(PLAIN, [f"--{option}", "many"])
    whole = "" if option == "number" else "whole "
    assert result.exception.message == f"--{option} must be a {whole}number, not 'many'."


def test_the_seam_in_typer_is_there():
    # Without it the command line is right and slower.
    command = typer.main.get_command(PLAIN)
    (whole, *_) = command.get_params(typer.Context(command))
    assert isinstance(whole._runtime_param, PlainValue)
