# SPDX-License-Identifier: Apache-2.0
"""NumPy's reductions of whole arrays, written in the kernel language and compiled as device functions.

An array with several axes is reduced row by row, in C order; a thread reduces alone. NumPy adds in pairs, so sums of
floats may differ from its in the last digits.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = [
    "best_place",
    "count",
    "every",
    "first_of",
    "greatest",
    "least",
    "mean",
    "nan_count",
    "nan_greatest",
    "nan_least",
    "nan_product",
    "nan_squares",
    "nan_total",
    "product",
    "some",
    "squares",
    "total",
]


def total(array: Any, result: Any) -> Any:
    """``result`` and every element, added."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            result = result + array[i]
        else:
            result = total(array[i], result)
    return result


def product(array: Any, result: Any) -> Any:
    """``result`` and every element, multiplied."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            result = result * array[i]
        else:
            result = product(array[i], result)
    return result


def nan_total(array: Any, result: Any) -> Any:
    """:func:`total` without the elements that are NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x == x:
                result = result + x
        else:
            result = nan_total(array[i], result)
    return result


def nan_product(array: Any, result: Any) -> Any:
    """:func:`product` without the elements that are NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x == x:
                result = result * x
        else:
            result = nan_product(array[i], result)
    return result


def mean(sum_of_all: Any, number: Any) -> Any:
    """A sum divided by a number of elements; NaN for none."""
    return sum_of_all / number if number != 0 else sum_of_all * math.nan


def squares(array: Any, middle: Any, result: Any) -> Any:
    """``result`` and the squares of the distances from ``middle``, added; those of NaN elements are NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            distance = array[i] - middle
            result = result + distance * distance
        else:
            result = squares(array[i], middle, result)
    return result


def nan_squares(array: Any, middle: Any, result: Any) -> Any:
    """:func:`squares` without the elements that are NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x == x:
                result = result + (x - middle) * (x - middle)
        else:
            result = nan_squares(array[i], middle, result)
    return result


def count(array: Any, number: int) -> Any:
    """``number`` and the number of elements that are not zero, added."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            if array[i] != 0:
                number += 1
        else:
            number = count(array[i], number)
    return number


def nan_count(array: Any, number: int) -> Any:
    """``number`` and the number of elements that are not NaN, added."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x == x:
                number += 1
        else:
            number = nan_count(array[i], number)
    return number


def every(array: Any) -> bool:
    """Whether no element is zero."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            if array[i] == 0:
                return False
        elif not every(array[i]):
            return False
    return True


def some(array: Any) -> bool:
    """Whether an element is not zero."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            if array[i] != 0:
                return True
        elif some(array[i]):
            return True
    return False


def first_of(array: Any) -> Any:
    """The first element; there must be one."""
    return array[0] if array.ndim == 1 else first_of(array[0])


def least(array: Any, result: Any) -> Any:
    """The least of ``result`` and the elements; NaN if one of them is NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x < result or x != x:
                result = x
        else:
            result = least(array[i], result)
    return result


def greatest(array: Any, result: Any) -> Any:
    """The greatest of ``result`` and the elements; NaN if one of them is NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x > result or x != x:
                result = x
        else:
            result = greatest(array[i], result)
    return result


def nan_least(array: Any, result: Any) -> Any:
    """The least of ``result`` and the elements; NaN only if all of them are NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x < result or result != result:
                result = x
        else:
            result = nan_least(array[i], result)
    return result


def nan_greatest(array: Any, result: Any) -> Any:
    """The greatest of ``result`` and the elements; NaN only if all of them are NaN."""
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            if x > result or result != result:
                result = x
        else:
            result = nan_greatest(array[i], result)
    return result


def best_place(array: Any, wants_least: bool, value: Any, place: int, position: int) -> Any:
    """The best of ``value`` (which is at ``place``) and the elements (from ``position`` on), the first of equals.

    Returns:
        it, its place, and the position behind the last element. NaN is the best of all.
    """
    for i in range(array.shape[0]):
        if array.ndim == 1:
            x = array[i]
            better = x < value if wants_least else x > value
            if value == value and (better or x != x):
                value = x
                place = position
            position += 1
        else:
            value, place, position = best_place(array[i], wants_least, value, place, position)
    return value, place, position
