"""Files that planners of running clusters read, made from stored rows: one module a planner."""
