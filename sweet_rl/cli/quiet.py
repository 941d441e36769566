"""Leaves out what libraries print and a user can do nothing about."""

from __future__ import annotations

import logging
import os
import sys
import warnings


def quiet_libraries() -> None:
    """Call before the libraries are imported. Settings of the environment and of `python -W` are kept.

    Left out: FutureWarning; DeepSpeed's note that there is no GPU; transformers' report that a plain model has no
    place for a value head; in a file or a pipe, the libraries' own progress bars for loading and saving.
    """
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' bars too
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)
    logging.getLogger("DeepSpeed").addFilter(_says_more_than_no_gpu)
    logging.getLogger("transformers.modeling_utils").addFilter(_says_more_than_value_head)


def _says_more_than_no_gpu(record: logging.LogRecord) -> bool:
    return "Setting accelerator to CPU" not in record.getMessage()


def _says_more_than_value_head(record: logging.LogRecord) -> bool:
    """Whether it is not a load report, or one of other keys than those of a value head."""
    heading, _, table = record.getMessage().partition("\n")
    keys = [line.split("|")[0].strip() for line in table.splitlines()[2:] if "|" in line]
    return "LOAD REPORT" not in heading or not all(key.startswith("value_head.") for key in keys)
