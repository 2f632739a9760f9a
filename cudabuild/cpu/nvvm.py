# SPDX-License-Identifier: Apache-2.0
"""What libdevice asks of a GPU, defined for the host: one LLVM function for each ``llvm.nvvm.*`` and PTX snippet.

Before: libdevice's text calls ``@llvm.nvvm.fma.rm.f``. After: it calls ``@nvvm.fma.rm.f``, which is defined here.
Meanings are those of the PTX ISA (chapters "Floating Point Instructions", "Integer Arithmetic Instructions", ``cvt``).

- Directed rounding of float32 is computed in float64: the nearest float32 and the sign of what it lacks say which
  neighbour is right, without a branch, so loops still vectorise. Of float64: the processor's rounding mode is switched.
- Approximations give the rounded result of a float64 computation, not the bits that a GPU's tables hold.
- ``.ftz`` of float32 is the same operation between two flushes; that of float64 is part of the two operations that are
  coarse anyway: their argument and result have 20 bits behind the point.
"""

from __future__ import annotations

import math
import re
from functools import cache
from string import Template

from cudabuild.backend.text import float_literal

__all__ = ["ASSEMBLY", "TABLE", "define"]

#: The PTX that libdevice holds in more than one instruction: the first 16 hexadecimal digits of the SHA-256 of its
#: text, runs of white space as one space -> a name of ``TABLE``.
ASSEMBLY = {
    "22e0e8d627390517": "ptx.mad.wide.u32",
    "cd7b1a0a8753315b": "ptx.select.equ.f64",
    "4b6dea502ec9b2f6": "ptx.add.u128",
    "99f8f8c66a41fae0": "ptx.sub.u128",
    "4727283ba6e824ec": "ptx.mad.wide.u64",
    "c8b678912d98d15b": "ptx.mul.wide.u64",
}

#: Definitions: name -> (result type, parameters, body). Filled below, family by family.
TABLE: dict[str, tuple[str, str, str]] = {}

_MODES = ("rn", "rz", "rm", "rp")
_DIRECTED = ("rz", "rm", "rp")
#: The argument of ``llvm.set.rounding``.
_SWITCH = {"rz": 0, "rp": 2, "rm": 3}
_HEADER = re.compile(r"(\w+) (%\w+)")


def _add(name: str, result: str, parameters: str, body: str, **values: object) -> None:
    TABLE[name] = (result, parameters, Template(body).substitute(values))


def _literal(value: float) -> str:
    return float_literal(value, "double").text


# -- float32, rounded as told

#: ``%q`` is the float32 nearest to a number, ``%t`` has the sign of that number less ``%q`` (NaN or 0: it is exact).
_STEP = """
  $test
  %bits = bitcast float %q to i32
  %negative = icmp slt i32 %bits, 0
  %delta = select i1 %negative, i32 $below, i32 $above
  %step = select i1 %move, i32 %delta, i32 0
  %moved = add i32 %bits, %step
  %r = bitcast i32 %moved to float
  ret float %r"""
_STEPS = {
    "rm": ("%move = fcmp olt double %t, 0.0", 1, -1),
    "rp": ("%move = fcmp ogt double %t, 0.0", -1, 1),
    "rz": (
        "%wide = fpext float %q to double\n"
        "  %side = call double @llvm.copysign.f64(double 1.0, double %wide)\n"
        "  %out = fmul double %side, %t\n  %move = fcmp olt double %out, 0.0",
        -1,
        -1,
    ),
}
#: The number is ``%s + %e``, ``%e`` at most half a unit in the last place of ``%s``.
_ROUND = """
  %q = fptrunc double %s to float
  %wide = fpext float %q to double
  %lack = fsub double %s, %wide
  %t = fadd double %lack, %e
  %r = call float @host.step.$mode(float %q, double %t)
  ret float %r"""
#: ``%x + %y``: the sum and what it lacks. A sum of nothing is −0 where rounding is downward, unless both are +0.
_SUM = """
  %s = fadd double %x, %y
  %v = fsub double %s, %x
  %w = fsub double %s, %v
  %dx = fsub double %x, %w
  %dy = fsub double %y, %v
  %e = fadd double %dx, %dy
  %r = call float @host.round.$mode(double %s, double %e)
  $zero"""
