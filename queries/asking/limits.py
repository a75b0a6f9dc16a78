"""Every limit as a field of `Limits`; options, checks, words and SQL (queries.asking.limit_sql) follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from typing import Any

from queries.asking.declaring import Option, above_zero, check_declared, not_negative, option, within
from queries.errors.spreads import LEVELS, OTHERS, TUNED
from store.errors import InputError
from store.light_dataclass import NamedTuple, dataclass

MOST_GIB = 1e6
_DECIMALS = 2  # of a relaxed limit, at least


class Slider(NamedTuple):
    """The values that a page offers."""

    label: str
    low: float
    high: float
    initial: float | None = None  # None: no limit
    kind: str = "log"
    usual: float | None = None  # of a page that is opened without limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`predicted` maps stored columns to factors from prediction to measured value.

    None: errors are unknown. Of two columns the definition of TPOT chooses one; `metric` names the choice."""

    name: str  # in answers of `nearest`, `sensitivity` and `why`
    phases: tuple[str, ...]  # whose rows have the metric
    short: str  # in a line of limits
    called: str  # in sentences
    metric: str | None = None  # column of judged rows; None: of requests that arrive alone
    predicted: Mapping[str, str | None] = field(default_factory=dict)
    least: bool = False  # whether values below it break it
    arriving: bool = False  # whether requests that arrive have the metric
    apart: bool = False  # whether pairs of an engine have the metric, too, though neither side does
    slider: Slider | None = None
    place: str = ""  # field of `Limits`
    option: Option = field(default_factory=lambda: Option(help=""))

    @property
    def keyword(self) -> str:
        return self.option.keyword or self.place

    @property
    def article(self) -> str:
        return "An" if self.called.startswith("e") else "A"

    @property
    def variable(self) -> str:
        return str(self.option.variable)

    @property
    def is_reserve(self) -> bool:
        """Free memory: it always has a value, and is no prediction."""
        return self.option.unit == "GiB"

    @property
    def errors_known(self) -> bool:
        return any(self.predicted.values())

    @property
    def bound(self) -> str:
        """The judged column: the metric, or a bound of its measured value."""
        return f"{self.metric}_bound"

    @property
    def asked(self) -> str:
        """In SQL."""
        return f"getvariable('{self.variable}')"

    def factor_by(self, tpot_rule: str) -> str | None:
        """By definition of TPOT, where there are two."""
        factors = tuple(self.predicted.values())
        return factors[-1] if tpot_rule == "exclusive" else factors[0]


def _limit(help_: str, about: Limit, *, unit: str = "ms", default: float | None = None, **more: Any) -> Any:  # noqa: ANN401
    more = {"without": "no limit" if default is None else "never NULL", "check": above_zero(), **more}
    made: Any = field(default=default, metadata={"option": Option(help=help_, unit=unit, **more), "limit": about})
    return made


