# SPDX-License-Identifier: Apache-2.0
"""``cuda.jit``: numba-cuda's decorator, with its options translated into this package's.

The function keeps numba's types (``literals="numba"``); everything else is as with ``@kernel``. What an option cannot
do here is refused by name; what has nothing to do here (``lto``, ``cache``, ``inline``) is taken and left alone: images
are whole programs, always kept, and inlined where that pays.
"""

from __future__ import annotations

import warnings
from types import FunctionType

from cudabuild.cuda.errors import NumbaInvalidConfigWarning
from cudabuild.decorators import SERVICES, check_option, no_function, register_text
from cudabuild.definition import KernelDefinition, Options
from cudabuild.errors import SettingError, nearest_name
from cudabuild.linking import link_to, links_of
from cudabuild.runtime.jit_dispatcher import JitDispatcher
from cudabuild.types import Type, parse_signatures
from cudabuild.types.type import FunctionSignature, Prototype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["jit", "options_of"]

#: Options that are taken whatever their value: they change nothing that a program can see.
_WITHOUT_EFFECT = frozenset({
    "cache", "forceinline", "inline", "lto", "nopython", "no_cpython_wrapper", "parallel", "nrt", "locals",
    "pipeline_class",
})  # fmt: skip

#: Options that numba-cuda has had and refuses today.
_GONE = frozenset({"argtypes", "restype", "bind"})

_OWN = frozenset({
    "debug", "opt", "lineinfo", "fastmath", "fma", "max_registers", "launch_bounds", "literals", "link", "extensions",
    "shared_memory_carveout", "device", "boundscheck",
})  # fmt: skip

#: What fastmath names one by one; all together are ``fastmath=True``.
_FAST_FLAGS = frozenset({"nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"})

_CARVEOUTS = {"default": -1, "maxl1": 0, "maxshared": 100}
_DEFAULT_OPT = 3


def jit(func_or_sig: Any = None, device: bool = False, *, source: str | None = None, **options: Any) -> Any:
    """Makes a kernel or a device function, with numba-cuda's types and options.

    Args:
        func_or_sig: a function; or its signature (text, a tuple of types, ``void(…)`` of types), or a list of these.
            Without one, each call compiles for the types of its arguments.
        device: makes a function for kernels to call; a kernel may be called by kernels, too.
        source: the text that ``exec`` made the function of, the whole of it, where Python cannot find it.
        options: ``debug``, ``opt`` (bool or 0 … 3), ``lineinfo``, ``fastmath`` (bool or a set of flags),
            ``max_registers``, ``launch_bounds``, ``shared_memory_carveout``, ``extensions``, ``fma``, ``literals``,
            ``link`` (foreign code, see ``declare_device``);
            ``cache``, ``inline``, ``forceinline``, ``lto``, ``nopython`` are taken and change nothing.

    Returns:
        A ``JitDispatcher``; given a signature or nothing, the decorator that makes one.

    Raises:
        SettingError: an option that does not exist or a value that it cannot have.
        TypeError: a kernel whose signature returns something.
    """
    values, carveout = _known_options(options)
    if isinstance(func_or_sig, FunctionType):
        if source is not None:
            register_text(func_or_sig, source)
        return _make(func_or_sig, None, device, values, carveout, options)
    if func_or_sig is not None and not _is_spec(func_or_sig):
        function = getattr(func_or_sig, "py_func", None)
        if isinstance(function, FunctionType):
            return _make(function, None, device, values, carveout, options)
        raise no_function("@cuda.jit", func_or_sig)
    spec = func_or_sig if func_or_sig else (func_or_sig if func_or_sig == () else None)
    if not device and spec is not None:
        _refuse_results(spec)

    def decorate(function: Any) -> JitDispatcher:
        plain = function if isinstance(function, FunctionType) else getattr(function, "py_func", None)
        if not isinstance(plain, FunctionType):
            raise no_function("@cuda.jit", function)
        if source is not None:
            register_text(plain, source)
        return _make(plain, spec, device, values, carveout, options)

    return decorate


def _make(
    function: FunctionType, spec: Any, device: bool, options: Options, carveout: int | None, given: dict[str, Any]
) -> JitDispatcher:
    link_to(function, links_of(given.get("link")))
    definition = KernelDefinition(
        function, spec, None, options, is_device=device, may_be_called=True, carveout=carveout
    )
    specialized = spec is not None and not isinstance(spec, list)
    made = JitDispatcher(definition, SERVICES, specialized=specialized, targetoptions={**given, "device": device})
    if spec is not None:
        SERVICES.check_early(made)
        made.disable_compile()
    return made


def _is_spec(value: Any) -> bool:
    return isinstance(value, (str, Type, Prototype)) or (
        isinstance(value, (tuple, list)) and all(isinstance(part, Type) or _is_spec(part) for part in value)
    )


def _refuse_results(spec: Any) -> None:
    if isinstance(spec, str):
        result, given, _ = spec.partition("(")
        if not given or result.strip() in ("", "void"):  # parsed when its types are needed
            return
    for signature in parse_signatures(spec, returns=True):
        if isinstance(signature, FunctionSignature):
            raise TypeError(
                "CUDA kernel must have void return type.\n"
                f"  found:    {signature!r}\n  do:       store the result in an element of an array argument"
            )


