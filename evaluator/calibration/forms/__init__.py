"""Time of a kernel from a few physical numbers.

t = overhead + body, the body a p-norm of compute and memory seconds. Fits are in device_fit.py."""

from __future__ import annotations

from evaluator.calibration.forms.attention import decode_parts, prefill_parts
from evaluator.calibration.forms.base import (
    PARAMETERS,
    Array,
    Form,
    Inputs,
    Parameter,
    Parts,
    Values,
    elementwise_parts,
    roofline_parts,
)
from evaluator.calibration.forms.collective import collective_parts, exchange_parts, host_collective_parts
from evaluator.calibration.forms.matmul import expert_parts, matmul_parts

_PARTS = {
    "matmul": matmul_parts,
    "prefill_attention": prefill_parts,
    "decode_attention": decode_parts,
    "experts": expert_parts,
    "collective": collective_parts,
    "host_collective": host_collective_parts,
    "expert_exchange": exchange_parts,
    "elementwise": elementwise_parts,
    "roofline": roofline_parts,
    "summed_roofline": roofline_parts,
}
FORMS = {name: Form(name=name, parameters=PARAMETERS[name], parts=parts) for name, parts in _PARTS.items()}
HOST_COLLECTIVE = FORMS["host_collective"]

__all__ = ["FORMS", "HOST_COLLECTIVE", "Array", "Form", "Inputs", "Parameter", "Parts", "Values"]
