"""Who serves, who asks and how the server was started: the engine, client, launch and routing of `evaluate`'s options.

Not here: which engine a device has where none is named (evaluator.defaults)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evaluator.inputs.launch import ROUTINGS, Client, Launch, Routing
from evaluator.inputs.workloads.workload_labels import DEFAULT_TOKEN_BUDGET
from evaluator.serving.engine.engines import EngineProfile, engine_profile, label_of_engine, list_engines, with_client
from evaluator.serving.models import list_serving_models
from store.errors import InputError
from sweepdb.evaluating.sweep_options import SweepOptions

LARGEST_COUNT = 1_000_000  # of seats and of waited steps
_CLIENT_OPTIONS = {
    "shortest": "--client-lengths",
    "prompts_per_user": "--prompts-per-user",
    "poll_steps": "--poll-steps",
}


@dataclass(frozen=True, slots=True)
class Serving:
    """A serving model as scenarios call it, with the engine where it is one."""

    label: str
    engine: EngineProfile | None

    @property
    def token_budget(self) -> int:
        """Tokens of one step where nothing is said."""
        return DEFAULT_TOKEN_BUDGET if self.engine is None else self.engine.token_budget


def find_serving(name: str, store_url: str | None) -> Serving:
    """By name, as a profile's file, or as a label that this store knows (`vllm@0a239add`)."""
    if name in list_engines():
        return Serving(name, engine_profile(name))
    if name in list_serving_models():
        return Serving(name, None)
    if Path(name).suffix in {".yaml", ".yml"}:
        engine = engine_profile(name)
        return Serving(label_of_engine(engine), engine)
    if "@" in name:
        from evaluator.serving.engine.stored_engines import stored_engine
        from store.opening import open_store

        with open_store(store_url, read_only=True) as store:
            return Serving(name, stored_engine(store, name))
    raise InputError(
        f"--serving-model {name} is not one of {', '.join(list_serving_models())}",
        hint="an engine's profile FILE.yaml works",
    )


def client_of(options: SweepOptions, serving: Serving) -> Client | None:
    """The client of the engine's profile with what was named of it; None where nothing was."""
    values = {
        "shortest": options.client_shortest,
        "prompts_per_user": options.prompts_per_user,
        "poll_steps": options.poll_steps,
    }
    named = {name: float(value) for name, value in values.items() if value is not None}
    if not named:
        return None
    if serving.engine is None:
        raise _no_engine(serving, *(_CLIENT_OPTIONS[name] for name in named))
    try:
        return with_client(serving.engine, named)
    except InputError as error:
        field, _, rest = error.message.partition(" ")
        raise InputError(f"{_CLIENT_OPTIONS.get(field, field)} {rest}", hint=error.hint) from error


def launch_of(options: SweepOptions, serving: Serving) -> Launch:
    """How the server was started; the token budget is the workload's."""
    given = {"--seats": options.seats, "--wait-steps": options.wait_steps}
    named = {option: value for option, value in given.items() if value is not None}
    if named and serving.engine is None:
        raise _no_engine(serving, *named)
    for option, value in named.items():
        least = 1 if option == "--seats" else 0
        if not least <= value <= LARGEST_COUNT:
            raise InputError(f"{option} must lie between {least} and {LARGEST_COUNT:,}, not {value}")
    return Launch(seats=options.seats, wait_steps=options.wait_steps or 0, compile=options.compile)


def routing_of(options: SweepOptions) -> Routing | None:
    """How tokens fall on experts; None (`auto`) leaves it to the serving model."""
    if options.routing is None or options.routing == "auto":
        return None
    for known in ROUTINGS:
        if options.routing == known:
            return known
    raise InputError(f"--routing {options.routing} is not one of {', '.join((*ROUTINGS, 'auto'))}")


def _no_engine(serving: Serving, *options: str) -> InputError:
    return InputError(
        f"{', '.join(options)}: {serving.label} plays no client and no server",
        hint=f"name an engine: --serving-model {' or '.join(list_engines()[-2:])}",
    )