_DOWNWARD_ZERO = """%none = fcmp oeq double %s, 0.0
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %either = or i64 %xb, %yb
  %signed = icmp slt i64 %either, 0
  %minus = and i1 %none, %signed
  %fixed = select i1 %minus, float -0.0, float %r
  ret float %fixed"""

for _mode in _DIRECTED:
    _test, _below, _above = _STEPS[_mode]
    _add(f"host.step.{_mode}", "float", "float %q, double %t", _STEP, test=_test, below=_below, above=_above)
    _add(f"host.round.{_mode}", "float", "double %s, double %e", _ROUND, mode=_mode)
    _zero = _DOWNWARD_ZERO if _mode == "rm" else "ret float %r"
    _add(f"host.sum.{_mode}", "float", "double %x, double %y", _SUM, mode=_mode, zero=_zero)

_WIDEN_TWO = """
  %x = fpext float %a to double
  %y = fpext float %b to double"""
_FLOAT = {
    "add": (2, "%r = call float @host.sum.$mode(double %x, double %y)\n  ret float %r"),
    "sub": (
        2,
        "%minus = fneg double %y\n  %r = call float @host.sum.$mode(double %x, double %minus)\n  ret float %r",
    ),
    "mul": (
        2,
        "%s = fmul double %x, %y\n  %r = call float @host.round.$mode(double %s, double 0.0)\n  ret float %r",
    ),
    "fma": (
        3,
        "%z = fpext float %c to double\n  %s = fmul double %x, %y\n"
        "  %r = call float @host.sum.$mode(double %s, double %z)\n  ret float %r",
    ),
    "div": (
        2,
        """%q = fdiv float %a, %b
  %wide = fpext float %q to double
  %minus = fneg double %wide
  %rest = call double @llvm.fma.f64(double %minus, double %y, double %x)
  %side = call double @llvm.copysign.f64(double 1.0, double %y)
  %t = fmul double %rest, %side
  %r = call float @host.step.$mode(float %q, double %t)
  ret float %r""",
    ),
}
_SQRT = """
  %q = call float @llvm.sqrt.f32(float %a)
  %x = fpext float %a to double
  %wide = fpext float %q to double
  %minus = fneg double %wide
  %t = call double @llvm.fma.f64(double %minus, double %wide, double %x)
  %r = call float @host.step.$mode(float %q, double %t)
  ret float %r"""
#: Rounded to the nearest: what every processor does.
_PLAIN = {
    "add": "fadd $t %a, %b",
    "sub": "fsub $t %a, %b",
    "mul": "fmul $t %a, %b",
    "div": "fdiv $t %a, %b",
    "fma": "call $t @llvm.fma.$n($t %a, $t %b, $t %c)",
    "rcp": "fdiv $t 1.0, %a",
    "sqrt": "call $t @llvm.sqrt.$n($t %a)",
}
#: Floats with the processor's rounding mode switched.
_STRICT = """
  call void @llvm.set.rounding(i32 $switch) strictfp
  %r = call double @llvm.experimental.constrained.$call,
    metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  ret double %r"""
_STRICT_CALLS = {
    "add": "fadd.f64(double %a, double %b",
    "sub": "fsub.f64(double %a, double %b",
    "mul": "fmul.f64(double %a, double %b",
    "div": "fdiv.f64(double %a, double %b",
    "fma": "fma.f64(double %a, double %b, double %c",
    "rcp": "fdiv.f64(double 1.0, double %a",
    "sqrt": "sqrt.f64(double %a",
}
_COUNT = {"rcp": 1, "sqrt": 1, "fma": 3}


def _parameters(type: str, count: int) -> str:
    return ", ".join(f"{type} %{letter}" for letter in "abc"[:count])


