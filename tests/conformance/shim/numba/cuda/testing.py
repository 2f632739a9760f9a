# SPDX-License-Identifier: Apache-2.0
"""``numba.cuda.testing``: the base class of device tests and the suite's conditions, written from the names in use."""

from __future__ import annotations

import importlib.util
import io
import os
import platform
import unittest
from pathlib import Path
from typing import Any

import numpy as np

from numba import cuda
from numba.cuda import config
from numba.cuda.tests.support import TestCase

__all__ = ["CUDATestCase", "ForeignArray", "cc_X_or_above", "test_data_dir", "unittest"]

test_data_dir = Path(os.environ["CONFORMANCE_SUITE"]) / "data"


class CUDATestCase(TestCase):
    """A test that uses the device, without warnings about small grids and host arrays."""

    FLOAT16_RTOL = np.finfo(np.float16).eps

    def setUp(self) -> None:
        self._switches = (config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY)
        config.CUDA_LOW_OCCUPANCY_WARNINGS = config.CUDA_WARN_ON_IMPLICIT_COPY = 0

    def tearDown(self) -> None:
        config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY = self._switches

    def assertFileCheckAsm(
        self, kernel: Any, signature: Any = None, check_prefixes: Any = ("ASM",), **options: Any
    ) -> None:
        """The kernel's PTX holds what its docstring's CHECK lines say."""
        self._check_texts(kernel, kernel.inspect_asm(), signature, check_prefixes, options)

    def assertFileCheckLLVM(
        self, kernel: Any, signature: Any = None, check_prefixes: Any = ("LLVM",), **options: Any
    ) -> None:
        """The kernel's LLVM IR holds what its docstring's CHECK lines say."""
        self._check_texts(kernel, kernel.inspect_llvm(), signature, check_prefixes, options)

    def _check_texts(self, kernel: Any, found: Any, signature: Any, prefixes: Any, options: dict[str, Any]) -> None:
        if isinstance(found, str):
            texts = [found]
        else:
            texts = list(found.values()) if signature is None else [found[signature]]
        self.assertTrue(texts, "no text to check")
        self.assertIsNotNone(kernel.__doc__, "the kernel's docstring holds the CHECK lines, and it has none")
        for text in texts:
            self.assertFileCheckMatches(text, kernel.__doc__, prefixes, **options)

    def assertFileCheckMatches(
        self, ir_content: str, check_patterns: str, check_prefixes: Any = ("CHECK",), **options: Any
    ) -> None:
        """``ir_content`` holds what the CHECK lines say."""
        from filecheck.finput import FInput
        from filecheck.matcher import Matcher
        from filecheck.options import Options
        from filecheck.parser import Parser, pattern_for_opts

        chosen = Options(match_filename="-", check_prefixes=list(check_prefixes), **options)
        parser = Parser(chosen, io.StringIO(check_patterns), *pattern_for_opts(chosen))
        matcher = Matcher(chosen, FInput("-", ir_content), parser)
        matcher.stderr = io.StringIO()
        if matcher.run() != 0:
            self.fail(f"the text does not match the CHECK lines:\n{matcher.stderr.getvalue()}")


class ForeignArray:
    """An array that shows the CUDA array interface and nothing else; of the CPU device, whose memory is the host's, the
    host's array interface."""

    def __init__(self, array: Any) -> None:
        self._array = self._arr = array
        if hasattr(array, "__cuda_array_interface__"):
            self.__cuda_array_interface__ = array.__cuda_array_interface__
        else:
            self.__array_interface__ = array.__array_interface__


def cc_X_or_above(major: int, minor: int) -> bool:
    """Whether the device's compute capability is at least this one."""
    return bool(tuple(cuda.get_current_device().compute_capability) >= (major, minor))


def _skip_below(major: int, minor: int) -> Any:
    def decorate(test: Any) -> Any:
        return unittest.skipUnless(cc_X_or_above(major, minor), f"needs cc {major}.{minor}")(test)

    return decorate


skip_unless_cc_50 = _skip_below(5, 0)
skip_unless_cc_53 = _skip_below(5, 3)
skip_unless_cc_60 = _skip_below(6, 0)
skip_unless_cc_75 = _skip_below(7, 5)
skip_unless_cc_90 = _skip_below(9, 0)


def _as_it_is(test: Any) -> Any:
    return test


def _never(reason: str) -> Any:
    return _as_it_is


# There is no simulator, no other memory manager and no memcheck here; no linking against cudadevrt is needed for
# cooperative launches; nvJitLink is the only linker.
skip_on_cudasim = skip_if_external_memmgr = skip_under_cuda_memcheck = skip_if_nvjitlink_missing = _never
skip_on_nvjitlink_13_1_sm_120 = _never
skip_if_cudadevrt_missing = skip_on_standalone_numba_cuda = _as_it_is
skip_unless_cudasim = skip_unless_conda_cudatoolkit = unittest.skip
xfail_unless_cudasim = unittest.expectedFailure


def skip_on_arm(reason: str) -> Any:
    """Not on Arm."""
    return unittest.skipIf(platform.machine().startswith(("arm", "aarch")), reason)


def skip_on_wsl2(reason: str) -> Any:
    """Not under the Windows Subsystem for Linux."""
    return unittest.skipIf("wsl2" in platform.release().lower(), reason)


def _has_nvdisasm() -> bool:
    return importlib.util.find_spec("nvidia") is not None and _nvidia_file("bin", "nvdisasm") is not None


def _nvidia_file(*parts: str) -> Path | None:
    """A file of one of the nvidia packages, or of the toolkit at ``CUDA_HOME``."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    folders = [folder for root in roots for folder in root.iterdir()] + [Path(os.environ.get("CUDA_HOME", "/none"))]
    return next((path for folder in folders if (path := folder.joinpath(*parts)).is_file()), None)


def skip_without_nvdisasm(reason: str) -> Any:
    """Only with nvdisasm."""
    return unittest.skipUnless(_has_nvdisasm(), reason)


def skip_with_nvdisasm(reason: str) -> Any:
    """Only without nvdisasm."""
    return unittest.skipIf(_has_nvdisasm(), reason)


def skip_if_cuda_includes_missing(test: Any) -> Any:
    """Only where the toolkit's headers are."""
    return unittest.skipUnless(_nvidia_file("include", "cuda.h"), "no CUDA headers here")(test)


def skip_if_curand_kernel_missing(test: Any) -> Any:
    """Only where cuRAND's device headers are."""
    return unittest.skipUnless(_nvidia_file("include", "curand_kernel.h"), "no cuRAND headers here")(test)