_TIMED = ("prefill", "aggregated")
_DECODED = ("decode", "aggregated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that an answer must satisfy; None does not limit. The reserve is in GiB a device.

    With a confidence, each limit on times is one of measured values, kept with that probability."""

    ttft_ms: float | None = _limit(
        "most ms to the first token",
        Limit(
            name="ttft", arriving=True, short="ttft", called="TTFT", phases=_TIMED, metric="ttft_ms",
            predicted={"ttft_ms": "ttft"}, slider=Slider("TTFT at most", 10, 60_000, usual=2_000),
        ),
        keyword="ttft_limit", was=("ttft_limits",), variable="ttft_limit_ms",
    )  # fmt: skip
    tpot_ms: float | None = _limit(
        "most ms per output token",
        Limit(
            name="tpot", arriving=True, short="tpot", called="TPOT", phases=_DECODED, metric="tpot_ms",
            predicted={"tpot_inclusive_ms": "tpot_inclusive", "tpot_exclusive_ms": "tpot_exclusive"},
            slider=Slider("TPOT at most", 1, 500, usual=50),
        ),
        keyword="tpot_limit", was=("tpot_limits",), variable="tpot_limit_ms",
    )  # fmt: skip
    tbt_ms: float | None = _limit(
        "most ms between two tokens, for the wanted share of them",
        Limit(name="tbt", arriving=True, short="time between tokens", called="time between tokens", phases=_DECODED),
        keyword="tbt_limit", was=("tbt_limits",), variable="tbt_limit_ms",
    )  # fmt: skip
    e2e_ms: float | None = _limit(
        "most ms of a whole request",
        Limit(
            name="e2e", short="e2e", called="end-to-end time", phases=("aggregated",), apart=True, metric="e2e_ms",
            predicted={"e2e_ms": "tpot_inclusive"}, slider=Slider("Request at most", 100, 1_000_000),
        ),
        keyword="e2e_limit", was=("e2e_limits",), variable="e2e_limit_ms",
    )  # fmt: skip
    min_tokens_per_s_per_user: float | None = _limit(
        "least tokens/s of one user",
        Limit(
            name="tokens_per_s_per_user", short="tokens/s/user", called="tokens/s for each user", phases=_DECODED,
            metric="tokens_per_s_per_user", predicted={"tokens_per_s_per_user": "tpot_exclusive"}, least=True,
        ),
        variable="min_user_rate", unit="tokens/s",
    )  # fmt: skip
    reserved_gib: float = _limit(
        "GiB of each device that stay free",
        Limit(
            name="memory", short="reserve", called="the memory kept free", phases=(*_TIMED, "decode"), least=True,
            metric="memory_free_bytes", slider=Slider("Memory kept free", 0, 40, initial=10, kind="linear"),
        ),
        keyword="reserved_memory_gb", variable="reserved_gib", unit="GiB", default=10.0, check=not_negative(MOST_GIB),
    )  # fmt: skip
    confidence: float | None = option(
        None, "keep each limit with this probability, such as 0.8; limits are of measured values then",
        check=within(LEVELS[0], LEVELS[-1]),
    )  # fmt: skip
    tuned_servers: bool = option(
        False,
        "limits are read for servers tuned like the benchmarks' [default: like others', whose errors are larger]",
        flag="--tuned-servers",
    )

    def __post_init__(self) -> None:
        check_declared(self)
        if self.confidence is not None and not self.on_times:
            unknown = ", ".join(f"`{one.keyword}`" for one, _ in self.given if not one.is_reserve)
            raise InputError(
                f"`confidence` reads limits whose errors are known, and those of {unknown} are not"
                if unknown
                else "`confidence` reads limits, and none is given",
                hint="add `ttft_limit` or `tpot_limit`",
            )

    @property
    def given(self) -> tuple[tuple[Limit, float], ...]:
        """The reserve always counts."""
        values = ((one, getattr(self, one.place)) for one in limit_table())
        return tuple((one, value) for one, value in values if value is not None)

    @property
    def servers(self) -> str:
        """Unless the user validated points."""
        return TUNED if self.tuned_servers else OTHERS

    @property
    def surely(self) -> tuple[str, ...]:
        """Confidence and servers in words; nothing where limits are read as predicted."""
        if self.confidence is None:
            return ()
        whose = "servers tuned like the benchmarks'" if self.tuned_servers else "others' servers"
        return (f"each kept by measured values on {whose} with {100 * self.confidence:g} %",)

    @property
    def on_times(self) -> tuple[tuple[Limit, float], ...]:
        """Limits that can be read with a confidence."""
        return tuple((one, value) for one, value in self.given if one.errors_known)

    def said(self) -> list[str]:
        """`ttft <= 500 ms`, without the reserve."""
        return [
            f"{one.short} {'>=' if one.least else '<='} {value:g}{_unit(one, one.short)}"
            for one, value in self.given
            if not one.is_reserve
        ]

    def told(self) -> list[str]:
        """`TTFT at most 500 ms`, without the reserve."""
        return [
            f"at least {value:g} {one.called}" if one.least else f"{one.called} at most {value:,g} {one.option.unit}"
            for one, value in self.given
            if not one.is_reserve
        ]


def _unit(one: Limit, words: str) -> str:
    return "" if one.option.unit in words else f" {one.option.unit}"


@cache
def limit_table() -> tuple[Limit, ...]:
    rows = ((item, item.metadata.get("limit")) for item in fields(Limits))
    return tuple(replace(row, place=item.name, option=item.metadata["option"]) for item, row in rows if row is not None)


@cache
def row_limits() -> tuple[Limit, ...]:
    return tuple(one for one in limit_table() if one.metric is not None)


@cache
def predicted_limits() -> tuple[Limit, ...]:
    return tuple(one for one in row_limits() if not one.is_reserve)


@cache
def moved_times() -> tuple[Limit, ...]:
    return tuple(one for one in predicted_limits() if one.slider and one.option.unit == "ms" and one.errors_known)


def limits_told() -> list[dict[str, object]]:
    return [
        {
            "name": one.name, "keyword": one.keyword, "field": one.place, "called": one.called, "short": one.short,
            "unit": one.option.unit, "least": one.least, "reserve": one.is_reserve, "of_rows": one.metric is not None,
            "arriving": one.arriving, "everywhere": one.slider is not None and not one.apart,
            "slider": one.slider and one.slider._asdict(),
        }
        for one in limit_table()
    ]  # fmt: skip


def listed_limits() -> str:
    names = [one.name for one in row_limits()]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def limit_named(name: str) -> Limit:
    return next(one for one in row_limits() if one.name == name)


def relaxed_to(row: Mapping[str, object], limits: Limits) -> str | None:
    """A limit that admits a nearest miss, rounded away from the limit asked."""
    binding, value = limit_named(str(row["binding_limit"])), Decimal(str(row["relax_to"]))
    if binding.is_reserve and value < 0:
        return None  # it does not fit even with no reserve
    asked = Decimal(str(getattr(limits, binding.place) or 0.0))
    # A miss of 0.0004 needs the fourth decimal, and one more to stay close to the row.
    decimals = max(_DECIMALS, 1 - abs(value - asked).adjusted()) if value != asked else _DECIMALS
    rounding = ROUND_FLOOR if binding.least else ROUND_CEILING
    return str(value.quantize(Decimal(1).scaleb(-decimals), rounding=rounding))
