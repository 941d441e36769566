"""The records of all files: Task, Trajectory, TurnCandidates and PreferencePair, checked when they are read.

Files are UTF-8 JSONL with flat rows and the released field names. Fields that a record does not know are kept in
`extra` and written back. A text that a model is trained on is a list of parts:

    {"text": str, "train": bool, "token_ids"?: list[int], "plain"?: bool, "bos"?: bool, "turn"?: bool}

- `train`: whether the loss sees this part.
- `token_ids`: the ids as sampled, of the tokenizer whose fingerprint the record names.
- `plain`: text that never becomes a special token, even if it spells one.
- `bos`: the begin-of-text part.
- `turn`: written by the agent, but not trained here.
"""

from sweet_rl.runs.records.files import kind_of, parse_row, read_records, read_rows
from sweet_rl.runs.records.ids import content_id, hash_rows, seed_for
from sweet_rl.runs.records.schema import (
    RELEASED,
    Ending,
    Message,
    Part,
    PreferencePair,
    Task,
    Trajectory,
    TurnCandidates,
    as_shown,
)
from sweet_rl.runs.records.validation import validated

__all__ = [
    "RELEASED", "Ending", "Message", "Part", "PreferencePair", "Task", "Trajectory", "TurnCandidates", "as_shown",
    "content_id", "hash_rows", "kind_of", "parse_row", "read_records", "read_rows",
    "seed_for", "validated",
]  # fmt: skip
