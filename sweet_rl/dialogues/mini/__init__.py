"""A small ColBench that trains on a laptop: tasks with hidden rules, a scripted human, and trained agents."""
