"""Summaries of graded runs: statistics over tasks, comparison tables, figures, cost, the page of results."""