for _name, _text in _PLAIN.items():
    _place = "ptx.{}.{}.{}" if _name == "sub" else "nvvm.{}.{}.{}"
    _long = {"f": "f32", "d": "f64"} if _name == "sub" else {"f": "f", "d": "d"}
    _count = _COUNT.get(_name, 2)
    for _type, _letter, _bits in (("float", "f", "f32"), ("double", "d", "f64")):
        _body = f"\n  %r = {_text}\n  ret $t %r"
        _add(_place.format(_name, "rn", _long[_letter]), _type, _parameters(_type, _count), _body, t=_type, n=_bits)
    for _mode in _DIRECTED:
        _where = _place.format(_name, _mode, _long["d"])
        _add(_where, "double", _parameters("double", _count), _STRICT, switch=_SWITCH[_mode], call=_STRICT_CALLS[_name])
        _where = _place.format(_name, _mode, _long["f"])
        if _name == "sqrt":
            _body = _SQRT
        elif _name == "rcp":
            _body = "\n  %r = call float @nvvm.div.$mode.f(float 1.0, float %a)\n  ret float %r"
        else:
            _body = f"{_WIDEN_TWO}\n  {_FLOAT[_name][1]}"
        _add(_where, "float", _parameters("float", _count), _body, mode=_mode)

# -- conversions

for _mode in _MODES:
    _body = (
        "\n  %r = fptrunc double %a to float\n  ret float %r"
        if _mode == "rn"
        else "\n  %r = call float @host.round.$mode(double %a, double 0.0)\n  ret float %r"
    )
    _add(f"nvvm.d2f.{_mode}", "float", "double %a", _body, mode=_mode)
_add("nvvm.f2h.rn", "i16", "float %a", "\n  %h = fptrunc float %a to half\n  %r = bitcast half %h to i16\n  ret i16 %r")

#: A NaN becomes 0 only between float32 and 32 bits, otherwise the number of which the highest bit alone is set.
_TO_INTEGER = """
  %whole = call $t @llvm.$round.$n($t %a)
  %near = call $i @llvm.fpto${sign}i.sat.$i.$n($t %whole)
  %nan = fcmp uno $t %a, 0.0
  %r = select i1 %nan, $i $none, $i %near
  ret $i %r"""
_TO_WHOLE = {"rn": "roundeven", "rz": "trunc", "rm": "floor", "rp": "ceil"}
_INTEGERS = {"i": ("i32", "s"), "ui": ("i32", "u"), "ll": ("i64", "s"), "ull": ("i64", "u")}
_FLOATS = {"f": ("float", "f32"), "d": ("double", "f64")}
for _letter, (_type, _bits) in _FLOATS.items():
    for _kind, (_integer, _sign) in _INTEGERS.items():
        _none = 0 if (_letter, _integer) == ("f", "i32") else -(1 << (int(_integer[1:]) - 1))
        for _mode in _MODES:
            _add(
                f"nvvm.{_letter}2{_kind}.{_mode}", _integer, f"{_type} %a", _TO_INTEGER,
                t=_type, n=_bits, i=_integer, round=_TO_WHOLE[_mode], sign=_sign, none=_none,
            )  # fmt: skip

#: The nearest float of a magnitude, and whether it lies above or below it: back as an integer it is exact.
_FROM_INTEGER = """
  %x = $widen
  %negative = icmp $order i64 %x, 0
  %size = call i64 @llvm.$abs
  %near = uitofp i64 %size to $t
  %back = call i64 @llvm.fptoui.sat.i64.$n($t %near)
  %beyond = fcmp oge $t %near, $top
  %larger = icmp ugt i64 %back, %size
  %over = or i1 %beyond, %larger
  %under = icmp ult i64 %back, %size
  %up = $up
  %down = $down
  %raise = and i1 %under, %up
  %lower = and i1 %over, %down
  %plus = zext i1 %raise to $b
  %minus = sext i1 %lower to $b
  %bits = bitcast $t %near to $b
  %first = add $b %bits, %plus
  %second = add $b %first, %minus
  %moved = bitcast $b %second to $t
  %opposite = fneg $t %moved
  %r = select i1 %negative, $t %opposite, $t %moved
  ret $t %r"""
