"""A device's kernel coefficients with held-out errors. The fit is device_fit.py."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any, cast

from evaluator.inputs.yaml_file import is_finite, shortened
from store.errors import InputError
from store.light_dataclass import dataclass

VERSION = 1  # of the kernel forms: coefficients of another version mean something else


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Percent errors on the half of the rows that the fit did not see (`rows`; `fitted` were used)."""

    rows: int
    fitted: int
    median_ape: float
    mean_ape: float
    p90_ape: float
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """By kernel, then by parameter (units: evaluator.calibration.forms)."""

    device: str
    kernels: Mapping[str, Mapping[str, float]]
    accuracy: Mapping[str, Accuracy]
    seed: int = 0
    version: int = VERSION
    carried_from: str | None = None  # the device whose dimensionless parameters these are
    includes: tuple[str, ...] = ()  # operator kinds already inside the measured kernels of others
    assumed: tuple[str, ...] = ()  # kernels whose coefficients are stated, not fitted
    carried: Mapping[str, float] = field(
        default_factory=dict
    )  # kernels of a donor, and what their time is multiplied by
    donor: str | None = None  # the device whose shipped kernels those are; None where they are others of its own
    engine: str | None = None  # the engine, with its version, whose kernels take the place of the device's others
    own: tuple[str, ...] = ()  # kernels that were measured inside that engine
    unconverged: tuple[str, ...] = ()  # kernels whose coefficients still moved when their fit ended
    apart: tuple[str, ...] = ()  # kinds inside measured kernels that the engine launches for every kernel by itself
    source: str = ""

    @property
    def hash(self) -> str:
        decides: list[object] = [self.version, sorted(self.includes)]
        decides += [{name: dict(values) for name, values in self.kernels.items()}]
        if self.apart:
            decides.append(sorted(self.apart))
        content = json.dumps(decides, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def one_engine(self) -> bool:
        return set(self.kernels) <= {*self.own, *self.carried, *self.assumed}

    def values(self, kernel: str) -> Mapping[str, float]:
        try:
            return self.kernels[kernel]
        except KeyError:
            known = ", ".join(sorted(self.kernels))
            raise InputError(
                f"the calibration of {self.device} has no kernel {kernel}", hint=f"it has: {known}"
            ) from None


def calibration_to_mapping(calibration: Calibration) -> dict[str, Any]:
    return {
        "device": calibration.device,
        "version": calibration.version,
        "hash": calibration.hash,
        "seed": calibration.seed,
        "source": calibration.source,
        "carried_from": calibration.carried_from,
        "includes": list(calibration.includes),
        "assumed": list(calibration.assumed),
        **({"unconverged": list(calibration.unconverged)} if calibration.unconverged else {}),
        **({"donor": calibration.donor, "carried": dict(calibration.carried)} if calibration.carried else {}),
        **({"engine": calibration.engine, "own": list(calibration.own)} if calibration.engine else {}),
        **({"apart": list(calibration.apart)} if calibration.apart else {}),
        "kernels": {name: dict(values) for name, values in sorted(calibration.kernels.items())},
        "accuracy": {name: asdict(entry) for name, entry in sorted(calibration.accuracy.items())},
    }


def calibration_from_mapping(data: Mapping[str, Any], where: str = "calibration") -> Calibration:
    """Checks the hash; `where` names the data in errors."""
    try:
        return _from_mapping(data)
    except InputError as error:
        raise InputError(f"{where}: {error.message}", hint=error.hint) from error
    except KeyError as error:
        raise InputError(f"{where}: {error.args[0]} is missing", hint=_AGAIN) from error
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{where}: not as sweepdb calibrate writes it: {error}", hint=_AGAIN) from error


_AGAIN = "fit it again: sweepdb calibrate"


def _from_mapping(data: Mapping[str, Any]) -> Calibration:
    if data.get("version") != VERSION:
        raise InputError(
            f"calibration of {data.get('device')} has version {data.get('version')}, this program reads {VERSION}",
            hint=_AGAIN,
        )
    calibration = Calibration(
        device=str(data["device"]),
        kernels={
            str(name): {str(key): float(_finite(name, value)) for key, value in values.items()}
            for name, values in data["kernels"].items()
        },
        accuracy={
            str(name): Accuracy(**{key: _finite(key, value) for key, value in entry.items()})
            for name, entry in data.get("accuracy", {}).items()
        },
        seed=int(data.get("seed", 0)),
        carried_from=None if data.get("carried_from") is None else str(data["carried_from"]),
        includes=tuple(str(one) for one in data.get("includes", ())),
        assumed=tuple(str(one) for one in data.get("assumed", ())),
        unconverged=tuple(str(one) for one in data.get("unconverged", ())),
        carried={str(name): float(_finite(name, value)) for name, value in data.get("carried", {}).items()},
        donor=None if data.get("donor") is None else str(data["donor"]),
        engine=None if data.get("engine") is None else str(data["engine"]),
        own=tuple(str(one) for one in data.get("own", ())),
        apart=tuple(str(one) for one in data.get("apart", ())),
        source=str(data.get("source", "")),
    )
    if "hash" in data and data["hash"] != calibration.hash:
        raise InputError(
            f"the calibration of {calibration.device} was changed after it was fitted:"
            f" it says hash {data['hash']}, its content has {calibration.hash}",
            hint=_AGAIN,
        )
    return calibration


def _finite(name: object, value: object) -> Any:  # noqa: ANN401  whole numbers stay whole
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
        raise InputError(f"{name}: {shortened(value)} is not a number")
    return value


def calibration_to_json(calibration: Calibration) -> str:
    return json.dumps(calibration_to_mapping(calibration), sort_keys=True, separators=(",", ":"))


def calibration_from_json(text: str) -> Calibration:
    return calibration_from_mapping(cast("dict[str, Any]", json.loads(text)))


def carried_to(calibration: Calibration, device: str) -> Calibration:
    """Errors are dropped: nothing was measured on that device."""
    return replace(
        calibration,
        device=device,
        carried_from=calibration.device,
        accuracy={},
        source=f"carried from {calibration.device}",
    )
