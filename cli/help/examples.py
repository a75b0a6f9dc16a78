"""Two examples a command; a test runs them through the parser."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, str]] = {
    "plan": (
        "plan Qwen/Qwen3-32B-FP8 --device h200_sxm --total-devices 8 --input-length 3500 --output-length 1500",
        "plan Qwen/Qwen3-32B --device h200_sxm,b200_sxm --rate 20 --tpot-limit 40",
    ),
    "schedule": (
        "schedule --trace day.csv --ttft-limit 2000 --tpot-limit 50 --spare 1 --reactive queue=5",
        "schedule --pool 16 --trace Qwen/Qwen3-32B=a.csv --trace Qwen/Qwen3-8B=b.csv --ttft-limit 2000 --tpot-limit 50",
    ),
    "decide": (
        "decide Qwen/Qwen3-32B-FP8 --device h200_sxm --total-devices 8 --tpot-limit 30 --ttft-limit 2000",
        "decide Qwen/Qwen3-32B --device h200_sxm,b200_sxm --concurrency 200 --tpot-limit 40 --gain 0.05",
    ),
    "report": (
        "report --output answer.html --num-devices 8 --ttft-limit 2000 --tpot-limit 50",
        "report --output answer.html --model Qwen/Qwen3-32B-FP8 --target-rate 50",
    ),
    "launch": (
        "launch a1b2c3d4:18 --output started",
        "launch a1b2c3d4:1 e5f6a7b8:18 4P1D --target k8s --output started",
    ),
    "evaluate": (
        "evaluate Qwen/Qwen3-32B-FP8 --device h200_sxm --total-devices 8 --input-length 3500 --output-length 1500",
        "evaluate --sweep sweep.yaml --dry-run",
    ),
    "regress": (
        "regress --baseline v0.11.0 --against v0.12.0 --fail-over 5%",
        "regress --baseline 2026-05-01..2026-05-31 --against 2026-06-01.. --format markdown",
    ),
    "worker": ("worker 10.0.0.5:8786", "worker 10.0.0.5:8786 --count 32"),
    "explain": ("explain a1b2c3d4:175", "explain a1b2c3d4:175 e5f6a7b8:40 --step decode --top 10"),
    "query": (
        "query best --ttft-limit 1000 --tpot-limit 30",
        "query pd-ratio --tpot-limit 50 --num-devices 32 --format csv --output answer.csv",
    ),
    "verify": ("verify proof.json", "verify proof.json answer.json --signed-by key.pem"),
    "sql": (
        'sql "SELECT plan, max(output_tokens_per_s) FROM feasible GROUP BY plan"',
        "sql --file question.sql --format parquet --output answer.parquet",
    ),
    "serve": ("serve --open", "serve --port 9000 --store sqlite:///build/demo.sqlite"),
    "watch": (
        "watch a1b2c3d4:19 --metrics http://127.0.0.1:8000/metrics --every 60 --tpot-limit 50",
        "watch started --metrics before.prom --metrics after.prom --every 60 --baseline right.json",
    ),
    "mcp": ("mcp", "mcp --sql --store sqlite:///build/demo.sqlite"),
    "sweeps": ("sweeps", "sweeps --limit 100 --format json"),
    "show": ("show 6903164904d0", "show a1b2c3d4:175"),
    "void": ('void 6903164904d0 --reason "wrong device profile"', 'void a1b2c3d4 --reason "measured otherwise"'),
    "unvoid": ("unvoid 6903164904d0", "unvoid a1b2c3d4"),
    "models": ("models", "models Qwen/Qwen3-32B"),
    "support": (
        "support deepseek-ai/DeepSeek-V3.2 h200_sxm vllm",
        "support h200_sxm",
    ),
    "devices": ("devices h200_sxm", "devices add my-device.yaml"),
    "workloads": (
        "workloads add chat --input-length 3500 --output-length 1500",
        "workloads add code --trace requests.csv",
    ),
    "prices": ("prices set h200_sxm --usd-per-device-hour 3.5", "prices import prices.csv"),
    "calibrate": (
        "calibrate my-device --kernels kernels.csv --profile my-device-calibrated.yaml",
        "calibrate --serving vllm --measurements runs --profile my-vllm.yaml",
    ),
    "measurements": (
        "measurements import result.json --set device=h100_sxm --set tp=2",
        "measurements export --format benchmark-report --output reports",
    ),
    "compare": ("compare before.json after.json", "compare before/ after/ --format csv --output change.csv"),
    "validate": ("validate", "validate --measurements runs --format html --output errors.html"),
    "export": (
        "export bundle --sweep 6903164904d0 --format csv",
        "export profile --for dynamo --ttft-limit 2000 --tpot-limit 50 --output dynamo",
    ),
    "import": ("import bundle", "import bundle --store sqlite:///other.sqlite"),
    "publish": ("publish --to probes.duckdb", "publish --to pages.site"),
    "init": ("db init", "db init --store postgresql://user@host/database"),
    "upgrade": ("db upgrade", "db upgrade --store sqlite:///old.sqlite"),
    "current": ("db current", "db current --store sqlite:///old.sqlite"),
    "check": ("db check", "db check --repair"),
    "vacuum": ("db vacuum", "db vacuum --store sqlite:///old.sqlite"),
    "adopt-parts": ("db adopt-parts --store copy.sqlite", "db adopt-parts --move --store moved.sqlite"),
    "compact": ("db compact", "db compact --thin --store postgresql://user@host/database"),
    "seal": ("db seal", "db seal --store postgresql://user@host/database"),
}
