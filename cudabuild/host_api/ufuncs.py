# SPDX-License-Identifier: Apache-2.0
"""``cuda.vectorize`` and ``cuda.guvectorize``: a function of numbers, or of sub-arrays, over whole arrays.

Both compile the function for each of their signatures as a device function, and a kernel around it in which every
thread takes elements at the distance of the grid. NumPy arrays travel to the device and back; where one argument is a
device array, so is the result.
"""

from __future__ import annotations

import warnings
from types import FunctionType

from cudabuild.cuda_jit import jit
from cudabuild.host_api.arrays import as_cuda_array, device_array, is_cuda_array, to_device
from cudabuild.host_api.reduction import Reduce
from cudabuild.runtime.device_array import DeviceArray
from cudabuild.source import register_source
from cudabuild.types import Array, FunctionSignature, Scalar, as_dtype, none, parse_signatures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from cudabuild.types import Signature, Type

__all__ = ["GUFunc", "UFunc", "guvectorize", "vectorize"]

_OPTIONS = frozenset({"nopython", "cache"})
_THREADS = 256
_MOST_BLOCKS = 1 << 16


def vectorize(ftylist_or_function: Any = (), target: str = "cuda", identity: Any = None, **kws: Any) -> Any:
    """Makes a function of numbers one of arrays, with NumPy's broadcasting.

    Args:
        ftylist_or_function: a signature with its result, ``"float32(float32, float32)"``, or a list of them.
        target: ``"cuda"``.
        identity: taken for numba's sake.
        kws: ``nopython`` and ``cache``, which change nothing.

    Returns:
        The decorator, which makes a :class:`UFunc`.

    Raises:
        TypeError: no signature.
        KeyError: an option that does not exist.
    """
    _check_target(target)
    unknown = sorted(set(kws) - _OPTIONS)
    if unknown:
        raise KeyError(f"Unrecognized options: {', '.join(unknown)}; known are {', '.join(sorted(_OPTIONS))}")
    if "nopython" in kws:
        warnings.warn("nopython kwarg for cuda target is redundant", RuntimeWarning, stacklevel=2)
    signatures = _read_signatures(ftylist_or_function)

    def decorate(function: Any) -> UFunc:
        return UFunc(_function_of(function), signatures)

    return decorate


def guvectorize(ftylist: Any, signature: str, target: str = "cuda", **kws: Any) -> Any:
    """Makes a function of sub-arrays, which stores its results in its last arguments, one of whole arrays.

    Args:
        ftylist: a signature without a result, ``"void(float32[:], float32[:])"``, or a list of them.
        signature: the axes of inputs and results: ``"(m,n),(n,p)->(m,p)"``.
        target: ``"cuda"``.
        kws: ``nopython=True`` and ``cache``, which change nothing.

    Returns:
        The decorator, which makes a :class:`GUFunc`.

    Raises:
        TypeError: a signature that returns something, or an option that does not exist.
        ValueError: ``signature`` cannot be read.
    """
    _check_target(target)
    if kws.get("nopython", True) is not True:
        raise TypeError("nopython flag must be True")
    unknown = sorted(set(kws) - _OPTIONS)
    if unknown:
        raise TypeError(f"The following target options are not supported: {', '.join(map(repr, unknown))}")
    signatures = _read_signatures(ftylist)
    for one in signatures:
        if isinstance(one, FunctionSignature) and one.return_type != none:
            raise TypeError(
                f"guvectorized functions cannot return values: {one!r} specifies {one.return_type.name} return type"
            )
    inputs, outputs = _parse_layout(signature)

    def decorate(function: Any) -> GUFunc:
        return GUFunc(_function_of(function), signatures, inputs, outputs)

    return decorate


def _check_target(target: str) -> None:
    if target != "cuda":
        raise ValueError(f"target={target!r}: expected 'cuda'")


def _read_signatures(spec: Any) -> list[Signature]:
    if isinstance(spec, FunctionType) or not spec:
        raise TypeError("signatures are needed: vectorize(['float32(float32)'])")
    return parse_signatures(spec if isinstance(spec, list) else [spec], returns=True)


def _function_of(function: Any) -> FunctionType:
    plain = function if isinstance(function, FunctionType) else getattr(function, "py_func", None)
    if not isinstance(plain, FunctionType):
        raise TypeError(f"a {type(function).__name__}: expected a function written with def")
    return plain


