"""Commands whose help has headings and examples, and knows what a report takes.

Plain words and numbers are read here. Typer builds a pydantic validator an option: `query` has 70, and that takes as
long as all other imports. The rest goes to Typer, refused numbers to cli.typed_numbers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup

from cli.derived import OLD_FLAGS
from cli.output import say
from store.errors import InputError
from sweepdb import asking

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_READ: dict[object, Callable[[str], Any]] = {
    str: lambda text: text,
    int: lambda text: int(text) if _WHOLE.fullmatch(text) else None,
    float: lambda text: float(text) if _NUMBER.fullmatch(text) else None,
}


class PlainValue:
    """Builds Typer's reader of a parameter only when needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  Typer's own types, of one version or another
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if not several and (found := _plain(value, param.type_descriptor)) is not None:
            return found
        param._runtime_param = None  # noqa: SLF001  the seam that Typer leaves; without it, every option is its own
        try:
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        except BadParameter:
            if several or not isinstance(value, str) or param.type_descriptor.annotation not in {int, float}:
                raise
        finally:
            param._runtime_param = self  # noqa: SLF001  of the next line of this process
        from cli.typed_numbers import number_typed

        return number_typed(value, param)


def _plain(value: object, described: Any) -> object | None:  # noqa: ANN401  Typer's own type
    """None where Typer must decide. A default has its type already."""
    kind = described.annotation
    if kind not in _READ or described.is_choice:
        return None
    found = _READ[kind](value) if isinstance(value, str) else value if type(value) is kind else None
    if found is None or not described.is_ranged:
        return found
    least, most = described.parameter_info.min, described.parameter_info.max
    within = (least is None or least <= found) and (most is None or found <= most)
    return found if within else None


def read_plainly(parameters: list[Any]) -> list[Any]:
    for param in parameters:
        if getattr(param, "_runtime_param", _READER) is None:
            param._runtime_param = _READER  # noqa: SLF001  see above
    return parameters


_READER = PlainValue()


def refuse_repeated(args: Sequence[str], parameters: Sequence[Any]) -> None:
    """Twice with two values: one would go without a word."""
    spelled = {name: each for each in parameters for name in (*each.opts, *each.secondary_opts) if name[:2] == "--"}
    given: dict[str, tuple[str, ...]] = {}
    place = 0
    while place < len(args) and args[place] != "--":
        name, equals, value = args[place].partition("=")
        each = spelled.get(name)
        place += 1
        if each is None or each.param_type_name == "argument":
            continue
        typed = (name, value)[: 1 + bool(equals)]
        if not equals and not each.is_flag:
            typed = (name, *args[place : place + 1])
            place += 1
        before = given.setdefault(str(each.name), typed)
        same = typed == before if each.is_flag else typed[1:] == before[1:]
        if not same and not each.multiple:
            raise InputError(
                f"{' '.join(before)} and {' '.join(typed)} contradict each other.", hint="Give one of them."
            )


_KIND = r" <(?:str|int|float|path)>"
_TYPED = "sweepdb.typed"  # where a context keeps the words behind its command
HELP_ALL = "--help-all"


class DescribedCommand(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401  of one Typer or another
        return read_plainly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  of one Typer or another
        ctx.meta[_TYPED] = tuple(args)
        for old, new in OLD_FLAGS.items():
            if any(one.partition("=")[0] == old for one in args):
                say(f"note: {asking.old_word_note(old, new)}".replace("`", ""))
        refuse_repeated(args, self.get_params(ctx))
        return super().parse_args(ctx, ["--help" if one == HELP_ALL else one for one in args])

    def _shown(self, ctx: Any, asked: asking.Report | None) -> Callable[[str], bool]:  # noqa: ANN401  of one Typer or another
        """Options that matter; all where asked, or where few exist."""
        from cli.help.headings import FEW

        few = FEW.get(str(self.name))
        if few is None or HELP_ALL in ctx.meta.get(_TYPED, ()):
            return lambda _: True
        if asked is None:
            return few.__contains__
        from cli.help.report_help import few_takers

        own = few_takers()
        return lambda name: name in few or name in own

    def _report(self, ctx: Any) -> asking.Report | None:  # noqa: ANN401  of one Typer or another
        if self.name != "query":
            return None
        from cli.help.report_help import named_report

        return named_report(ctx.meta.get(_TYPED, ()))

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  of one Typer or another
        asked = self._report(ctx)
        if asked is None:
            super().format_help_text(ctx, formatter)
            return
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"{asked.name}: {asked.summary}")

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  of one Typer or another
        """Arguments, then headings in order of their first option."""
        from cli.help.headings import heading_of, in_order

        name = str(self.name)
        asked = self._report(ctx)
        beside: dict[str, str] = {}
        if name == "query":
            from cli.help.report_help import few_takers, report_names, taken

            beside = few_takers() if asked is None else {}
        shown, left = self._shown(ctx, asked), 0
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or (asked is not None and not taken(asked, str(parameter.name))):
                continue
            if not shown(str(parameter.name)):
                left += parameter.name != "help"
                continue
            argument = parameter.param_type_name == "argument"
            record = (", ".join(one for one in record[0].split(", ") if one.split()[0] not in OLD_FLAGS), record[1])
            heading = "Arguments" if argument else heading_of(name, str(parameter.name))
            told = f"{record[1]} ({beside[parameter.name]})" if parameter.name in beside else record[1]
            sections.setdefault(heading, []).append((record[0], told))
        if left:
            formatter.write("".join(f"{line}\n" for line in _brief(sections, in_order(sections), formatter.width)))
            formatter.write(
                f"\n{left} more options: {ctx.command_path}{f' {asked.name}' if asked else ''} {HELP_ALL}\n"
            )
        else:
            for heading in in_order(sections):
                with formatter.section(heading):
                    formatter.write_dl(sections[heading])
            if asked is not None:
                from cli.help.report_help import columns_of

                for heading, rows in columns_of(asked).items():
                    with formatter.section(heading):
                        formatter.write_dl(rows)
        if name == "query" and asked is None:
            with formatter.section("Reports"):
                listed = textwrap.wrap(", ".join(report_names()), formatter.width - 2, break_on_hyphens=False)
                formatter.write("".join(f"  {line}\n" for line in listed))
                formatter.write_text(
                    "query reports says what each answers, query REPORT --help which options it takes."
                )

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  of one Typer or another
        """Whole, so that they can be copied."""
        asked = self._report(ctx)
        examples: Sequence[str] = examples_of_commands().get(str(self.name), ())
        if asked is not None:
            from cli.help.report_help import report_examples

            examples = report_examples(asked)
        if examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            for example in examples:
                formatter.write("".join(f"{line}\n" for line in _continued(f"sweepdb {example}", formatter.width)))


