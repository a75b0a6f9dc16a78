"""A serving engine is added to a copy of the program: its file, its rule of plans, and what writes its launch files."""

from __future__ import annotations

import csv
import io

import pytest
from added import ASKED, changed_files, copied

ENGINE = """name: mine
admission: prefill_first
note: An engine that somebody wrote, and its releases of before 2.0 another.
called: [mineserve]
start: {request_ms: 12.0, step_ms: 0.5}
fitted: [request_ms]
"""
OLDER = ENGINE.replace("name: mine", "name: mine_old").replace("start:", "before: '2.0'\nuntil: 2025\nstart:")
LAUNCHER = """    "mine": Launcher(
        title="Mine",
        rule=lambda plan, routed: plan.pp == 1 and (plan.dp == 1 or routed),
        words="one stage, and a dense model has one replica",
        shares=frozenset(),
    ),
"""
COMMAND = '''"""A stored row as flags of Mine."""

from __future__ import annotations

from sweepdb.launching.server_command import PORTS, Role, ServerCommand, check_launchable
from sweepdb.launching.stored_instance import StoredInstance


def mine_command(instance: StoredInstance, role: Role, instances: int, version: str | None) -> ServerCommand:
    """The command of one server."""
    check_launchable("mine", instance)
    return ServerCommand(
        role=role,
        instances=instances,
        instance=instance,
        engine="mine",
        version=version or "2.1",
        image="mine/serve:2.1",
        program=("mine", "serve", instance.model_name),
        settings={"--port": str(PORTS[role]), "--tp": str(instance.plan.tp)},
        devices=f"tensor {instance.plan.tp} = {instance.devices}",
    )


COMMANDS = {"mine": mine_command}
'''
EDITS = {
    "evaluator/inputs/engines/mine.yaml": ENGINE,
    "evaluator/inputs/engines/mine_old.yaml": OLDER,
    "evaluator/inputs/launchable.py": ('    "trtllm": Launcher(\n', LAUNCHER),
    "sweepdb/launching/mine_flags.py": COMMAND,
}
SOURCES = """
from evaluator.ledger.deployments import engine_of
print(engine_of("MineServe 2.1"), engine_of("mineserve", "1.9"), engine_of("MineServe", None, 2025), engine_of("mineserve"))
"""


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.survival
def test_an_engine_is_four_files(tmp_path):
    """One of them is that of its older releases."""
    copy = copied(tmp_path, EDITS)
    assert sorted(changed_files(tmp_path)) == sorted(EDITS)
    assert len(EDITS) <= 4
    engines = f"{ASKED} --device h100_sxm --serving-model mine,mine_old"
    _, best, support = copy.sweepdb(f"evaluate {engines}", "query best --format csv", "support mine --format csv")
    assert {row["serving_model"] for row in rows(best)} == {"mine", "mine_old"}
    assert all("mine" in row["launchable"].split(",") for row in rows(best))
    parts = {row["part"]: row["state"] for row in rows(support)}
    assert (parts["engine"], parts["copies of experts, launched"]) == ("stated", "refused")
    copy.sweepdb(f"launch {rows(best)[0]['probe']} --output started")
    assert "mine serve Qwen/Qwen3-0.6B" in (tmp_path / "started" / "server.sh").read_text()
    assert copy.run(SOURCES).split() == ["mine", "mine_old", "mine_old", "mine"]
