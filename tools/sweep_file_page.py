"""The reference page of sweep files, from the options of `evaluate`."""

from __future__ import annotations

from cli.help.headings import heading_of, in_order
from sweepdb.evaluating import kind_of, options_by_keyword

_INTRODUCTION = """# Sweep files

`sweepdb evaluate --sweep FILE.yaml` evaluates everything that a YAML file names, as one sweep; `--sweep -` reads it
from standard input, and `--dry-run` says how much it would be. Each key is an option of
[`evaluate`](commands.md#evaluate) with underscores, and every list is a product with every other:

```yaml
# yaml-language-server: $schema=sweep-file.schema.json
models: [Qwen/Qwen3-32B-FP8, Qwen/Qwen3-30B-A3B]
devices: [h200_sxm, b200_sxm]
num_devices: [4, 8]
serving_model: [vllm, sglang]
workloads:
  - {input_length: 3500, output_length: 1500}
  - {input_length: 8000, output_length: 1000, prefix_cache_hit_rate: 0.5}
precisions:
  - {linear: NATIVE}
  - {linear: FP8, attention: FP8}
```

An entry of `workloads` takes the keys about requests, one of `precisions` those about formats; both win over the
same keys of the file. Options of the command line hold for what the file does not say, and models named there take
the place of its own. What is wrong is told with line and key. [The JSON Schema](sweep-file.schema.json), which
`sweepdb evaluate --sweep-schema` prints too, makes editors complete keys and mark faults.

| key | also | value | meaning |
|---|---|---|---|
| `workloads` | | a list of mappings | several workloads: each with every other value |
| `precisions` | | a list of mappings | several formats: each with every other value |
"""


def sweep_page() -> str:
    sections: dict[str, list[str]] = {}
    for keyword, item in options_by_keyword().items():
        others = [item.field] if item.field != keyword else []
        others += [one.removeprefix("--").replace("-", "_") for one in item.option.also]
        words = ", ".join(item.words)
        value = f"{kind_of(item).expected}{f': {words}' if words else ''}"
        row = f"| `{keyword}` | {', '.join(f'`{one}`' for one in others)} | {value} | {item.option.help} |"
        sections.setdefault(heading_of("evaluate", keyword), []).append(row)
    tables = (
        "\n".join(
            [f"\n## {heading}\n", "| key | also | value | meaning |", "|---|---|---|---|", *sections[heading], ""]
        )
        for heading in in_order(sections)
    )
    return _INTRODUCTION + "".join(tables)
