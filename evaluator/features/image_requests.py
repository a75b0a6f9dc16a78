"""Images of requests, encoded inside an instance or on devices of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evaluator.features.feature import Feature, SupportPart, plans_of, ways_of
from evaluator.inputs.images import Images, VisionTower
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.encoding import embedding_bytes
from store.errors import InputError


class EncodersApart(Feature):
    plans = plans_of("EncodersApart")

    def refuses(self, scenario: Scenario) -> InputError | None:
        images = scenario.workload.images
        if images is None or not scenario.plan.encoder_devices:
            return None
        if serving_engine(scenario) is None:
            part = f"{scenario.serving_model} has no encoders on devices of their own"
            return InputError(part, hint="an engine has: `serving_model=vllm`")
        if images.split == "data":
            return InputError(
                "`encoder_split=data` is of encoders inside an instance, `encoder_devices` of those beside it",
                hint="leave one of them out",
            )
        if scenario.workload.tiers:
            return InputError("`encoder_devices` are not evaluated beside keys outside the devices")
        if scenario.workload.bins:
            return InputError("`encoder_devices` are evaluated with one prompt length, not with a distribution")
        return None

    def of_model(self, name: str, spec: ModelSpec) -> Iterator[SupportPart]:  # noqa: ARG002
        if isinstance(spec.vision, VisionTower):
            yield SupportPart(part=self.plans[0].name, state="by hand", how=self.plans[0].how)


class ImageRequests(Feature):
    ways = ways_of("ImageRequests")

    def lacking(self, scenario: Scenario) -> str:
        return "no images" if scenario.workload.images is not None else ""

    def refuses(self, scenario: Scenario) -> InputError | None:
        workload, tp = scenario.workload, scenario.plan.tp
        images = workload.images
        if images is None or scenario.plan.encoder_devices:
            return None
        if images.split == "weights" and images.tower.heads % tp:
            heads = f"the {images.tower.heads} heads of the image encoder do not divide over tp {tp}"
            return InputError(heads, hint="`encoder_split=data` gives each rank the whole encoder")
        if not workload.bins:
            return None
        if serving_engine(scenario) is None:
            name = scenario.serving_model
            mixed = f"`serving_model={name}` has images with one prompt length, not with a distribution"
            return InputError(mixed, hint="an engine has both: `serving_model=vllm`")
        if any(_hit_rates(workload)):
            return InputError("`prefix_cache_hit_rate` with `images` is of one prompt length, not of a distribution")
        return None

    def said(self, scenario: Scenario) -> Iterable[str]:
        images, apart = scenario.workload.images, scenario.plan.encoder_devices
        if images is None:
            return
        shared = {
            "weights": "tensor parallel ranks share the encoder's weights",
            "data": "each tensor parallel rank has the whole encoder and its share of a step's images",
        }
        number, size = f"{images.count} {_plural('image', images.count)}", f"{images.width}x{images.height}"
        cached = (
            "; those that the prefix cache holds are not encoded" if scenario.workload.prefix_cache_hit_rate else ""
        )
        where = "before its prompt" if apart else "in the first step of a prompt"
        yield f"{number} of {size} a request: {images.all_patches} patches and {images.tokens} prompt tokens each"
        yield f"the image encoder runs in 16 bits {where}, every image anew{cached}"
        yield "decoding and resizing images on the host is not priced"
        yield _said_of_encoders(scenario, images) if apart else shared[images.split]
        if "audio" in scenario.model.left_out:
            yield "no audio encoder"


def _said_of_encoders(scenario: Scenario, images: Images) -> str:
    number = scenario.plan.encoder_devices
    each = 1e-6 * embedding_bytes(scenario.model, images)
    return (
        f"{number} {_plural('device', number)} of their own encode for each instance, which holds no"
        f" encoder then: {each:.3g} MB of an image come over the link to other hosts"
    )


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def _hit_rates(workload: Workload) -> Iterator[float]:
    for bin_ in workload.bins:
        own = bin_.prefix_cache_hit_rate
        yield workload.prefix_cache_hit_rate if own is None else own
