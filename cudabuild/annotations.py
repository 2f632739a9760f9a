# SPDX-License-Identifier: Apache-2.0
"""A signature from parameter annotations: ``x: float32[::1]`` or ``x: Annotated[Array, float32[::1]]``."""

from __future__ import annotations

from cudabuild.types import Type, parse_signature, weak_float, weak_int
from cudabuild.types.signature import as_argument
from cudabuild.types.type import bool_

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudabuild.types import Signature

__all__ = ["signature_from_annotations"]

_PYTHON_TYPES: dict[Any, Type] = {int: weak_int, float: weak_float, bool: bool_}


def signature_from_annotations(function: Callable[..., Any]) -> Signature | None:
    """The signature that the annotations spell, or None unless *every* parameter names a cudabuild type.

    String annotations (``from __future__ import annotations``) are read as source text: dotted names and subscripts are
    resolved in the function's globals; nothing is evaluated that could have an effect.
    """
    annotations = getattr(function, "__annotations__", None) or {}
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    takes_any = code.co_flags & 4  # ``*args``, of which annotations cannot tell the number
    if not names or takes_any or any(name not in annotations for name in names):
        return None
    types = []
    for name in names:
        kind = _type_of(annotations[name], function.__globals__)
        if kind is None:
            return None
        types.append(kind)
    return tuple(map(as_argument, types))


def _type_of(annotation: Any, namespace: dict[str, Any]) -> Type | None:
    if isinstance(annotation, Type):
        return annotation
    if isinstance(annotation, str):
        return _type_of_text(annotation, namespace)
    for extra in getattr(annotation, "__metadata__", ()):
        found = _type_of(extra, namespace)
        if found is not None:
            return found
    try:
        return _PYTHON_TYPES.get(annotation)
    except TypeError:  # an unhashable annotation names no type of ours
        return None


def _type_of_text(text: str, namespace: dict[str, Any]) -> Type | None:
    import ast

    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    return _type_of_node(tree, namespace)


def _type_of_node(node: Any, namespace: dict[str, Any]) -> Type | None:
    import ast

    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _type_of_text(node.value, namespace)
    if isinstance(node, ast.Subscript):
        base = _resolve(node.value, namespace)
        if isinstance(base, Type):
            spelled = ast.unparse(node.slice)
            return parse_signature(f"{base.name}[{spelled.strip('()')}]")[0]
        if isinstance(node.slice, ast.Tuple):  # Annotated[Array, float32[::1]]
            for element in node.slice.elts[1:]:
                found = _type_of_node(element, namespace)
                if found is not None:
                    return found
        return None
    value = _resolve(node, namespace)
    return _type_of(value, namespace) if value is not None and not isinstance(value, str) else None


def _resolve(node: Any, namespace: dict[str, Any]) -> Any:
    """The object that a dotted name stands for, or None."""
    import ast
    import builtins

    if isinstance(node, ast.Name):
        return namespace.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        base = _resolve(node.value, namespace)
        return None if base is None else getattr(base, node.attr, None)
    return None
