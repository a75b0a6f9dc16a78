"""`play.c` in Python, equal to the last digit: for machines without a compiler, and tests.

State changes only at arrivals, prompts and ends; equal decode steps between are one sum. Source:
evaluator.serving.engine.schedule, which takes the same steps without a clock."""
