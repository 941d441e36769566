"""Flags that are gone, each with what to do instead."""

REMOVED = {
    "sharding": "give --zero_stage 2 or 3 (pip install -e '.[deepspeed]'), which divides a model among processes.",
    "optim": "the optimiser is AdamW. Where its state does not fit: --zero_stage 2 --adam_offload, or --lora_rank 16.",
    "save_epochs": "checkpoints are written every --save_minutes, and every --save_steps if it is given.",
    "too_long": "examples longer than --max_len are left out and counted.",
}