#: Whether a magnitude is rounded up, and down, by the number's sign.
_UP = {"rz": ("and i1 true, false", "or i1 false, true"), "rm": ("and i1 %negative, true", "xor i1 %negative, true")}
_UP["rp"] = (_UP["rm"][1], _UP["rm"][0])
for _letter, (_type, _bits) in _FLOATS.items():
    for _kind, (_integer, _sign) in _INTEGERS.items():
        _how = "sitofp" if _sign == "s" else "uitofp"
        _body = "\n  %r = $how $i %a to $t\n  ret $t %r"
        _add(f"nvvm.{_kind}2{_letter}.rn", _type, f"{_integer} %a", _body, how=_how, i=_integer, t=_type)
        if (_letter, _integer) == ("d", "i32"):
            continue  # always exact
        for _mode in _DIRECTED:
            _add(
                f"nvvm.{_kind}2{_letter}.{_mode}", _type, f"{_integer} %a", _FROM_INTEGER,
                widen="add i64 %a, 0" if _integer == "i64" else f"{'sext' if _sign == 's' else 'zext'} i32 %a to i64",
                order="slt" if _sign == "s" else "ult",
                abs="abs.i64(i64 %x, i1 false)" if _sign == "s" else "umax.i64(i64 %x, i64 0)",
                t=_type, n=_bits, b=f"i{_bits[1:]}", top=float_literal(2.0**64, _type).text,
                up=_UP[_mode][0], down=_UP[_mode][1],
            )  # fmt: skip

# -- approximations

_ONE_FLOAT = "\n  %x = fpext float %a to double\n  $work\n  %r = fptrunc double %y to float\n  ret float %r"
_add("ptx.rcp.approx.f32", "float", "float %a", "\n  %r = fdiv float 1.0, %a\n  ret float %r")
_add("nvvm.div.approx.f", "float", "float %a, float %b", "\n  %r = fdiv float %a, %b\n  ret float %r")
_add("nvvm.sqrt.approx.f", "float", "float %a", "\n  %r = call float @llvm.sqrt.f32(float %a)\n  ret float %r")
_add(
    "nvvm.rsqrt.approx.f", "float", "float %a", _ONE_FLOAT,
    work="%root = call double @llvm.sqrt.f64(double %x)\n  %y = fdiv double 1.0, %root",
)  # fmt: skip
for _name in ("sin", "cos"):
    _work = f"%y = call double @llvm.{_name}.f64(double %x)"
    _add(f"nvvm.{_name}.approx.f", "float", "float %a", _ONE_FLOAT, work=_work)


def _polynomial(coefficients: list[float], variable: str, result: str) -> str:
    """The lines that compute a polynomial, its highest coefficient first, into ``result``."""
    lines, last = [], _literal(coefficients[0])
    for number, coefficient in enumerate(coefficients[1:], 1):
        name = result if number == len(coefficients) - 1 else f"{result}.{number}"
        lines.append(
            f"{name} = call double @llvm.fma.f64(double {last}, double {variable}, double {_literal(coefficient)})"
        )
        last = name
    return "\n  ".join(lines)


# 2 to the power n + f, n whole and |f| ≤ 1/2: a series for 2**f, its 13 terms right to the last bit, and n added to the
# exponent. n is what adding 3 · 2**51 leaves in the low bits.
_MAGIC = _literal(1.5 * 2.0**52)
_EX2 = f"""%low = fcmp olt double %x, -300.0
  %x1 = select i1 %low, double -300.0, double %x
  %high = fcmp ogt double %x1, 300.0
  %x2 = select i1 %high, double 300.0, double %x1
  %shifted = fadd double %x2, {_MAGIC}
  %n = fsub double %shifted, {_MAGIC}
  %f = fsub double %x2, %n
  {_polynomial([math.log(2.0) ** k / math.factorial(k) for k in range(13, -1, -1)], "%f", "%p")}
  %bits = bitcast double %shifted to i64
  %exponent = add i64 %bits, 1023
  %placed = shl i64 %exponent, 52
  %scale = bitcast i64 %placed to double
  %y = fmul double %p, %scale"""
_add("nvvm.ex2.approx.f32", "float", "float %a", _ONE_FLOAT, work=_EX2)

