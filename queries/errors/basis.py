"""Grounds of a row's numbers: measured kernels or servers, another device's, or a data sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queries.errors.spreads import ShippedDevice, devices, known_of

if TYPE_CHECKING:
    from queries.errors.expected import Subject

BASIS: Final = "basis"  # the column that says what the numbers of a device under an engine rest on
DATA_SHEET: Final = "data sheet"
MEASURED: Final = "measured near"
UNSEEN_ENGINE: Final = "engine not measured"
FITTED_BASIS: Final = "fitted to serving points"
SEEN_PAIRS = 2  # pairs from which an engine was measured more than once


def basis_of(subject: Subject) -> str:
    based = device_basis(subject)
    return UNSEEN_ENGINE if based == MEASURED and seldom_measured(subject) else based


def device_basis(subject: Subject) -> str:
    """Its own kernels or serving points, another device's, or the data sheet."""
    shipped = devices().get(subject.device)
    if subject.family == "theoretical":
        return _fitted_basis(subject, shipped)
    donor = subject.device if shipped is None else shipped.calibrated_from
    keys = () if shipped is None else tuple(shipped.calibrated_key.split("+"))
    carried = donor != subject.device and (not subject.device_key or subject.device_key.startswith(keys))
    return f"carried from {donor}" if carried else MEASURED


def seldom_measured(subject: Subject) -> bool:
    """No engine that was measured more than once. A user's own profile is measured."""
    engine = subject.engine
    return engine is not None and "@" not in subject.serving_model and known_of("engine", engine) < SEEN_PAIRS


def kernels_lack(basis: object) -> str:
    """Words for a sentence; empty where kernels are measured, or carried from measured ones."""
    if basis == DATA_SHEET:
        return "its numbers follow from its data sheet"
    if basis == FITTED_BASIS:
        return "its numbers are fitted to serving points of other people's servers"
    donor = devices().get(str(basis).removeprefix("carried from "))
    if donor is not None and donor.fitted_from:
        return f"its numbers are those of {donor.device}, which are fitted to serving points"
    return ""


def _fitted_basis(subject: Subject, shipped: ShippedDevice | None) -> str:
    """Without kernels. A changed profile rests on what it states."""
    changed = shipped is not None and subject.device_key and not subject.device_key.startswith(shipped.theoretical_key)
    if shipped is None or not shipped.fitted_from or changed:
        return DATA_SHEET
    return FITTED_BASIS if shipped.fitted_from == subject.device else f"carried from {shipped.fitted_from}"
