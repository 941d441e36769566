"""From rewarded dialogues to turn-wise preferences: trajectory pairs, advantage, ranking, turn pairs."""