# options

#: (name, type, value) of what decorators were given -> what it means: a module gives the same to all of its kernels.
_known: dict[tuple[tuple[str, type, Any], ...], tuple[Options, int | None]] = {}
_MOST_KNOWN = 64
_PLAIN = frozenset({bool, int, str, type(None)})


def _known_options(given: dict[str, Any]) -> tuple[Options, int | None]:
    """``options_of``, remembered where there is nothing to warn of and no value that may change."""
    key = tuple([(name, type(value), value) for name, value in given.items() if type(value) in _PLAIN])
    found = _known.get(key) if len(key) == len(given) else None
    if found is None:
        found = options_of(given, level=5)
        if len(key) == len(given) and not found[0]["debug"] and len(_known) < _MOST_KNOWN:
            _known[key] = found
    return found


def options_of(given: dict[str, Any], *, level: int = 4) -> tuple[Options, int | None]:
    """numba-cuda's options as this package's, and the share of shared memory that launches want.

    Args:
        given: what was written.
        level: of the program's line in the call stack, for warnings.

    Raises:
        SettingError: an unknown option, or a value that one cannot have.
    """
    for name in given:
        if name in _GONE:
            raise SettingError(f"cuda.jit no longer takes {name}=\n  do:       write a signature: cuda.jit('void(…)')")
        if name not in _WITHOUT_EFFECT and name not in _OWN:
            near = nearest_name(name, sorted(_OWN | _WITHOUT_EFFECT))
            raise SettingError(
                f"unknown option of cuda.jit\n  found:    {name}={given[name]!r}\n"
                f"  expected: one of {', '.join(sorted(_OWN | _WITHOUT_EFFECT))}"
                + (f"\n  do:       did you mean {near!r}?" if near else "")
            )
    if given.get("boundscheck"):
        raise NotImplementedError("bounds checking is not supported for CUDA: debug=True checks indices")
    links_of(given.get("link"))
    _check_extensions(given.get("extensions"))
    values: dict[str, Any] = {"literals": "numba"}
    for name in ("lineinfo", "fma", "max_registers", "launch_bounds", "literals"):
        if given.get(name) is not None:
            values[name] = given[name]
    values["debug"] = bool(given.get("debug"))
    values["opt"] = _opt_level(given.get("opt"), values["debug"])
    values["fastmath"] = _fastmath(given.get("fastmath", False))
    bounds = values.get("launch_bounds")
    if isinstance(bounds, tuple) and len(bounds) > 3:
        raise SettingError(f"Got {len(bounds)} launch bounds: expected at most 3, threads, blocks and cluster size")
    for name, value in values.items():
        check_option(name, value)
    _warn_of_conflicts(given, values, level)
    written = frozenset({*(name for name in values if given.get(name) is not None), "literals"})
    return Options(values, written), _carveout(given.get("shared_memory_carveout"))


def _check_extensions(value: Any) -> None:
    wrong = value is not None and not isinstance(value, (list, tuple, set, frozenset))
    if wrong or any(not callable(getattr(one, "prepare_args", None)) for one in value or ()):
        raise SettingError(
            f"bad value of the option extensions of cuda.jit\n  found:    {value!r}\n"
            "  expected: a list of objects with a method prepare_args(type, value, stream, retr)"
        )


def _opt_level(value: Any, debug: bool) -> int:
    if value is None or value is True:
        return _DEFAULT_OPT
    return int(value) if isinstance(value, bool) or value in range(4) else value


def _fastmath(value: Any) -> bool:
    """One option here: parts of it are less than all, and are left alone."""
    if isinstance(value, bool) or value in (0, 1, None):
        return bool(value)
    flags = {value} if isinstance(value, (str, int, float)) else set(value)
    unknown = sorted(map(str, flags - _FAST_FLAGS - {"fast"}))
    if unknown:
        raise SettingError(
            f"bad value of the option fastmath of cuda.jit\n  found:    {', '.join(unknown)}\n"
            f"  expected: True, False, or a set of fast, {', '.join(sorted(_FAST_FLAGS))}"
        )
    return "fast" in flags or flags >= _FAST_FLAGS


def _carveout(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.lower() in _CARVEOUTS:
        return _CARVEOUTS[value.lower()]
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= 100:
        return value
    error = ValueError if isinstance(value, (str, int)) and not isinstance(value, bool) else TypeError
    raise error(
        f"Invalid carveout value: bad value of the option shared_memory_carveout of cuda.jit\n  found:    {value!r}\n"
        "  expected: 'default', 'MaxL1', 'MaxShared', or a percentage: it must be between -1 and 100"
    )


def _warn_of_conflicts(given: dict[str, Any], values: dict[str, Any], level: int) -> None:
    if values["debug"] and values["opt"]:
        warnings.warn(
            NumbaInvalidConfigWarning("debug=True with opt=True is not supported by CUDA: set opt=False"),
            stacklevel=level,
        )
    if values["debug"] and given.get("lineinfo"):
        warnings.warn(
            NumbaInvalidConfigWarning("debug and lineinfo are mutually exclusive: debug records lines as well"),
            stacklevel=level,
        )
