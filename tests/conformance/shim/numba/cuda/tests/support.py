# SPDX-License-Identifier: Apache-2.0
"""``numba.cuda.tests.support``: the suite's base class and helpers, written from the names in use."""

from __future__ import annotations

import cmath
import contextlib
import enum
import functools
import importlib
import io
import math
import subprocess
import sys
import tempfile
import unittest
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from numba.cuda import config

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CheckWarningsMixin", "EnableNRTStatsMixin", "MemoryLeakMixin", "TestCase"]

IS_NUMPY_2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"

linux_only = unittest.skipUnless(sys.platform.startswith("linux"), "only on Linux")
windows_only = unittest.skipUnless(sys.platform.startswith("win"), "only on Windows")
skip_unless_cffi = unittest.skipUnless(importlib.util.find_spec("cffi"), "needs cffi")
skip_if_numpy_2 = unittest.skipIf(IS_NUMPY_2, "not with NumPy 2")
skip_if_py314 = unittest.skipIf(sys.version_info[:2] == (3, 14), "unstable on Python 3.14")


def expected_failure_py314(test: Any) -> Any:
    """Expected to fail on Python 3.14."""
    return unittest.expectedFailure(test) if sys.version_info[:2] == (3, 14) else test


def captured_stdout() -> Any:
    """Standard output as a text buffer."""
    return contextlib.redirect_stdout(io.StringIO())


def captured_stderr() -> Any:
    """Standard error as a text buffer."""
    return contextlib.redirect_stderr(io.StringIO())


@contextlib.contextmanager
def override_config(name: str, value: Any) -> Iterator[None]:
    """One of numba's switches, for a while."""
    before = getattr(config, name)
    setattr(config, name, value)
    try:
        yield
    finally:
        setattr(config, name, before)


def ignore_internal_warnings() -> None:
    """Within ``warnings.catch_warnings``: nothing of ours to leave out."""


def import_dynamic(name: str) -> Any:
    """Imports a module that was just written."""
    importlib.invalidate_caches()
    return importlib.import_module(name)


def temp_directory(prefix: str) -> str:
    """A new folder."""
    return tempfile.mkdtemp(prefix=f"{prefix}-")


