"""A serving model is one module and its name, an operator is its definition, formula and call: each is added to a copy of the program,
and answers. Engines, architectures and devices have tests of their own (tests/test_add_*.py)."""

from __future__ import annotations

import pytest
from added import ASKED, copied

MODEL = '''"""As waves, whatever it is called."""

from evaluator.serving.models.waves import MODELS as WAVES

MODELS = {"mine": WAVES["waves"]}
'''


OPERATOR = """defined(lambda x: made(x, x.shape), "mirror")
"""
FORMULA = """

@formula("mirror")
def _mirror(call: Call) -> Work:
    \"\"\"Reads and writes every element once.\"\"\"
    size = size_bytes(call.result)
    return Work(kind="elementwise", label="mirror", bytes_read=size, bytes_written=size)
"""


@pytest.mark.survival
def test_a_serving_model_is_a_module_and_its_name(tmp_path):
    """Its name stands among the formulas: every other is an engine's."""
    declared = {"store/schema/declaring.py": ('"waves", "seed002"]', '"mine", ')}
    copy = copied(tmp_path, {"evaluator/serving/models/mine.py": MODEL, **declared})
    _, best = copy.sweepdb(
        f"evaluate {ASKED} --device h100_sxm --serving-model mine", "query best --format csv --top 1"
    )
    assert ",mine," in best


@pytest.mark.survival
def test_an_operator_is_its_definition_its_formula_and_its_call(tmp_path):
    capture = "evaluator/graph/capture"
    call = '    if model.position == "learned":\n'
    copy = copied(
        tmp_path,
        {
            f"{capture}/library.py": ("# Attention and states.\n", OPERATOR),
            f"{capture}/capture_request.py": ("UPSTREAM_CAPTURE_VERSION = 2", "CAPTURE_VERSION = 5\n"),
            f"{capture}/formulas.py": ("__all__ = [\n", FORMULA),
            f"{capture}/decoder.py": (call, "    x = operators.mirror(x)\n"),
        },
    )
    _, best = copy.sweepdb(f"evaluate {ASKED} --device h100_sxm", "query best --format csv --top 1")
    probe = best.splitlines()
    reference = dict(zip(probe[0].split(","), probe[1].split(","), strict=False))["probe"]
    assert "mirror" in copy.sweepdb(f"explain {reference} --format csv")[0]
