"""Losses, shared-prompt rows, and the trainers around them."""
