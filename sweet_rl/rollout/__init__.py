"""Dialogues between the agent and the human."""
