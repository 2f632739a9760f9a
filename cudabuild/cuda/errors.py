# SPDX-License-Identifier: Apache-2.0
"""Errors and warnings under the names that numba-cuda programs catch and filter.

``except TypingError`` catches what this package raises for a kernel that is wrong: there is one error for all of its
mistakes, :class:`cudabuild.errors.CompilationError`, whichever stage finds them.
"""

from __future__ import annotations

from cudabuild.errors import CompilationError, CudabuildError, DriverError, LaunchError

__all__ = [
    "CudaAPIError",
    "CudaDriverError",
    "CudaLoweringError",
    "CudaSupportError",
    "DeprecationError",
    "InternalError",
    "KernelRuntimeError",
    "LoweringError",
    "NumbaDebugInfoWarning",
    "NumbaDeprecationWarning",
    "NumbaError",
    "NumbaExperimentalFeatureWarning",
    "NumbaInvalidConfigWarning",
    "NumbaPendingDeprecationWarning",
    "NumbaPerformanceWarning",
    "NumbaTypeError",
    "NumbaValueError",
    "NumbaWarning",
    "RequireLiteralValue",
    "TypingError",
    "UnsupportedBytecodeError",
    "UnsupportedError",
]

NumbaError = CudabuildError
TypingError = CompilationError
LoweringError = CompilationError
CudaLoweringError = CompilationError
NumbaTypeError = CompilationError
NumbaValueError = CompilationError
RequireLiteralValue = CompilationError
UnsupportedBytecodeError = CompilationError
InternalError = CudabuildError
KernelRuntimeError = LaunchError
CudaSupportError = LaunchError
CudaAPIError = DriverError
CudaDriverError = DriverError


class UnsupportedError(CudabuildError, NotImplementedError):
    """Something that numba-cuda can do and this package cannot."""


class DeprecationError(CudabuildError):
    """Something that numba-cuda once took."""


class NumbaWarning(Warning):
    """The root of the warnings."""


class NumbaPerformanceWarning(NumbaWarning):
    """Something that works, and slowly."""


class NumbaDebugInfoWarning(NumbaWarning):
    """Debug information that says less than it could."""


class NumbaInvalidConfigWarning(NumbaWarning):
    """Options that do not go together."""


class NumbaDeprecationWarning(NumbaWarning):
    """Something that will go."""


class NumbaPendingDeprecationWarning(NumbaWarning):
    """Something that may go."""


class NumbaExperimentalFeatureWarning(NumbaWarning):
    """Something that may change."""
