"""Language models behind one asynchronous protocol: on servers, or in this process with transformers or vLLM.

`base.py` is the protocol, `settings.py` the flags, and `load.load_model` loads a model by its name. `prompts/` holds
instructions, `texts/` makes tokens of messages, `log_probs/` computes the log-probs of texts.
"""
