"""ColBench for `vf-eval sweet-rl-colbench`: verifiers finds a plug-in by the name of a top-level module, so setup.py
installs this folder as the package `sweet_rl_colbench` too."""

from sweet_rl.integrations.verifiers import ColBench, ColBenchEnv, TurnHarness

__all__ = ["ColBench", "ColBenchEnv", "TurnHarness"]