def examples_of_commands() -> dict[str, tuple[str, ...]]:
    """Two a command; a test runs them through the parser."""
    lines = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8").splitlines()
    return {command: tuple(found) for command, found in groupby(lines, _command)}


def _command(line: str) -> str:
    first, second, *_ = f"{line} ".split(" ")
    return second if first == "db" else first


COMMANDS: Mapping[str, tuple[str, ...]] = {
    "Ask": ("plan", "schedule", "decide", "query", "report", "serve", "sql", "explain", "verify", "mcp"),
    "Evaluate and launch": ("evaluate", "worker", "launch"),
    "Look up": ("models", "devices", "support", "workloads", "prices"),
    "Measure": ("measurements", "compare", "validate", "regress", "watch", "calibrate"),
    "Keep": ("sweeps", "show", "void", "unvoid", "export", "import", "publish", "db"),
}


class DescribedGroup(TyperGroup):
    """`sweepdb` and its groups."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401  of one Typer or another
        return read_plainly(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  of one Typer or another
        left = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        named = {heading: [name for name in names if name in left] for heading, names in COMMANDS.items()}
        rest = [name for name in left if all(name not in names for names in named.values())]
        for heading, names in {**named, "Commands": rest}.items():
            if names:
                limit = formatter.width - 6 - max(map(len, left))
                with formatter.section(heading):
                    formatter.write_dl(
                        [(name, self.commands[name].get_short_help_str(limit)) for name in names], col_max=20
                    )

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  of one Typer or another
        """Where to go on."""
        if ctx.parent is None:
            formatter.write_paragraph()
            formatter.write_text(
                "sweepdb COMMAND --help has options and examples, sweepdb query REPORT --help those of a report."
                ' Completion: eval "$(sweepdb --show-completion bash)" in ~/.bashrc, or zsh in ~/.zshrc;'
                " fish: sweepdb --show-completion fish > ~/.config/fish/completions/sweepdb.fish"
            )


def _brief(sections: Mapping[str, Sequence[tuple[str, str]]], order: Sequence[str], width: int) -> Iterator[str]:
    """A line an option: its last name, and the first thing said of it."""
    named = {
        heading: [(re.sub(_KIND, "", names.rpartition(", ")[2]), told) for names, told in sections[heading]]
        for heading in order
    }
    wide = max(len(name) for found in named.values() for name, _ in found)
    for heading, found in named.items():
        yield f"\n{heading}:"
        yield from (f"  {name.ljust(wide)}  {_first_clause(told, width - wide - 4)}" for name, told in found)


def _first_clause(told: str, width: int) -> str:
    """Cut at a clause."""
    said = told.partition(" [")[0].partition("; ")[0].strip()
    if len(said) > width:
        said = said.partition(": ")[0]
    while len(said) > width and (ends := [place for mark in (", ", " (") if (place := said.rfind(mark)) > 0]):
        said = said[: max(ends)]
    if said.count("(") > said.count(")"):
        said = said[: said.rfind(" (")]
    return textwrap.shorten(said, width, placeholder=" ...")


def _continued(command: str, width: int) -> Iterator[str]:
    lines = textwrap.wrap(
        command, width - 4, initial_indent="  ", subsequent_indent="      ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    yield from (f"{line} \\" for line in lines[:-1])
    yield from lines[-1:]
