"""Parse what a model wrote as Python source, without compiling or evaluating it."""

import ast
import re
import warnings

FILE = "<reply>"
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, TypeError)
# The parser warns about invalid escape sequences such as "\d", which do not matter here.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=re.escape(FILE))
warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(FILE))


def parse_expression(source: str) -> ast.expr:
    """The syntax tree of an expression. Raises one of PARSE_ERRORS; the caller limits length and nesting."""
    return ast.parse(source, FILE, mode="eval").body
