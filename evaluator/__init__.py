"""Models, devices, plans and workloads in; step times, latencies and memory out; every result a row of the store.

Start at evaluator.sweep (a request evaluated and stored), evaluator.evaluate (one scenario, pure) and
evaluator.serving.interface (what a serving model is)."""