# log2 of m · 2**k, m between √½ and √2: k and the series of 2 · artanh(s) / ln 2, s = (m − 1) / (m + 1).
_LG2 = f"""%bits = bitcast double %x to i64
  %from.root = sub i64 %bits, {0x3FE6A09E667F3BCD}
  %k64 = ashr i64 %from.root, 52
  %k32 = trunc i64 %k64 to i32
  %k = sitofp i32 %k32 to double
  %exponent = shl i64 %k64, 52
  %m.bits = sub i64 %bits, %exponent
  %m = bitcast i64 %m.bits to double
  %less = fsub double %m, 1.0
  %more = fadd double %m, 1.0
  %s = fdiv double %less, %more
  %s2 = fmul double %s, %s
  {_polynomial([2.0 / math.log(2.0) / (2 * k + 1) for k in range(11, -1, -1)], "%s2", "%p")}
  %y0 = call double @llvm.fma.f64(double %s, double %p, double %k)
  %zero = fcmp oeq double %x, 0.0
  %y1 = select i1 %zero, double {_literal(-math.inf)}, double %y0
  %negative = fcmp olt double %x, 0.0
  %y2 = select i1 %negative, double {_literal(math.nan)}, double %y1
  %large = fcmp ueq double %x, {_literal(math.inf)}
  %y = select i1 %large, double %x, double %y2"""
_add("nvvm.lg2.approx.f", "float", "float %a", _ONE_FLOAT, work=_LG2)

# 1 / √x, once corrected by what it lacks.
_RSQRT = """
  %root = call double @llvm.sqrt.f64(double %a)
  %y = fdiv double 1.0, %root
  %h = fmul double %a, %y
  %h.minus = fneg double %h
  %h.rest = call double @llvm.fma.f64(double %a, double %y, double %h.minus)
  %lack = call double @llvm.fma.f64(double %h.minus, double %y, double 1.0)
  %rest.minus = fneg double %h.rest
  %lacks = call double @llvm.fma.f64(double %rest.minus, double %y, double %lack)
  %half = fmul double %y, 0.5
  %better = call double @llvm.fma.f64(double %half, double %lacks, double %y)
  %special = fcmp uno double %better, 0.0
  %r = select i1 %special, double %y, double %better
  ret double %r"""
_add("nvvm.rsqrt.approx.d", "double", "double %a", _RSQRT)

_COARSE = """
  %bits = bitcast double %a to i64
  %upper = and i64 %bits, -4294967296
  %x0 = bitcast i64 %upper to double
  %x = call double @host.flush.f64(double %x0)
  $work
  %ybits = bitcast double %y to i64
  %last = lshr i64 %ybits, 32
  %odd = and i64 %last, 1
  %biased = add i64 %ybits, 2147483647
  %rounded = add i64 %biased, %odd
  %kept = and i64 %rounded, -4294967296
  %r0 = bitcast i64 %kept to double
  %r = call double @host.flush.f64(double %r0)
  ret double %r"""
_add("nvvm.rcp.approx.ftz.d", "double", "double %a", _COARSE, work="%y = fdiv double 1.0, %x")
_add(
    "ptx.rsqrt.approx.ftz.f64", "double", "double %a", _COARSE,
    work="%root = call double @llvm.sqrt.f64(double %x)\n  %y = fdiv double 1.0, %root",
)  # fmt: skip

# -- what has no rounding

_FLUSH = """
  %size = call $t @llvm.fabs.$n($t %a)
  %small = fcmp olt $t %size, $least
  %zero = call $t @llvm.copysign.$n($t 0.0, $t %a)
  %r = select i1 %small, $t %zero, $t %a
  ret $t %r"""
_GENERIC = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven"}
for _letter, (_type, _bits) in _FLOATS.items():
    _least = float_literal(2.0**-126 if _letter == "f" else 2.0**-1022, _type).text
    _add(f"host.flush.{_bits}", _type, f"{_type} %a", _FLUSH, t=_type, n=_bits, least=_least)
    for _name, _generic in [*_GENERIC.items(), ("fabs", "fabs")]:
        _full = f"nvvm.{_name}.{_bits if _name == 'fabs' else _letter}"
        _body = "\n  %r = call $t @llvm.$g.$n($t %a)\n  ret $t %r"
        _add(_full, _type, f"{_type} %a", _body, t=_type, n=_bits, g=_generic)
    for _name, _generic in (("fmin", "minimumnum"), ("fmax", "maximumnum")):
        _body = "\n  %r = call $t @llvm.$g.$n($t %a, $t %b)\n  ret $t %r"
        _add(f"nvvm.{_name}.{_letter}", _type, _parameters(_type, 2), _body, t=_type, n=_bits, g=_generic)
