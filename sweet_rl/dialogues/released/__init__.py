"""The released protocol of ColBench: the dialogues whose figures can be compared with published ones.

`environment.py` and `human.py` are its rules and its humans, `files.py` its texts, which are not part of this package;
`backend.py` and `frontend.py` make the two domains of them (`--protocol released`).
"""
