"""The tables and figures of the paper, as tasks of doit."""
