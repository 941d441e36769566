"""Grading of runs, and what graded runs show: success and its interval, comparisons, figures, the page of results."""
