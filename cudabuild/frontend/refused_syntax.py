# SPDX-License-Identifier: Apache-2.0
"""What Python's grammar has and the kernel language has not: one row each, with what to write instead."""

from __future__ import annotations

import ast

from cudabuild.frontend.diagnostics import Refusal

__all__ = ["refuse_syntax"]

#: node class -> (what it is called, what to write instead)
_REFUSED: dict[str, tuple[str, str]] = {
    "AsyncFunctionDef": ("an async function", "define a plain function at module level"),
    "ClassDef": ("a class", "define it at module level, and pass its numbers as arguments"),
    "AsyncFor": ("'async for'", "use a plain 'for' over range(…)"),
    "AsyncWith": ("'async with'", "write the steps out"),
    "With": ("'with'", "write the steps out: a kernel has no context managers"),
    "Try": ("'try'", "test the condition with 'if' beforehand: nothing is caught in a kernel"),
    "TryStar": ("'try'", "test the condition with 'if' beforehand: nothing is caught in a kernel"),
    "Import": ("'import'", "import the module at the top of the file"),
    "ImportFrom": ("'import'", "import the name at the top of the file"),
    "Global": ("'global'", "pass a one-element array and assign to its element: globals are constants in a kernel"),
    "Nonlocal": ("'nonlocal'", "pass a one-element array and assign to its element: captured values are constants"),
    "TypeAlias": ("a type alias", "define it at module level"),
    "Dict": ("a dict", "use separate variables, a tuple, or an array argument"),
    "Set": ("a set", "use separate variables, a tuple, or an array argument"),
    "List": ("a list", "use a tuple, or cuda.local.array(shape, dtype) for something to assign to"),
    "ListComp": ("a list comprehension", "fill a cuda.local.array(shape, dtype) in a for loop"),
    "SetComp": ("a set comprehension", "use a for loop"),
    "DictComp": ("a dict comprehension", "use a for loop"),
    "GeneratorExp": ("a generator expression", "use a for loop"),
    "Await": ("'await'", "remove it: a kernel runs without an event loop"),
    "Yield": ("'yield'", "store the values in an array argument"),
    "YieldFrom": ("'yield from'", "store the values in an array argument"),
    "JoinedStr": ("an f-string", "give print the parts one by one: print('x is', x)"),
    "Starred": ("a starred expression", "write the elements out"),
}


def refuse_syntax(node: ast.AST) -> Refusal:
    """The refusal of a statement or expression that the builder has no method for."""
    kind = type(node).__name__
    what, do = _REFUSED.get(kind, (f"'{kind}'", "write it with the statements of the kernel language"))
    return Refusal(
        f"{what} is not supported in a kernel",
        found=ast.unparse(node).split("\n", 1)[0],
        expected="a statement or expression of the kernel language",
        do=do,
    )
