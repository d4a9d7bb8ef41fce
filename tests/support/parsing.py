"""Python's syntax trees, for tests that look at code."""

import ast
import sys

_LONG_S = 60


def parsed(text: str) -> ast.Module:
    """Returns the tree of a module's text; no other thread runs meanwhile.

    Before Python 3.11.7 a tree that another thread makes at the same time, to format a traceback
    for one, ends in "AST constructor recursion depth mismatch" (CPython issue 106905).
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_LONG_S)
    try:
        return ast.parse(text)
    finally:
        sys.setswitchinterval(before)
