"""The embedded default: a small ColBench that trains on a laptop, with its own tasks, scripted humans and agents."""
