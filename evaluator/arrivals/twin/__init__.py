"""The play in Python: what `play.c` does, statement by statement, equal to the last digit. For machines without a
compiler, and for tests.

State changes only when a request arrives, prompts run, or an answer ends; equal decode steps between are one sum.
Source: the scheduler of evaluator.serving.engine.schedule, which plays the same steps without a clock."""
