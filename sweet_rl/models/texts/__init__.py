"""Messages as the text and the tokens that a model sees, and which of them are trained."""
