# SPDX-License-Identifier: Apache-2.0
"""``cuda.libdevice``: every function of NVIDIA's mathematical library under its own name, without ``__nv_``.

One table holds what they take and return (source: the bitcode's own declarations, and the libdevice User's Guide for
which integers are unsigned). ``*T`` is a result that the library stores through a pointer; here it is returned, in a
tuple behind the function's own result where it has one: ``s, c = cuda.libdevice.sincosf(x)``. ``T[::1]`` is a vector of
as many elements as the ``int32`` before it says. ``nan`` and ``nanf``, which take text, are left out: ``math.nan``.
"""

from __future__ import annotations

from cudabuild.lang.name import KernelName, Namespace

__all__ = ["FUNCTIONS", "LibdeviceSignature", "libdevice"]


class LibdeviceSignature:
    """What one function takes and returns, as names of types.

    Attributes:
        result: the type of the function's own result, ``void`` for none.
        parameters: the types of its arguments in order; those beginning with ``*`` are results.
    """

    __slots__ = ("parameters", "result")

    def __init__(self, text: str) -> None:
        self.result, _, rest = text[:-1].partition("(")
        self.parameters = rest.split(", ")

    @property
    def arguments(self) -> list[str]:
        """The types that a caller gives."""
        return [name for name in self.parameters if name[0] != "*"]

    @property
    def results(self) -> list[str]:
        """The types that a caller gets: one, or the elements of a tuple."""
        own = [] if self.result == "void" else [self.result]
        return own + [name[1:] for name in self.parameters if name[0] == "*"]


