"""SWEET-RL (arXiv 2503.15478): agents for multi-turn collaboration, from tasks to an evaluated policy."""

__version__ = "0.1.0"
