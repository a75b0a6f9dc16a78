"""Serving in waves, as the seeds count it: prompts packed into steps, batches of mixed lengths, chunks beside
decodes."""
