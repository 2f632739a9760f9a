# SPDX-License-Identifier: Apache-2.0
"""NumPy's element functions over whole arrays: ``numpy.sin(x, out)``, by one thread, with broadcasting.

Nothing can be allocated in a kernel, so the result needs an array to go to. The loops are written in the kernel
language (``library.py``), one axis a level, and call the function's rule for scalars inside.
"""

from __future__ import annotations

from typing import Any

import numpy

from cudabuild.frontend import library
from cudabuild.frontend.context import Context, Rule
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import arrays, operators
from cudabuild.frontend.impl.builtins import min_
from cudabuild.frontend.impl.registry import python_function, replace_rules
from cudabuild.frontend.operands import Operand, Static, TupleOperand, const_of, describe
from cudabuild.ir.ir import Value
from cudabuild.types import Array

__all__ = ["accept_arrays"]


def accept_arrays() -> None:
    """Lets every NumPy element function that has a rule for scalars take arrays too."""
    replace_rules(lambda item, rule: _over_arrays(item, rule) if isinstance(item, numpy.ufunc) else rule)


def _over_arrays(function: numpy.ufunc, scalar_rule: Rule) -> Rule:
    name = f"numpy.{function.__name__}"

    def rule(context: Context, operands: Any, keywords: dict[str, Operand]) -> Operand:
        given = list(operands)
        if "out" in keywords and len(keywords) == 1 and len(given) == function.nin:
            given.append(keywords["out"])
        elif keywords or len(given) not in (function.nin, function.nin + 1) or function.nout != 1:
            return scalar_rule(context, operands, keywords)
        if len(given) == function.nin:
            if any(_rank(operand) for operand in given):
                raise Refusal(
                    f"{name} of an array makes a new array",
                    found=f"{name}({', '.join(map(describe, given))})",
                    expected="an array for the result: nothing can be allocated in a kernel",
                    do=f"write {name}({'x, ' * function.nin}out)",
                )
            return scalar_rule(context, operands, keywords)
        *inputs, out = given
        if not (isinstance(out, Value) and isinstance(out.type, Array)):
            raise Refusal(
                f"the result of {name} goes to no array",
                found=describe(out),
                expected="an array",
                do=f"write out[i] = {name}({', '.join('xyz'[: function.nin])})",
                operand=len(given),
            )
        if function.nin not in _LOOPS:
            return scalar_rule(context, operands, keywords)
        if any(_rank(operand) > out.type.ndim for operand in inputs):
            raise Refusal(
                f"{name} does not fit into its result",
                found=", ".join(map(describe, given)),
                expected=f"arrays of at most {out.type.ndim} dimensions, as the last one has",
                do="give the result the dimensions of the operands",
            )
        zero, one = _LOOPS[function.nin]
        context.calls.call(context, one if out.type.ndim else zero, [Static(function), *inputs, out], {})
        return out

    return rule


_LOOPS = {1: (library.store_one, library.apply_to_one), 2: (library.store_two, library.apply_to_two)}


def _rank(operand: Operand) -> int:
    return operand.type.ndim if isinstance(operand, Value) and isinstance(operand.type, Array) else 0


@python_function(library.along_first_axis)
def along_first_axis(context: Context, x: Operand, index: Operand, ndim: Operand) -> Operand:
    """The part of ``x`` at ``index`` of an array of ``ndim`` dimensions that it is broadcast to.

    An axis of extent 1 serves every index, and so does what has fewer dimensions.
    """
    if not (isinstance(x, Value) and isinstance(x.type, Array)):
        return x
    if x.type.ndim == 0:
        return arrays.get_item(context, x, TupleOperand(()))
    if x.type.ndim < const_of(ndim):
        return x
    last = operators.binary(context, "-", arrays.dim(context, x, 0), context.weak(1))
    return arrays.get_item(context, x, min_(context, index, last))
