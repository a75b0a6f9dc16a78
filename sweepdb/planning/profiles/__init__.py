"""Planners' files from stored rows, a module a planner."""
