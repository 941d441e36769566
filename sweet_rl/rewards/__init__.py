"""The reward of an answer and its evidence: unit tests, page similarity, the released rules."""
