"""Engine, client, images, launch and routing from options."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from evaluator import inputs
from evaluator.serving import list_serving_models
from queries.asking import declared, sides_of
from store.errors import InputError
from store.light_dataclass import dataclass
from sweepdb.evaluating.sweep_options import SweepOptions

LARGEST_COUNT = 1_000_000  # of seats and of waited steps
_CLIENT_KEYWORDS = {
    "shortest": "client_lengths",
    "prompts_per_user": "prompts_per_user",
    "poll_steps": "poll_steps",
}


@dataclass(frozen=True, slots=True)
class Serving:
    """As scenarios name it, with its engine, if any."""

    label: str
    engine: inputs.EngineProfile | None

    @property
    def token_budget(self) -> int:
        return inputs.DEFAULT_TOKEN_BUDGET if self.engine is None else self.engine.token_budget


def find_serving(name: str, store_url: str | None) -> Serving:
    """A name, a profile's file, or a label of this store (`vllm@0a239add`)."""
    known = {_folded(each): each for each in list_serving_models()} | _CALLED
    label = known.get(_folded(name), name)
    if label in inputs.list_engines():
        return Serving(label, inputs.engine_profile(label))
    if label in list_serving_models():
        return Serving(label, None)
    if Path(name).suffix in {".yaml", ".yml"}:
        engine = inputs.engine_profile(name)
        return Serving(inputs.label_of_engine(engine), engine)
    if "@" in name:
        from evaluator.serving import stored_engine
        from store.opening import open_store

        with open_store(store_url, read_only=True) as store:
            return Serving(name, stored_engine(store, name))
    raise InputError(
        f"`serving_model={name}` is not one of {', '.join(list_serving_models())}.",
        hint="\n".join(
            (
                "Engines and formulas:",
                *(
                    f"{each}: {inputs.fitted_engine(each).note.replace(',', ':').partition(':')[0].rstrip('.')}."
                    for each in inputs.list_engines()
                ),
                *(
                    f"{each}: formulas, no engine."
                    for each in list_serving_models()
                    if each not in inputs.list_engines()
                ),
                "Of another engine, name its profile FILE.yaml.",
            )
        ),
    )


_CALLED = {"tensorrtllm": "trtllm", "tensorrt": "trtllm"}


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def client_of(options: SweepOptions, serving: Serving) -> inputs.Client | None:
    """The engine's usual client with what was named; None where nothing was."""
    given = {field: getattr(options, keyword) for field, keyword in _CLIENT_KEYWORDS.items()}
    named = {field: float(value) for field, value in given.items() if value is not None}
    if not named:
        return None
    if serving.engine is None:
        raise _no_engine(serving, *(_CLIENT_KEYWORDS[field] for field in named))
    try:
        return inputs.with_client(serving.engine, named)
    except InputError as error:
        field, _, rest = error.message.partition(" ")
        raise InputError(f"`{_CLIENT_KEYWORDS.get(field, field)}` {rest}", hint=error.hint) from error


def launch_of(options: SweepOptions, serving: Serving) -> inputs.Launch:
    given = {one.name: getattr(options, one.name) for one in fields(inputs.Launch) if one.name != "compile"}
    named = {keyword: value for keyword, value in given.items() if value is not None}
    if named and serving.engine is None:
        raise _no_engine(serving, *(_keyword_of(name) for name in named))
    for name, value in named.items():
        least, keyword = int(name == "seats"), _keyword_of(name)
        if not least <= value <= LARGEST_COUNT:
            raise InputError(f"`{keyword}` must lie between {least} and {LARGEST_COUNT:,}, not {value}")
    return inputs.Launch(compile=options.compile, **named)


def _keyword_of(field: str) -> str:
    return next(item.keyword for item in declared(SweepOptions) if item.field == field)


def routing_of(options: SweepOptions) -> inputs.Routing | None:
    if options.routing is None or options.routing == "auto":
        return None
    load = inputs.busiest_load(options.routing)
    if load != 1.0 and options.convention == "upstream":
        raise InputError("`convention=upstream` deals tokens out evenly", hint="leave out `routing`")
    return f"{inputs.LOAD}{load:g}" if options.routing.startswith(inputs.LOAD) else options.routing


def _no_engine(serving: Serving, *keywords: str) -> InputError:
    return InputError(
        f"{', '.join(f'`{keyword}`' for keyword in keywords)}: {serving.label} simulates no client and no server",
        hint=f"name an engine: `serving_model={' or '.join(inputs.list_engines()[-2:])}`",
    )


def images_asked(options: SweepOptions) -> inputs.ImageRequest | None:
    if options.images is None or options.image_size is None:
        for keyword in ("images", "image_size", "encoder_split", "encoder_devices"):
            if getattr(options, keyword) is not None:
                missing = "image_size" if keyword == "images" else "images"
                raise InputError(
                    f"`{keyword}` needs `{missing}`", hint="images of a request: `images=2` `image_size=1024x768`"
                )
        return None
    width, height = sides_of(options.image_size)
    return inputs.check_images(
        inputs.ImageRequest(count=options.images, width=width, height=height, split=options.encoder_split or "weights")
    )
