"""Many dialogues at once, onto disk, with progress and a summary."""
