"""A sweep prices each model with the kernels that its engine runs for it."""

from evaluator.inputs import load_device, with_kernels_of
from sweepdb.evaluating.requests import build_request
from sweepdb.evaluating.sweep_options import SweepOptions


def test_models_that_an_engine_serves_by_other_kernels_are_evaluated_apart():
    """Both in 16 bits on B200: SGLang attends for one by Triton, and runs the usual kernels of the other."""
    built = build_request(
        SweepOptions(
            models=("Qwen/Qwen3-Coder-Next", "Qwen/Qwen3-30B-A3B"),
            devices=("b200_sxm",),
            serving_models=("sglang",),
            input_length="1000",
            output_length=200,
            num_devices=(2,),
        ),
        None,
        None,
    )
    devices = {model.name: part.devices for part in built.parts for model in part.models}
    usual = with_kernels_of(load_device("b200_sxm"), "sglang")
    assert devices["Qwen/Qwen3-30B-A3B"] == (usual,)
    (triton,) = devices["Qwen/Qwen3-Coder-Next"]
    assert (triton.name, triton.calibration != usual.calibration) == ("b200_sxm", True)
