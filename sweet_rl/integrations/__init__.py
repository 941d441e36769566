"""ColBench for other people's evaluation and training tools (docs/integrations.md).

`benchmark.py` plays and grades one task with anybody's agent; inspect_ai and verifiers stand on it. `export.py` writes
rows for TRL, and `turn_advantages.py` makes advantages of the credit of turns for any trainer.
"""
