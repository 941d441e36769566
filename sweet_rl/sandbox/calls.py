"""What of a test call is asked of the answer.

Used by the compiling process only, which runs nothing of the answer.
"""

from _ast import Call, Compare, Constant, Dict, Eq, Expression, List, Name, PyCF_ONLY_AST, Set, Tuple, UnaryOp

LITERALS = (Constant, Dict, List, Set, Tuple, UnaryOp)


def compiled_call(text: str, whole: bool = False):
    """The code of a test call; of `f(x) == 3`, unless it is wanted whole, that of `f(x)`: what an answer's value says
    of its own equality decides nothing, the value is compared with the reference's."""
    if whole:
        return compile(text.strip(), "test", "eval", dont_inherit=True)
    body = compile(text.strip(), "test", "eval", PyCF_ONLY_AST, dont_inherit=True).body
    if isinstance(body, Compare) and len(body.ops) == 1 and isinstance(body.ops[0], Eq):
        sides = [body.left, body.comparators[0]]
        for asked, known in (sides, sides[::-1]):
            if isinstance(asked, Call) and isinstance(asked.func, Name) and isinstance(known, LITERALS):
                body = asked
                break
    return compile(Expression(body), "test", "eval", dont_inherit=True)