_SATURATE = """
  %positive = fcmp ogt float %a, 0.0
  %x = select i1 %positive, float %a, float 0.0
  %below = fcmp olt float %x, 1.0
  %r = select i1 %below, float %x, float 1.0
  ret float %r"""
_add("nvvm.saturate.f", "float", "float %a", _SATURATE)

_HIGH = """
  %x = $e $i %a to $w
  %y = $e $i %b to $w
  %product = mul $w %x, %y
  %upper = lshr $w %product, $half
  %r = trunc $w %upper to $i
  ret $i %r"""
for _kind, (_integer, _sign) in _INTEGERS.items():
    _half = int(_integer[1:])
    _add(
        f"nvvm.mulhi.{_kind}", _integer, _parameters(_integer, 2), _HIGH,
        e=_sign.replace("s", "sext").replace("u", "zext"), i=_integer, w=f"i{2 * _half}", half=_half,
    )  # fmt: skip
_SAD = """
  %less = icmp ${sign}lt i32 %a, %b
  %up = sub i32 %b, %a
  %down = sub i32 %a, %b
  %apart = select i1 %less, i32 %up, i32 %down
  %r = add i32 %apart, %c
  ret i32 %r"""
_add("nvvm.sad.i", "i32", _parameters("i32", 3), _SAD, sign="s")
_add("nvvm.sad.ui", "i32", _parameters("i32", 3), _SAD, sign="u")

# Four bits of %c choose a byte of %b and %a; the highest of them asks for that byte's sign instead.
_BYTE = """
  %c$n = lshr i32 %c, $shift
  %index$n = and i32 %c$n, 7
  %at$n = shl i32 %index$n, 3
  %wide$n = zext i32 %at$n to i64
  %moved$n = lshr i64 %both, %wide$n
  %byte$n = trunc i64 %moved$n to i8
  %sign$n = ashr i8 %byte$n, 7
  %asked$n = and i32 %c$n, 8
  %plain$n = icmp eq i32 %asked$n, 0
  %got$n = select i1 %plain$n, i8 %byte$n, i8 %sign$n
  %placed$n = insertelement <4 x i8> $before, i8 %got$n, i32 $n"""
_PRMT = """
  %first = zext i32 %a to i64
  %second = zext i32 %b to i64
  %upper = shl i64 %second, 32
  %both = or i64 %upper, %first"""
for _n in range(4):
    _before = "poison" if _n == 0 else f"%placed{_n - 1}"
    _PRMT += Template(_BYTE).substitute(n=_n, shift=4 * _n, before=_before)
_add("nvvm.prmt", "i32", _parameters("i32", 3), _PRMT + "\n  %r = bitcast <4 x i8> %placed3 to i32\n  ret i32 %r")

_PAIR = """
  %l = trunc $w %whole to $i
  %upper = lshr $w %whole, $bits
  %h = trunc $w %upper to $i
  %r0 = insertvalue { $i, $i } poison, $i %l, 0
  %r = insertvalue { $i, $i } %r0, $i %h, 1
  ret { $i, $i } %r"""
_WHOLE = """
  %p.low = zext $i %$low to $w
  %p.high = zext $i %$high to $w
  %p.up = shl $w %p.high, $bits
  %$name = or $w %p.up, %p.low"""


def _add_wide(name: str, integer: str, count: int, work: str) -> None:
    bits = int(integer[1:])
    parameters = ", ".join(f"{integer} %{letter}" for letter in "abcd"[:count])
    _add(name, f"{{ {integer}, {integer} }}", parameters, work + _PAIR, i=integer, w=f"i{2 * bits}", bits=bits)


_PRODUCT = """
  %x = zext $i %a to $w
  %y = zext $i %b to $w
  """
_MAD = _PRODUCT + "%product = mul $w %x, %y\n  %z = zext $i %c to $w\n  %whole = add $w %product, %z"
_add_wide("ptx.mul.wide.u64", "i64", 2, _PRODUCT + "%whole = mul $w %x, %y")
_add_wide("ptx.mad.wide.u32", "i32", 3, _MAD)
_add_wide("ptx.mad.wide.u64", "i64", 3, _MAD)
_TWO = "".join(
    Template(_WHOLE.replace("%p.", f"%{name}.")).safe_substitute(low=low, high=high, name=name)
    for name, low, high in (("x", "a", "b"), ("y", "c", "d"))
)
for _name in ("add", "sub"):
    _add_wide(f"ptx.{_name}.u128", "i64", 4, f"{_TWO}\n  %whole = {_name} $w %x, %y")

