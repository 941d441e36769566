"""All tests."""

import gc


def pytest_collection_finish() -> None:
    """Garbage collections, of which trainings call many, pass over what the tests and libraries imported."""
    gc.collect()
    gc.freeze()
