"""The commands of a pipeline: planned from rules, passed over if they are done, run as processes or Slurm jobs, timed.

workflow/ uses it for the tables and figures of the paper. What holds:

- A command runs once at a time, whatever is killed: its log is locked as long as any of its processes lives.
- The engine may be ended at any moment; commands and jobs under way go on, and the next call waits for them.
- A step is done if this very command made its outputs from inputs with the content that they have now.

Not covered: file systems without flock.
"""
