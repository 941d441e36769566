"""The check of the lint step that argument documentation is a noun phrase."""

from tests.lint.argument_docs import problems

SOURCE = '''
def draw(seed, count, texts):
    """Draw samples.

    Args:
        seed: of the bootstrap.
        count: Number of draws, one
            of: a, b.
        texts: as of `other`.

    Returns:
        Sample: of the texts.
    """


class Settings:
    """Settings.

    Attributes:
        alpha, beta: of the loss.
    """
'''


def test_only_documentation_that_continues_an_arguments_name_is_found():
    assert list(problems(SOURCE)) == [(6, "seed"), (9, "texts"), (20, "alpha, beta")]
