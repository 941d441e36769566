"""Grading of runs; success with its interval, comparisons and figures; chat, ColBench, credit checks."""
