"""ColBench for other people's evaluation and training tools: verifiers and inspect_ai (docs/integrations.md).

Each tool calls the models, keeps the logs and counts the figures; tasks, rules, simulated human, reward and turn credit
are those of this package. `benchmark.py` is what both integrations share.
"""
