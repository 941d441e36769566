"""The embedded default: a scaled-down ColBench that a laptop learns from, with its tasks, human and agent."""