_add(
    "nvvm.lohi.i2d", "double", "i32 %a, i32 %b",
    "\n  %l = zext i32 %a to i64\n  %h = zext i32 %b to i64\n  %up = shl i64 %h, 32\n  %bits = or i64 %up, %l\n"
    "  %r = bitcast i64 %bits to double\n  ret double %r",
)  # fmt: skip
for _name, _shift in (("lo", 0), ("hi", 32)):
    _body = "\n  %bits = bitcast double %a to i64\n  %part = lshr i64 %bits, $n\n  %r = trunc i64 %part to i32"
    _add(f"nvvm.d2i.{_name}", "i32", "double %a", _body + "\n  ret i32 %r", n=_shift)
_add(
    "ptx.bfind.shiftamt.u32", "i32", "i32 %a",
    "\n  %n = call i32 @llvm.ctlz.i32(i32 %a, i1 false)\n  %none = icmp eq i32 %a, 0\n"
    "  %r = select i1 %none, i32 -1, i32 %n\n  ret i32 %r",
)  # fmt: skip
_add(
    "ptx.select.equ.f64", "double", "double %a, double %b, double %c, double %d",
    "\n  %same = fcmp ueq double %a, %b\n  %r = select i1 %same, double %c, double %d\n  ret double %r",
)  # fmt: skip


#: Shifts as PTX defines them ("Logic and Shift Instructions": counts above the width are clamped to it); LLVM's have
#: no defined result there, and libdevice counts on PTX's: a scalar ``pow(-1.5, 2.0**63)`` came out negative.
_SHIFT = """
  %near = icmp ult $t %b, $n
  %count = and $t %b, $last
  %moved = $how $t %a, %count
  %r = select i1 %near, $t %moved, $t 0
  ret $t %r"""
for _n in (32, 64):
    for _kind, _how in (("shl", "shl"), ("shr", "lshr")):
        _add(f"ptx.{_kind}.b{_n}", f"i{_n}", f"i{_n} %a, i{_n} %b", _SHIFT, t=f"i{_n}", n=_n, last=_n - 1, how=_how)


@cache
def define(name: str) -> tuple[str, tuple[str, ...]] | None:
    """The LLVM text that defines ``name``, and the names of this table that it calls; None for an unknown name.

    Args:
        name: ``nvvm.`` and an intrinsic's name without ``llvm.nvvm.``, or ``ptx.`` and an instruction.
    """
    if name not in TABLE and ".ftz" in name:
        return _define_flushed(name)
    if name not in TABLE:
        return None
    result, parameters, body = TABLE[name]
    # A function that switches the rounding mode must not mix with its caller, which believes in the usual one.
    attributes = "noinline nounwind strictfp" if "llvm.set.rounding" in body else "alwaysinline nounwind"
    needs = tuple(dict.fromkeys(re.findall(r"@((?:host|nvvm|ptx)\.[\w.]+)", body)))
    return f"define internal {result} @{name}({parameters}) {attributes} {{{body}\n}}\n", needs


def _define_flushed(name: str) -> tuple[str, tuple[str, ...]] | None:
    """An operation between flushes of its float32 arguments and result to zeros of the same sign."""
    base = name.replace(".ftz", "")
    if base not in TABLE:
        return None
    result, parameters, _ = TABLE[base]
    lines, arguments = [], []
    for type, value in _HEADER.findall(parameters):
        flush = type == "float"
        arguments.append(f"{type} {value}{'.0' if flush else ''}")
        if flush:
            lines.append(f"  {value}.0 = call float @host.flush.f32(float {value})")
    lines.append(f"  %r = call {result} @{base}({', '.join(arguments)})")
    last = "%r"
    if result == "float":
        last = "%r.0"
        lines.append("  %r.0 = call float @host.flush.f32(float %r)")
    lines.append(f"  ret {result} {last}")
    text = "\n".join([f"define internal {result} @{name}({parameters}) alwaysinline nounwind {{", *lines, "}\n"])
    return text, (base, "host.flush.f32")