def _parse_layout(text: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """``"(m,n),(n)->(m)"`` as the names of every argument's axes, inputs and results.

    Raises:
        ValueError: it is written in another way.
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    sides = []
    for side in (left, right):
        parts = side.removeprefix("(").removesuffix(")").split("),(")
        well_formed = side.startswith("(") and side.endswith(")") and all(c not in p for p in parts for c in "()")
        if not arrow or not well_formed:
            raise ValueError(f"bad layout {text!r}: expected the axes of inputs and results, such as '(m,n),(n)->(m)'")
        sides.append([tuple(name for name in part.split(",") if name) for part in parts])
    return sides[0], sides[1]


def _make_kernel(function: FunctionType, signature: Signature, text: str) -> Callable[..., Any]:
    """The kernel written in ``text`` around ``function``, compiled for one signature."""
    from cudabuild import cuda

    device_function = jit([signature], device=True)(function)
    namespace: dict[str, Any] = {"cuda": cuda, "function": device_function, "__name__": __name__}
    exec(compile(text, f"<cudabuild {function.__name__}>", "exec"), namespace)
    kernel = namespace["kernel"]
    register_source(kernel, text)
    kernel.__name__ = kernel.__qualname__ = function.__name__
    made: Callable[..., Any] = jit(kernel)
    return made


def _with_result(function: FunctionType, signature: Signature) -> FunctionSignature:
    """The signature with what the function returns, where it does not say that itself."""
    if isinstance(signature, FunctionSignature) and signature.return_type != none:
        return signature
    result: FunctionSignature = jit(device=True)(function).compile_device(signature).signature
    return result


def _blocks(count: int) -> int:
    return max(1, min(_MOST_BLOCKS, -(-count // _THREADS)))


def _as_array(value: Any) -> Any:
    """A device array, or a NumPy array."""
    if is_cuda_array(value):
        return as_cuda_array(value)
    import numpy

    return numpy.asarray(value)


def _dtype_of(kind: Type) -> Any:
    element = kind.dtype if isinstance(kind, Array) else kind
    assert isinstance(element, Scalar)
    return as_dtype(element)


class _Vectorized:
    """What the two have in common: a function, its signatures, and the kernels made of them."""

    def __init__(self, function: FunctionType, signatures: Sequence[Signature], inputs: int) -> None:
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.signatures = list(signatures)
        self._inputs = inputs
        self._kernels: dict[Any, Any] = {}

    def _choose(self, given: Sequence[Any]) -> Signature:
        """The signature whose inputs are those given, or else the first that they convert to without loss."""
        import numpy

        found = [array.dtype for array in given]
        wanted = [[_dtype_of(kind) for kind in signature[: self._inputs]] for signature in self.signatures]
        for casting in ("no", "safe", "same_kind"):
            for signature, dtypes in zip(self.signatures, wanted, strict=True):
                if all(numpy.can_cast(a, b, casting) for a, b in zip(found, dtypes, strict=True)):
                    return signature
        raise TypeError(
            f"{self.__name__}: no matching signature\n  found:    {', '.join(map(str, found))}\n"
            f"  expected: {'; or '.join(repr(signature) for signature in self.signatures)}"
        )

    def _convert(self, array: Any, kind: Type) -> Any:
        """The input with the elements that the signature wants."""
        dtype = _dtype_of(kind)
        if array.dtype == dtype:
            return array
        if isinstance(array, DeviceArray):
            raise TypeError(
                f"{self.__name__}: a device array does not support .astype()\n  found:    elements of {array.dtype}\n"
                f"  expected: {dtype}\n  do:       convert it on the host, or in a kernel"
            )
        return array.astype(dtype)


class UFunc(_Vectorized):
    """What ``cuda.vectorize`` makes: called with arrays and numbers, it gives an array.

    Attributes:
        signatures: those that it was made with.
    """

    def __init__(self, function: FunctionType, signatures: Sequence[Signature]) -> None:
        typed = [_with_result(function, signature) for signature in signatures]
        super().__init__(function, typed, len(typed[0]))
        self._results = {tuple(signature): signature.return_type for signature in typed}
        for signature in typed:
            self._kernel(signature, 1)

    def _kernel(self, signature: Signature, ndim: int) -> Any:
        key = (tuple(signature), ndim)
        if key not in self._kernels:
            names = [f"a{number}" for number in range(self._inputs)]
            indices = [f"i{axis}" for axis in range(ndim)]
            at = f"[{', '.join(indices)}]"
            unravel = "".join(
                f"        i{axis} = rest % result.shape[{axis}]\n        rest //= result.shape[{axis}]\n"
                for axis in range(ndim - 1, 0, -1)
            )
            text = (
                f"def kernel({', '.join(['result', *names])}):\n"
                "    for rest in range(cuda.grid(1), result.size, cuda.gridsize(1)):\n"
                f"{unravel}        i0 = rest\n"
                f"        result{at} = function({', '.join(name + at for name in names)})\n"
            )
            self._kernels[key] = _make_kernel(self.__wrapped__, signature, text)
        return self._kernels[key]

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """The function of every element.

        Args:
            args: arrays and numbers that broadcast; one more is the same as ``out``.
            out: an array for the result.
            stream: where the work is queued.

        Returns:
            ``out``, or a device array where an argument is one, else a NumPy array or number.
        """
        import numpy

        if len(args) == self._inputs + 1 and out is None:
            *inputs, out = args
        else:
            inputs = list(args)
        if len(inputs) != self._inputs:
            raise TypeError(f"{self.__name__} takes {self._inputs} arguments and an output, got {len(args)}")
        given = [_as_array(value) for value in inputs]
        signature = self._choose(given)
        shape = numpy.broadcast_shapes(*(array.shape for array in given))
        on_device = is_cuda_array(out) or (out is None and any(isinstance(array, DeviceArray) for array in given))
        dtype = _dtype_of(self._results[tuple(signature)])
        result = as_cuda_array(out) if is_cuda_array(out) else device_array(shape, dtype, stream=stream)
        if result.shape != shape:
            raise ValueError(f"{self.__name__}: the output has shape {result.shape}, the inputs broadcast to {shape}")
        sources = []
        for array, kind in zip(given, signature, strict=True):
            converted = self._convert(array, kind)
            on_it = converted if isinstance(converted, DeviceArray) else to_device(numpy.array(converted), stream)
            sources.append(on_it)
        self._launch(signature, result, sources, stream)
        if on_device:
            return result if out is None else out
        if out is not None:
            result.copy_to_host(out, stream) if out.dtype == dtype else numpy.copyto(out, result.copy_to_host())
            return out
        host = result.copy_to_host(stream=stream)
        return host if shape else host[()]

    def _launch(self, signature: Signature, result: DeviceArray, sources: list[DeviceArray], stream: Any) -> None:
        if not result.size:
            return
        alike = all(source.size == 1 or (source.shape == result.shape and source.c) for source in sources)
        if result.c and alike:  # as if all had one axis
            result = result.reshape(result.size)
            sources = [source.reshape(source.size) for source in sources]
        views = [source.broadcast_to(result.shape) for source in sources]
        self._kernel(signature, result.ndim)[_blocks(result.size), _THREADS, stream](result, *views)

    def reduce(self, arr: Any, stream: Any = 0) -> Any:
        """Combines all elements of an array of one axis by the function, which takes two."""
        if self._inputs != 2:
            raise TypeError(f"{self.__name__}: only a function of two numbers reduces")
        array = _as_array(arr)
        self._choose([array, array])
        first = array[0] if not isinstance(array, DeviceArray) else array[:1].copy_to_host(stream=stream)[0]
        if array.size == 1:
            return first
        return array.dtype.type(Reduce(self.__wrapped__)(array[1:], init=first, stream=stream))


class GUFunc(_Vectorized):
    """What ``cuda.guvectorize`` makes: called with arrays, it gives one array or a tuple of them.

    Attributes:
        signatures: those that it was made with.
    """

    def __init__(
        self,
        function: FunctionType,
        signatures: Sequence[Signature],
        inputs: Sequence[tuple[str, ...]],
        outputs: Sequence[tuple[str, ...]],
    ) -> None:
        super().__init__(function, signatures, len(inputs))
        self._axes = [*inputs, *outputs]
        known = {name for axes in inputs for name in axes}
        unknown = sorted({name for axes in outputs for name in axes} - known)
        if unknown:
            raise ValueError(f"{self.__name__}: axis {unknown[0]!r} of a result is no input's")
        for signature in signatures:
            if len(signature) != len(self._axes):
                raise TypeError(f"{self.__name__}: {signature!r} has not the {len(self._axes)} arguments of the layout")
            self._kernel(signature)

    def _kernel(self, signature: Signature) -> Any:
        key = tuple(signature)
        if key not in self._kernels:
            names = [f"a{number}" for number in range(len(self._axes))]
            parts = [
                f"{name}[i : i + 1]" if not axes and isinstance(kind, Array) else f"{name}[i]"
                for name, axes, kind in zip(names, self._axes, signature, strict=True)
            ]
            text = (
                f"def kernel({', '.join(['count', *names])}):\n"
                "    for i in range(cuda.grid(1), count, cuda.gridsize(1)):\n"
                f"        function({', '.join(parts)})\n"
            )
            self._kernels[key] = _make_kernel(self.__wrapped__, signature, text)
        return self._kernels[key]

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        """The function of every sub-array.

        Args:
            args: the inputs, and then the outputs if they are not left to be made.
            out: the output, or a tuple of them.
            stream: where the work is queued.
        """
        import numpy

        given, outputs = self._split(args, out)
        signature = self._choose(given)
        sizes: dict[str, int] = {}
        loops = [self._measure(array, axes, sizes) for array, axes in zip(given, self._axes, strict=False)]
        loop = numpy.broadcast_shapes(*loops)
        count = 1
        for extent in loop:
            count *= extent
        on_device = any(isinstance(array, DeviceArray) for array in given)
        results = []
        for axes, kind, output in zip(self._axes[self._inputs :], signature[self._inputs :], outputs, strict=True):
            shape = (*loop, *(sizes[name] for name in axes))
            results.append(_Output(shape, _dtype_of(kind), output, stream))
        sources = []
        for array, axes, kind in zip(given, self._axes, signature, strict=False):
            core = tuple(sizes[name] for name in axes)
            sources.append(_flattened(self._convert(array, kind), loop, core, count, stream))
        if count:
            views = [*sources, *(one.flattened(count, len(loop)) for one in results)]
            self._kernel(signature)[_blocks(count), _THREADS, stream](count, *views)
        finished = [one.finish(on_device, stream) for one in results]
        return finished[0] if len(finished) == 1 else tuple(finished)

    def _split(self, args: tuple[Any, ...], out: Any) -> tuple[list[Any], list[Any]]:
        """The inputs as arrays, and the outputs, None where one is to be made."""
        inputs, total = self._inputs, len(self._axes)
        if len(args) not in (inputs, total):
            raise TypeError(
                f"gufunc accepts {inputs} positional arguments (when providing input only) or {total} positional "
                f"arguments (when providing input and output). Got {len(args)} positional "
                f"argument{'' if len(args) == 1 else 's'}."
            )
        outputs: list[Any] = list(args[inputs:])
        if outputs and out is not None:
            raise ValueError("cannot specify argument 'out' as both positional and keyword")
        if out is not None:
            outputs = list(out) if isinstance(out, tuple) else [out]
        return [_as_array(value) for value in args[:inputs]], outputs or [None] * (total - inputs)

    def _measure(self, array: Any, axes: tuple[str, ...], sizes: dict[str, int]) -> tuple[int, ...]:
        """Notes the extents of an input's own axes; gives those before them."""
        split = array.ndim - len(axes)
        if split < 0:
            raise ValueError(f"{self.__name__}: an input of {array.ndim} axes, expected at least {len(axes)}")
        for name, extent in zip(axes, array.shape[split:], strict=True):
            if sizes.setdefault(name, extent) != extent:
                raise ValueError(f"{self.__name__}: axis {name!r} is {sizes[name]} long and {extent} long")
        return tuple(array.shape[:split])


def _flattened(array: Any, loop: tuple[int, ...], core: tuple[int, ...], count: int, stream: Any) -> DeviceArray:
    """An input in device memory, with one axis for all that the function does not see."""
    import numpy

    if isinstance(array, DeviceArray):
        whole = array.broadcast_to((*loop, *core))
        if len(loop) == 1 or whole.c:
            return whole.reshape((count, *core)) if whole.c else whole
        array = array.copy_to_host(stream=stream)
    return to_device(numpy.ascontiguousarray(numpy.broadcast_to(array, (*loop, *core))).reshape(count, *core), stream)


class _Output:
    """One result of a call: made here, or given."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, given: Any, stream: Any) -> None:
        self.shape = shape
        self.given = given
        if given is None:
            self.array = device_array(shape, dtype, stream=stream)
            return
        self.array = as_cuda_array(given) if is_cuda_array(given) else to_device(given, stream)
        if self.array.dtype != dtype:
            raise TypeError(f"an output of {self.array.dtype}: expected {dtype}")
        size = 1
        for extent in shape:
            size *= extent
        if self.array.size != size or not self.array.c:
            raise ValueError(f"an output of shape {self.array.shape}: expected {shape}, in C order")

    def flattened(self, count: int, axes: int) -> DeviceArray:
        """With one axis in place of the first ``axes`` ones."""
        return self.array.reshape((count, *self.shape[axes:]))

    def finish(self, on_device: bool, stream: Any) -> Any:
        """What the caller gets."""
        if self.given is not None:
            if not is_cuda_array(self.given):
                self.array.copy_to_host(self.given, stream)
            return self.given
        if on_device:
            return self.array
        host = self.array.copy_to_host(stream=stream)
        return host if self.shape else host[()]