_TABLE = {
    "float32(float32)": (
        "acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf cospif cyl_bessel_i0f cyl_bessel_i1f erfcf "
        "erfcinvf erfcxf erff erfinvf exp10f exp2f expf expm1f fabsf fast_cosf fast_exp10f fast_expf fast_log10f "
        "fast_log2f fast_logf fast_sinf fast_tanf fast_tanhf floorf frcp_rd frcp_rn frcp_ru frcp_rz frsqrt_rn "
        "fsqrt_rd fsqrt_rn fsqrt_ru fsqrt_rz j0f j1f lgammaf log10f log1pf log2f logbf logf nearbyintf normcdff "
        "normcdfinvf rcbrtf rintf roundf rsqrtf saturatef sinf sinhf sinpif sqrtf tanf tanhf tgammaf truncf y0f y1f"
    ),
    "float32(float32, *float32)": "modff",
    "float32(float32, *int32)": "frexpf",
    "float32(float32, float32)": (
        "atan2f copysignf fadd_rd fadd_rn fadd_ru fadd_rz fast_fdividef fast_powf fdimf fdiv_rd fdiv_rn fdiv_ru "
        "fdiv_rz fmaxf fminf fmodf fmul_rd fmul_rn fmul_ru fmul_rz fsub_rd fsub_rn fsub_ru fsub_rz hypotf "
        "nextafterf powf remainderf rhypotf"
    ),
    "float32(float32, float32, *int32)": "remquof",
    "float32(float32, float32, float32)": (
        "fmaf fmaf_ieee_rd fmaf_ieee_rn fmaf_ieee_ru fmaf_ieee_rz fmaf_rd fmaf_rn fmaf_ru fmaf_rz norm3df rnorm3df"
    ),
    "float32(float32, float32, float32, float32)": "norm4df rnorm4df",
    "float32(float32, int32)": "ldexpf powif scalbnf",
    "float32(float64)": "double2float_rd double2float_rn double2float_ru double2float_rz",
    "float32(int32)": "int2float_rd int2float_rn int2float_ru int2float_rz int_as_float",
    "float32(int32, float32)": "jnf ynf",
    "float32(int32, float32[::1])": "normf rnormf",
    "float32(int64)": "ll2float_rd ll2float_rn ll2float_ru ll2float_rz",
    "float32(uint16)": "half2float",
    "float32(uint32)": "uint2float_rd uint2float_rn uint2float_ru uint2float_rz uint_as_float",
    "float32(uint64)": "ull2float_rd ull2float_rn ull2float_ru ull2float_rz",
    "float64(float64)": (
        "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 drcp_rd drcp_rn "
        "drcp_ru drcp_rz dsqrt_rd dsqrt_rn dsqrt_ru dsqrt_rz erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 "
        "fabs floor j0 j1 lgamma log log10 log1p log2 logb nearbyint normcdf normcdfinv rcbrt rcp64h rint round "
        "rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1"
    ),
    "float64(float64, *float64)": "modf",
    "float64(float64, *int32)": "frexp",
    "float64(float64, float64)": (
        "atan2 copysign dadd_rd dadd_rn dadd_ru dadd_rz ddiv_rd ddiv_rn ddiv_ru ddiv_rz dmul_rd dmul_rn dmul_ru "
        "dmul_rz dsub_rd dsub_rn dsub_ru dsub_rz fdim fmax fmin fmod hypot nextafter pow remainder rhypot"
    ),
    "float64(float64, float64, *int32)": "remquo",
    "float64(float64, float64, float64)": "fma fma_rd fma_rn fma_ru fma_rz norm3d rnorm3d",
    "float64(float64, float64, float64, float64)": "norm4d rnorm4d",
    "float64(float64, int32)": "ldexp powi scalbn",
    "float64(int32)": "int2double_rn",
    "float64(int32, float64)": "jn yn",
    "float64(int32, float64[::1])": "norm rnorm",
    "float64(int32, int32)": "hiloint2double",
    "float64(int64)": "ll2double_rd ll2double_rn ll2double_ru ll2double_rz longlong_as_double",
    "float64(uint32)": "uint2double_rn",
    "float64(uint64)": "ull2double_rd ull2double_rn ull2double_ru ull2double_rz",
    "int32(float32)": (
        "finitef float2int_rd float2int_rn float2int_ru float2int_rz float_as_int ilogbf isinff isnanf signbitf"
    ),
    "int32(float64)": (
        "double2hiint double2int_rd double2int_rn double2int_ru double2int_rz double2loint ilogb isfinited isinfd "
        "isnand signbitd"
    ),
    "int32(int32)": "abs clz ffs popc",
    "int32(int32, int32)": "hadd max min mul24 mulhi rhadd",
    "int32(int64)": "clzll ffsll popcll",
    "int64(float32)": "float2ll_rd float2ll_rn float2ll_ru float2ll_rz llrintf llroundf",
    "int64(float64)": "double2ll_rd double2ll_rn double2ll_ru double2ll_rz double_as_longlong llrint llround",
    "int64(int64)": "llabs",
    "int64(int64, int64)": "llmax llmin mul64hi",
    "uint16(float32)": "float2half_rn",
    "uint32(float32)": "float2uint_rd float2uint_rn float2uint_ru float2uint_rz float_as_uint",
    "uint32(float64)": "double2uint_rd double2uint_rn double2uint_ru double2uint_rz",
    "uint32(int32, int32, uint32)": "sad",
    "uint32(uint32)": "brev",
    "uint32(uint32, uint32)": "uhadd umax umin umul24 umulhi urhadd",
    "uint32(uint32, uint32, uint32)": "byte_perm usad",
    "uint64(float32)": "float2ull_rd float2ull_rn float2ull_ru float2ull_rz",
    "uint64(float64)": "double2ull_rd double2ull_rn double2ull_ru double2ull_rz",
    "uint64(uint64)": "brevll",
    "uint64(uint64, uint64)": "ullmax ullmin umul64hi",
    "void(float32, *float32, *float32)": "fast_sincosf sincosf sincospif",
    "void(float64, *float64, *float64)": "sincos sincospi",
}

#: Function -> its signature.
FUNCTIONS: dict[str, LibdeviceSignature] = {
    name: signature
    for text, names in _TABLE.items()
    for signature in (LibdeviceSignature(text),)
    for name in names.split()
}


def _describe(name: str, signature: LibdeviceSignature) -> str:
    results = ", ".join(signature.results)
    shown = f"({results})" if len(signature.results) > 1 else results
    return f"libdevice.{name}({', '.join(signature.arguments)}) -> {shown}: libdevice's __nv_{name}."


libdevice = Namespace(
    "libdevice",
    "NVIDIA's mathematical functions, by their own names: libdevice.sinf(x), libdevice.fadd_rn(a, b) …",
    **{
        name: KernelName(f"libdevice.{name}", _describe(name, signature))
        for name, signature in sorted(FUNCTIONS.items())
    },
)