def run_in_subprocess(code: str, flags: Any = (), env: Any = None, timeout: float = 60) -> tuple[str, str]:
    """Runs ``code`` in a child process; its output and its errors. A failure of the child is the test's."""
    command = [sys.executable, *flags, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise AssertionError(f"the child process ended with {done.returncode}:\n{done.stderr}")
    return done.stdout, done.stderr


class EnableNRTStatsMixin:
    """Counts of device allocations: there are none."""


class MemoryLeakMixin(EnableNRTStatsMixin):
    """Checks that device allocations of a kernel are freed: there are none."""


class CheckWarningsMixin:
    """Expects warnings."""

    @contextlib.contextmanager
    def check_warnings(self, messages: Any, category: Any = RuntimeWarning) -> Iterator[None]:
        """Exactly these messages are warned of, in this category."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        told = [warning for warning in caught for text in messages if text in str(warning.message)]
        test: Any = self
        for warning in told:
            test.assertEqual(warning.category, category)
        test.assertEqual(len(told), len(messages))


#: Values of different families never compare equal; the order matters: ``bool`` is an ``int``.
_FAMILIES: tuple[tuple[str, Any], ...] = (
    ("array", np.ndarray),
    ("enum", enum.Enum),
    ("sequence", (tuple, list)),
    ("exact", (bool, np.bool_, int, str, np.integer, bytes)),
    ("complex", (complex, np.complexfloating)),
    ("real", (float, np.inexact)),
)
_BITS = {"single": 24, "double": 53}


class TestCase(unittest.TestCase):
    """unittest's, with comparisons that look at types, strides and signs of zero."""

    longMessage = True

    @functools.cached_property
    def random(self) -> np.random.RandomState:
        """The same random numbers for every test."""
        return np.random.RandomState(42)

    def reset_module_warnings(self, module: Any) -> None:
        """Lets a module's warnings be told again."""
        module = sys.modules[module] if isinstance(module, str) else module
        getattr(module, "__warningregistry__", {}).clear()

    @contextlib.contextmanager
    def assertTypingError(self) -> Iterator[Any]:
        """The block fails to compile."""
        from numba.cuda.core import errors

        with self.assertRaises((errors.LoweringError, errors.TypingError, TypeError, NotImplementedError)) as caught:
            yield caught

    def assertStridesEqual(self, first: Any, second: Any) -> None:
        """Same shape, element size and strides."""
        self.assertEqual((first.shape, first.itemsize), (second.shape, second.itemsize))
        self.assertEqual(_strides(first), _strides(second))

    def assertPreciseEqual(
        self,
        first: Any,
        second: Any,
        prec: str = "exact",
        ulps: int = 1,
        msg: Any = None,
        ignore_sign_on_zero: bool = False,
        abs_tol: Any = None,
    ) -> None:
        """Equal in kind and value: dtype, shape, strides and writability of arrays, the sign of zeros, NaN for NaN.

        Args:
            prec: ``exact``, or the precision in which a difference of ``ulps`` is allowed: ``single``, ``double``.
            abs_tol: a difference that is allowed in any case; ``"eps"`` for that of the type.
        """
        family = _family(first)
        self.assertEqual(family, _family(second), f"{type(first)} against {type(second)}: {msg or ''}")

        def compare(a: Any, b: Any) -> None:
            self.assertPreciseEqual(a, b, prec, ulps, msg, ignore_sign_on_zero, abs_tol)

        if family == "array":
            self.assertEqual(
                (first.dtype, first.shape, first.flags.writeable, _strides(first)),
                (second.dtype, second.shape, second.flags.writeable, _strides(second)),
                msg,
            )
        if family in ("array", "sequence"):
            self.assertEqual(
                len(np.atleast_1d(first)) if family == "array" else len(first), _length(second, family), msg
            )
            values = (first.flat, second.flat) if family == "array" else (first, second)
            for a, b in zip(*values, strict=True):
                compare(a, b)
            return
        if family in ("enum", "other"):
            self.assertIs(type(first), type(second))
        if family == "enum":
            compare(first.value, second.value)
            return
        self._compare_scalars(first, second, family, prec, ulps, msg, ignore_sign_on_zero, abs_tol)

    def _compare_scalars(
        self, first: Any, second: Any, family: str, prec: str, ulps: int, msg: Any, any_zero: bool, abs_tol: Any
    ) -> None:
        if hasattr(first, "dtype") and hasattr(second, "dtype"):
            self.assertEqual(first.dtype, second.dtype, msg)
        booleans = (bool, np.bool_)
        self.assertEqual(isinstance(first, booleans), isinstance(second, booleans), msg)
        if isinstance(first, (np.datetime64, np.timedelta64)):
            self.assertTrue(first == second or (np.isnat(first) and np.isnat(second)), f"{first} != {second}")
            return
        if family not in ("complex", "real"):
            self.assertEqual(first, second, msg)
            return
        if cmath.isnan(first) and cmath.isnan(second):
            return
        if abs_tol is not None and abs(first - second) < (np.finfo(type(first)).eps if abs_tol == "eps" else abs_tol):
            return
        delta = None if prec == "exact" else 2.0 ** (ulps - _BITS[prec] - 1) * (abs(first) + abs(second))
        pairs = [(first.real, second.real), (first.imag, second.imag)] if family == "complex" else [(first, second)]
        for a, b in pairs:
            self._compare_reals(a, b, delta, msg, any_zero)

    def _compare_reals(self, first: Any, second: Any, delta: float | None, msg: Any, any_zero: bool) -> None:
        if math.isnan(first) and math.isnan(second):
            return
        if delta is None or first == second == 0 or math.isinf(first) or math.isinf(second):
            self.assertEqual(first, second, msg)
            if not any_zero:
                self.assertEqual(math.copysign(1, first), math.copysign(1, second), f"{first} != {second}")
        else:
            self.assertAlmostEqual(first, second, delta=delta, msg=msg)


def _family(value: Any) -> str:
    return next((name for name, types in _FAMILIES if isinstance(value, types)), "other")


def _length(value: Any, family: str) -> int:
    return len(np.atleast_1d(value)) if family == "array" else len(value)


def _strides(array: Any) -> list[float]:
    """Strides in elements, of the axes that have any."""
    if array.size == 0:
        return [0] * array.ndim
    pairs = zip(array.strides, array.shape, strict=True)
    return [stride / array.itemsize for stride, extent in pairs if extent > 1]
