"""Time of a kernel from a few physical numbers.

t = overhead + body, the body a p-norm of compute and memory seconds. Fits are in device_fit.py."""

from __future__ import annotations

from evaluator.calibration.forms.attention import DECODE_ATTENTION, PREFILL_ATTENTION
from evaluator.calibration.forms.base import Array, Form, Inputs, Parameter, Parts, Values
from evaluator.calibration.forms.collective import COLLECTIVE, EXPERT_EXCHANGE, HOST_COLLECTIVE
from evaluator.calibration.forms.experts import EXPERTS
from evaluator.calibration.forms.matmul import MATMUL
from evaluator.calibration.forms.roofline import ELEMENTWISE, ROOFLINE, SUMMED_ROOFLINE

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        MATMUL,
        PREFILL_ATTENTION,
        DECODE_ATTENTION,
        EXPERTS,
        COLLECTIVE,
        HOST_COLLECTIVE,
        EXPERT_EXCHANGE,
        ELEMENTWISE,
        ROOFLINE,
        SUMMED_ROOFLINE,
    )
}

__all__ = ["FORMS", "HOST_COLLECTIVE", "Array", "Form", "Inputs", "Parameter", "Parts", "Values"]
