"""Which link of a device's grid joins a group of devices. Not the time it takes."""

from __future__ import annotations

from evaluator.inputs.devices.device import DeviceProfile, Link
from store.errors import InputError


def reach(profile: DeviceProfile, group_size: int, stride: int) -> tuple[Link, int]:
    """The slowest link a group crosses and how many grid levels it spans.

    The grid lists extents outermost first; a group of `group_size` devices, `stride` apart, stays inside the innermost
    dimensions whose product holds group_size x stride devices. A group beyond the grid uses the outermost link."""
    if not profile.links:
        raise InputError(
            f"device {profile.name} has no links, so a group of {group_size} cannot communicate",
            hint="add grid and links to its profile",
        )
    span, held = group_size * stride, 1
    for level, extent in enumerate(reversed(profile.grid), start=1):
        held *= extent
        if held >= span:
            return profile.links[max(len(profile.links) - level, 0)], level
    return profile.links[0], len(profile.grid) + 1
