"""Notes on batches too small to hold every length bin. Not here: what they hold (queries.composition)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweepdb.asking import RealisedMean

NOTED_BIAS = 0.05
_SAID_ONE_BY_ONE = 4


def bias_note(mean: RealisedMean) -> Iterator[str]:
    """A sentence where the mean prompt is off by more than 5 %."""
    if abs(mean.bias) > NOTED_BIAS:
        yield (
            f"note: the batch of {mean.probe} has a mean prompt of {mean.realised:.0f} tokens,"
            f" the distribution {mean.wanted:.0f} ({mean.bias:+.0%}): too small to hold every bin"
        )


def bias_summary(means: Sequence[RealisedMean]) -> Iterator[str]:
    """A sentence for each of a few, one for all of many."""
    biased = [mean for mean in means if abs(mean.bias) > NOTED_BIAS]
    if len(biased) <= _SAID_ONE_BY_ONE:
        for mean in biased:
            yield from bias_note(mean)
        return
    low, high = min(mean.bias for mean in biased), max(mean.bias for mean in biased)
    yield (
        f"note: {len(biased)} of these batches are too small to hold every length bin: their mean prompts are off by"
        f" {low:+.0%} to {high:+.0%}"
    )
