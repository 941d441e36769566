"""Log-probs of texts under a model: rows with shared prompts, attention, chunked projection, weights."""
