"""From graded trajectories to preferences between single turns: pairs, advantage, critics, candidates, ranking."""
