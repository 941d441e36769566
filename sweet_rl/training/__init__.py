"""Losses, the objectives made of them, and the one loop that trains a model on them (`loop.py`)."""
