"""Images of requests, as options name them."""

from __future__ import annotations

from evaluator.inputs import ImageRequest, check_images
from queries.asking import sides_of
from store.errors import InputError
from sweepdb.evaluating.sweep_options import SweepOptions


def images_asked(options: SweepOptions) -> ImageRequest | None:
    """The images of every request; None where nothing was said of any."""
    if options.images is None or options.image_size is None:
        for keyword in ("images", "image_size", "encoder_split", "encoder_devices"):
            if getattr(options, keyword) is not None:
                missing = "image_size" if keyword == "images" else "images"
                raise InputError(
                    f"`{keyword}` needs `{missing}`", hint="images of a request: `images=2` `image_size=1024x768`"
                )
        return None
    width, height = sides_of(options.image_size)
    return check_images(
        ImageRequest(count=options.images, width=width, height=height, split=options.encoder_split or "weights")
    )
