# SPDX-License-Identifier: Apache-2.0
"""Random expressions of a wanted type, from what a scope has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from program_meaning import COMPLEX, INTEGERS, PARTS
from program_rules import Rules, is_float, is_integer, is_weak
from program_scope import COMPARISONS, DYADIC, EDGES, FLOAT_TEXTS, NEAR, SYMBOLS, Callable_, Scope, View, cast
from program_tree import Expr

__all__ = ["Expressions"]


class Expressions:
    """Makes expressions; ``scope`` is the one at hand.

    Args:
        random: every choice goes through it.
        rules: the dialect.
        pool: the types of this program.
        wild: whether constants come near the types' limits.
        plain: whether to do without what means something else to Python, such as ``math``'s functions of a float32.
    """

    def __init__(self, random: Any, rules: Rules, pool: Sequence[str], wild: bool, plain: bool = False) -> None:
        self.random = random
        self.rules = rules
        self.pool = list(pool)
        self.wild = wild
        self.plain = plain
        self.scope = Scope()
        self.functions: list[Callable_] = []
        self.pairs = self._find_pairs()

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self.random.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        return bool(self.random.randrange(100) < percent)

    def _find_pairs(self) -> dict[str, list[tuple[str, str, str]]]:
        """type -> the operations on two types of the pool that give it."""
        kinds = [*self.pool, *(kind for kind in ("bool", "float") if kind == "bool" or self.rules.weak)]
        found: dict[str, list[tuple[str, str, str]]] = {}
        for op in (*SYMBOLS, "min", "max"):
            for left in kinds:
                for right in kinds:
                    kind = self.rules.result(op, left, right)
                    if kind is None or kind == "float" or (is_weak(left) and right == "float"):
                        continue
                    if not self.plain or not self._differs(op, left, right):
                        found.setdefault(kind, []).append((op, left, right))
        return found

    @staticmethod
    def _differs(op: str, left: str, right: str) -> bool:
        """Whether NumPy's bools, or Python's ``min`` of two types, give something else."""
        if op in ("min", "max"):
            return left != right
        if (left in COMPLEX) != (right in COMPLEX):
            return True
        alone = left == right or is_weak(left) or is_weak(right)
        return "bool" in (left, right) and alone and op not in ("and", "or", "xor")

    # any type

    def expr(self, kind: str, depth: int) -> Expr:
        """An expression of exactly this type."""
        if kind == "float":
            return self.weak_float(depth)
        if depth <= 0 or self.chance(22):
            return self.leaf(kind, max(depth, 0))
        forms = self._forms(kind)
        found = self.choose(forms)(kind, depth - 1)
        return self.leaf(kind, depth) if self.plain and "!" in found.tag else found

    def _forms(self, kind: str) -> list[Callable[[str, int], Expr]]:
        if kind == "bool":
            return [self.comparison, self.comparison, self.logic, self.chain, self.truth, self.ternary]
        forms: list[Callable[[str, int], Expr]] = [self.ternary, self.cast]
        if self.pairs.get(kind):
            forms += [self.binary] * 5
        forms += [self.call] * 2
        if kind not in COMPLEX:
            forms.append(self.either)
        if is_integer(kind):
            forms += [self.unary, self.unary, self.power, self.absolute]
            if kind == self.rules.integer:
                forms += [self.whole, self.whole, self.length, self.counted_bits]
            if kind in ("int32", "int64", "uint32", "uint64"):
                forms.append(self.bits)
        if is_float(kind):
            forms += [self.unary, self.absolute, self.exact_function, self.exact_function, self.part]
            if kind != "float16" or self.rules.weak:
                forms.append(self.power)
        if kind in COMPLEX:
            forms += [self.make_complex, self.unary, self.conjugate]
        return forms

    def leaf(self, kind: str, depth: int = 0) -> Expr:
        known = {**self.scope.variables, **self.scope.readable}
        names = [name for name, other in known.items() if other == kind]
        steady = [name for name, (other, _, _) in self.scope.steady.items() if other == kind]
        views = [view for view in self.scope.views if view.kind == kind]
        options = [*(["variable"] * 3 if names else []), *(["load"] * 3 if views else [])]
        options += [*(["steady"] * 2 if steady else []), "literal"]
        form = self.choose(options)
        if form == "variable":
            name = self.choose(names)
            return Expr(kind, name, name)
        if form == "steady":
            name = self.choose(steady)
            return Expr(kind, name, name)
        if form == "load":
            return self.load(self.choose(views), depth)
        return self.literal(kind)

    def literal(self, kind: str) -> Expr:
        if kind == "bool":
            value = self.choose(("True", "False"))
            return Expr(kind, value, value)
        if kind in COMPLEX:
            real, imag = self.choose(DYADIC), self.choose(DYADIC[:2])
            part = PARTS[kind]
            meaning = f"(float_to_{part}(np.float64({real})), float_to_{part}(np.float64({imag})))"
            return Expr(kind, f"{kind}({real} + {imag}j)", meaning)
        if is_float(kind):
            text = self.choose(FLOAT_TEXTS)
            plain = kind == self.rules.floating
            source = text if plain else f"{self.spelled(kind)}({text})"
            return Expr(kind, f"({source})" if source[0] == "-" else source, f"float_to_{kind}(np.float64({text}))")
        value = self.integer_value(kind)
        source = str(value) if kind == self.rules.integer else f"{self.spelled(kind)}({value})"
        return Expr(kind, f"({source})" if source[0] == "-" else source, str(value))

    def integer_value(self, kind: str) -> int:
        low, high = -9, 9
        bits = 64 if kind == "int" else int(kind.lstrip("uint"))
        least = 0 if kind[0] == "u" else -(1 << (bits - 1)) + 1
        most = min((1 << (bits - (kind[0] != "u"))) - 1, (1 << 63) - 1)
        if self.wild and self.chance(25) and kind != "int":
            value = self.choose(EDGES) * self.choose((1, -1))
        else:
            value = self.random.randrange(low, high + 1)
        return max(least, min(most, value))

    def spelled(self, kind: str) -> str:
        """A type called as a cast."""
        return kind if kind == "bfloat16" or self.chance(50) else f"np.{kind}"

    def weak_float(self, depth: int) -> Expr:
        """Small dyadic numbers: the same in whatever type they are wanted."""
        steady = [name for name, (kind, _, most) in self.scope.steady.items() if kind == "int" and most < 64]
        if depth <= 0 or not steady or self.chance(40):
            text = self.choose(DYADIC)
            return Expr("float", f"({text})" if text[0] == "-" else text, f"np.float64({text})", tag="weak-float")
        name, text = self.choose(steady), self.choose(DYADIC)
        number = Expr("int", name, name)
        op = self.choose(("add", "sub", "mul"))
        if self.chance(30):
            return Expr("float", "({} / 4)", "div_float(int_to_float({}), np.float64(4))", [number], "div weak-float")
        if self.chance(50):
            meaning = f"{op}_float(int_to_float({{}}), np.float64({text}))"
            return Expr("float", f"({{}} {SYMBOLS[op]} {text})", meaning, [number], f"{op} weak-float")
        meaning = f"{op}_float(np.float64({text}), int_to_float({{}}))"
        return Expr("float", f"({text} {SYMBOLS[op]} {{}})", meaning, [number], f"{op} weak-float")

    def operand(self, kind: str, depth: int, beside: str) -> Expr:
        return (
            self.weak_float(0 if beside in ("float16", "bfloat16") else depth)
            if kind == "float"
            else self.expr(kind, depth)
        )

    def binary(self, kind: str, depth: int) -> Expr:
        op, left, right = self.choose(self.pairs[kind])
        a, b = self.operand(left, depth, right), self.operand(right, depth, left)
        return self.apply(op, a, b, kind)

    def apply(self, op: str, a: Expr, b: Expr, kind: str) -> Expr:
        """``a op b``, whose type is ``kind``."""
        tag = op + "!" * self._differs(op, a.kind, b.kind)
        if self.plain and op in ("floordiv", "mod") and a.kind == b.kind == "int":
            b = Expr("int", "({} | 1)", "or_int({}, 1)", [b], "or")  # Python has no result for a division by zero
        if op in ("min", "max"):
            return Expr(
                kind,
                f"{op}({{}}, {{}})",
                f"{self.rules.extreme(op, kind)}({{}}, {{}})",
                [cast(a, kind), cast(b, kind)],
                tag,
            )
        if kind == "bool":
            return Expr(kind, f"({{}} {SYMBOLS[op]} {{}})", f"({{}} {SYMBOLS[op]} {{}})", [a, b], tag)
        if kind in COMPLEX and not (a.kind in COMPLEX and b.kind in COMPLEX):
            side = "left" if b.kind in COMPLEX else "right"
            parts = [x if x.kind in COMPLEX else cast(x, PARTS[kind]) for x in (a, b)]
            parts = [cast(x, kind) if x.kind in COMPLEX else x for x in parts]
            return Expr(kind, f"({{}} {SYMBOLS[op]} {{}})", f"{op}_{side}_{kind}({{}}, {{}})", parts, tag)
        if op in ("shl", "shr"):
            return Expr(
                kind, f"({{}} {SYMBOLS[op]} {{}})", f"{op}_{kind}({{}}, {{}})", [cast(a, kind), self._count(b)], tag
            )
        return Expr(kind, f"({{}} {SYMBOLS[op]} {{}})", f"{op}_{kind}({{}}, {{}})", [cast(a, kind), cast(b, kind)], tag)

    def _count(self, count: Expr) -> Expr:
        """Mostly within the width."""
        if self.wild and self.chance(30):
            return count
        kind = self.rules.result("and", count.kind, self.rules.integer) or count.kind
        count = cast(count, kind)
        return Expr(kind, "({} & 7)", f"and_{kind}({{}}, 7)", [count], "and")

    def combined(self, op: str, left: str, meaning: str, right: Expr, kind: str, target: str) -> Expr:
        """What stands right of ``op=``: its meaning is all that the statement assigns.

        Args:
            op: the operation.
            left, meaning: the target's type before, and its value in the oracle.
            right: the operand.
            kind, target: the type of the operation, and the target's.
        """
        whole = self.apply(op, Expr(left, meaning, meaning), right, kind)
        template = whole.meaning.format(whole.parts[0].as_meaning(), "{}")
        if kind != target:
            template = f"{kind}_to_{target}({template})"
        return Expr(target, "{}", template, [whole.parts[1]], whole.tag, True)

    def unary(self, kind: str, depth: int) -> Expr:
        op = self.choose(("neg", "inv")) if is_integer(kind) else "neg"
        source = kind
        if not self.rules.weak and is_integer(kind):
            if kind not in ("int64", "uint64"):
                return self.leaf(kind)
            source = self.choose(
                [k for k in self.pool if is_integer(k) and (k[0] == "u") == (kind[0] == "u")] or [kind]
            )
        part = cast(self.expr(source, depth), kind)
        return Expr(kind, f"({'-' if op == 'neg' else '~'}{{}})", f"{op}_{kind}({{}})", [part], op)

    def absolute(self, kind: str, depth: int) -> Expr:
        return Expr(kind, "abs({})", f"abs_{kind}({{}})", [self.expr(kind, depth)], "abs")

    def power(self, kind: str, depth: int) -> Expr:
        part = self.expr(kind, depth)
        if not self.rules.weak and kind not in ("int64", "uint64", "float32", "float64"):
            return part
        if kind == "uint64" and not self.rules.weak:
            return part
        if is_integer(kind) and self.chance(35):
            integer = self.rules.integer
            exponent = Expr(integer, "({} & 3)", f"and_{integer}({{}}, 3)", [self.expr(integer, depth)], "and", True)
            return Expr(kind, "({} ** {})", f"pow_{kind}({{}}, {{}})", [part, exponent], "pow-variable")
        name = self._bound(part)
        if is_integer(kind) and self.chance(50):
            meaning = f"mul_{kind}({{0}}, mul_{kind}({{0}}, {{0}}))"
            return Expr(kind, "{0}**3", meaning, [name], "pow") if name else part
        tag = "pow" + "!" * is_float(kind)
        return Expr(kind, "({0}**2)", f"mul_{kind}({{0}}, {{0}})", [name], tag) if name else part

    def _bound(self, part: Expr) -> Expr | None:
        """A part that the oracle may name twice: a variable."""
        return part if part.source.isidentifier() and not part.parts else None

    def ternary(self, kind: str, depth: int) -> Expr:
        parts = [self.expr(kind, depth), self.expr("bool", depth), self.expr(kind, depth)]
        mixed = self.rules.weak and not self.plain and not is_weak(kind) and (is_integer(kind) or is_float(kind))
        if mixed and self.chance(25):  # a Python number on one way takes the type of the other
            place = self.choose((0, 2))
            parts[place] = cast(self.expr("int", depth), kind)
            parts[1] = self.late_condition(depth)
            return Expr(kind, "({} if {} else {})", "({} if {} else {})", parts, "ternary!")
        return Expr(kind, "({} if {} else {})", "({} if {} else {})", parts, "ternary")

    def late_condition(self, depth: int) -> Expr:
        """A condition that no compiler knows: of a known one, the way that is not taken has no say in the type."""
        return Expr("bool", "((cuda.threadIdx.x >= 0) == {})", "{}", [self.expr("bool", depth)], "compare")

    def either(self, kind: str, depth: int) -> Expr:
        """``a and b``, one of the two; or the smallest of three."""
        if self.chance(30):
            name = self.choose(("min", "max"))
            word = self.rules.extreme(name, kind)
            parts = [self.expr(kind, depth - 1) for _ in range(3)]
            return Expr(kind, f"{name}({{}}, {{}}, {{}})", f"{word}({word}({{}}, {{}}), {{}})", parts, name)
        word = self.choose(("and", "or"))
        text = f"({{}} {word} {{}})"
        return Expr(kind, text, text, [self.expr(kind, depth), self.expr(kind, depth)], "value-of-logic")

    def cast(self, kind: str, depth: int) -> Expr:
        if kind in COMPLEX:
            sources = [k for k in self.pool if k != kind and k != "bfloat16"]
        else:
            sources = [k for k in (*self.pool, "bool") if k not in COMPLEX]
        part = self.expr(self.choose(sources or [kind]), depth)
        if kind == "int":
            return Expr(kind, "int({})", f"{part.kind}_to_int({{}})", [part], "cast")
        if part.kind == kind:
            return Expr(kind, f"{self.spelled(kind)}({{}})", "{}", [part], "cast")
        return Expr(kind, f"{self.spelled(kind)}({{}})", f"{part.kind}_to_{kind}({{}})", [part], "cast")

    # integers

    def whole(self, kind: str, depth: int) -> Expr:
        """Python's roundings to an integer."""
        floats = [k for k in self.pool if is_float(k)]
        if not floats or not self.rules.weak:
            return self.leaf(kind)
        source = self.choose(floats)
        part = self.expr(source, depth)
        form, op = self.choose(
            (("int", ""), ("round", "rint"), ("math.floor", "floor"), ("math.ceil", "ceil"), ("math.trunc", "trunc"))
        )
        inside = f"{op}_{source}({{}})" if op else "{}"
        tag = form.rpartition(".")[2] + "!" * (source == "bfloat16" or op == "trunc")
        return Expr(kind, f"{form}({{}})", f"{source}_to_int({inside})", [part], tag)

    def length(self, kind: str, depth: int) -> Expr:
        if not self.scope.views:
            return self.leaf(kind)
        view = self.choose(self.scope.views)
        axis = self.random.randrange(len(view.shape))
        text = self.choose(
            (f"len({view.name})", f"{view.name}.shape[{axis}]", f"{view.name}.size", f"{view.name}.shape[-1]")
        )
        return Expr(kind, text, text, tag="length")

    def bits(self, kind: str, depth: int) -> Expr:
        if self.chance(70) if self.rules.weak else kind[0] != "u":  # numba's bits are unsigned
            return self.leaf(kind)
        return Expr(kind, "cuda.brev({})", f"brev_{kind}({{}})", [self.expr(kind, depth)], "brev")

    def counted_bits(self, kind: str, depth: int) -> Expr:
        """``popc`` and ``clz``, whose result is a Python number; numba's has the argument's type."""
        sources = [k for k in self.pool if k in ("int32", "int64", "uint32", "uint64")]
        if not self.rules.weak:
            sources = [k for k in sources if k == kind]
        if not sources:
            return self.leaf(kind, depth)
        source, name = self.choose(sources), self.choose(("popc", "clz"))
        return Expr(kind, f"cuda.{name}({{}})", f"{name}_{source}({{}})", [self.expr(source, depth)], name)

    # floats

    def exact_function(self, kind: str, depth: int) -> Expr:
        if kind == "bfloat16" or (kind == "float16" and not self.rules.weak):
            return self.leaf(kind)
        form = self.choose(
            (
                "np.sqrt",
                "math.sqrt",
                "np.floor",
                "np.ceil",
                "np.trunc",
                "np.rint",
                "math.fabs",
                "copysign",
                "fmod",
                "fma",
            )
        )
        module, _, name = form.rpartition(".")
        if name == "fma" and kind in ("float32", "float64"):
            return Expr(
                kind,
                "cuda.fma({}, {}, {})",
                f"fma_{kind}({{}}, {{}}, {{}})",
                [self.expr(kind, depth) for _ in range(3)],
                "fma!",
            )
        if name in ("copysign", "fmod", "fma"):
            name = "copysign" if name == "fma" else name
            parts = [self.expr(kind, depth), self.expr(kind, depth)]
            if name == "copysign":
                parts[1] = self.not_nan(parts[1])
            return Expr(kind, f"math.{name}({{}}, {{}})", f"{name}_{kind}({{}}, {{}})", parts, name + "!")
        op = {"fabs": "abs"}.get(name, name)
        return Expr(
            kind, f"{form}({{}})", f"{op}_{kind}({{}})", [self.expr(kind, depth)], name + "!" * (module == "math")
        )

    def not_nan(self, part: Expr) -> Expr:
        """A number with the sign of ``part``, or of a constant where that is NaN: machines give NaN either sign."""
        op, kind = self.choose(("min", "max")), part.kind
        word = self.rules.extreme(op, kind)
        return Expr(kind, f"{op}({{}}, {{}})", f"{word}({{}}, {{}})", [self.literal(kind), part], op)

    def near(self, kind: str, depth: int) -> tuple[Expr, str]:
        """A function that is not exact, and its name in the table of error bounds."""
        name = self.choose(list(NEAR))
        numpy, count, bound = NEAR[name]
        source = f"math.{name}" if self.chance(50) and not self.plain else f"np.{numpy}"
        parts = [self.expr(kind, depth) for _ in range(count)]
        places = ", ".join(["{}"] * count)
        tag = name + "!" * source.startswith("math")
        return Expr(kind, f"{source}({places})", f"{numpy}_{kind}({places})", parts, tag), bound

    def part(self, kind: str, depth: int) -> Expr:
        sources = [k for k in self.pool if PARTS.get(k) == kind]
        if not sources:
            return self.leaf(kind)
        source, name = self.choose(sources), self.choose(("real", "imag"))
        return Expr(kind, f"({{}}).{name}", f"{name}_{source}({{}})", [self.expr(source, depth)], name)

    def make_complex(self, kind: str, depth: int) -> Expr:
        part = PARTS[kind]
        if part not in self.pool:
            return self.leaf(kind)
        parts = [self.expr(part, depth), self.expr(part, depth)]
        return Expr(kind, f"{kind}(complex({{}}, {{}}))", f"make_{kind}({{}}, {{}})", parts, "complex!")

    def conjugate(self, kind: str, depth: int) -> Expr:
        return Expr(kind, "({}).conjugate()", f"conj_{kind}({{}})", [self.expr(kind, depth)], "conjugate")

    # conditions

    def comparison(self, kind: str, depth: int) -> Expr:
        reals = [k for k in (*self.pool, "bool") if k not in COMPLEX]
        left, right = self.choose(reals), self.choose(reals)
        if self.rules.weak and is_float(left) and self.chance(20):
            right = "float"
        a, b = self.expr(left, depth), self.operand(right, depth, left)
        return (
            self.compare(self.choose(COMPARISONS), a, b)
            or self.compare("<", a, self.expr(left, depth))
            or self.truth(kind, depth)
        )

    def compare(self, symbol: str, a: Expr, b: Expr) -> Expr | None:
        met = self.compared(a, b)
        if met is None:
            return None
        return Expr("bool", f"({{}} {symbol} {{}})", f"bool({{}} {symbol} {{}})", list(met), "compare")

    def compared(self, a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
        """Both in the type in which they are compared: integers and bools with their exact values."""
        exact = ("bool", *INTEGERS)
        if a.kind in exact and b.kind in exact:
            return a, b
        kind = self.rules.result("cmp", a.kind, b.kind)
        return None if kind is None else (cast(a, kind), cast(b, kind))

    def chain(self, kind: str, depth: int) -> Expr:
        """``a < b <= c``; all of one type, which is compared as it is."""
        reals = [k for k in self.pool if k not in COMPLEX]
        source = self.choose(reals)
        parts = [self.expr(source, depth - 1) for _ in range(3)]
        first, second = self.choose(COMPARISONS), self.choose(COMPARISONS)
        text = f"({{}} {first} {{}} {second} {{}})"
        return Expr("bool", text, f"bool{text}", parts, "chain")

    def logic(self, kind: str, depth: int) -> Expr:
        form = self.choose(("and", "or", "not", "and", "or", "&", "|", "^"))
        if form == "not":
            return Expr("bool", "(not {})", "(not {})", [self.expr("bool", depth)], "not")
        parts = [self.expr("bool", depth), self.expr("bool", depth)]
        return Expr("bool", f"({{}} {form} {{}})", f"({{}} {form} {{}})", parts, "logic")

    def truth(self, kind: str, depth: int) -> Expr:
        sources = [k for k in self.pool if k not in COMPLEX]
        source = self.choose(sources)
        floats = [k for k in sources if is_float(k)]
        if floats and self.chance(40):
            source = self.choose(floats)
            name = self.choose(("isnan", "isinf"))
            tag = name + "!" * (source == "bfloat16")
            return Expr("bool", f"math.{name}({{}})", f"{name}_{source}({{}})", [self.expr(source, depth)], tag)
        return Expr("bool", "bool({})", f"{source}_to_bool({{}})", [self.expr(source, depth)], "bool")

    # arrays and calls

    def index(self, extent: int | None, depth: int, name: str = "", axis: int = 0) -> Expr:
        """Within an axis of ``extent`` elements; loads nothing where ``depth`` is negative."""
        integer = self.rules.integer
        if depth < 0 and extent is None:
            return Expr(integer, "0", "0", tag="index", fixed=True)
        if extent is None:
            inner = self.expr(integer, depth)
            return Expr(
                integer, f"({{}} % {name}.shape[{axis}])", f"({{}} % {name}.shape[{axis}])", [inner], "index", True
            )
        steady = [k for k, (_, low, high) in self.scope.steady.items() if -extent <= low and high < extent]
        computed = ("mod", "mod", "negative") if depth >= 0 else ()
        form = self.choose(("constant", *computed, *(["steady"] * 5 if steady else [])))
        if form == "constant":
            text = str(self.random.randrange(-extent, extent))
            return Expr(integer, text, text, tag="index", fixed=True)
        if form == "steady":
            text = self.choose(steady)
            return Expr(self.scope.steady[text][0], text, text, tag="index", fixed=True)
        kinds = [k for k in self.pool if is_integer(k)] or [integer]
        kind = self.choose(kinds)
        met = self.rules.result("mod", kind, integer)
        if met is None or not is_integer(met):
            kind = met = integer
        inner = cast(self.expr(kind, depth), met)
        if form == "negative" and met == integer:
            return Expr(
                met, f"(-1 - {{}} % {extent})", f"(-1 - mod_{met}({{}}, {extent}))", [inner], "negative-index", True
            )
        return Expr(met, f"({{}} % {extent})", f"mod_{met}({{}}, {extent})", [inner], "index", True)

    def indices(self, view: View, depth: int) -> list[Expr]:
        own = Expr(self.rules.integer, "i", "i")
        return [
            own if axis == view.own else self.index(extent, depth, view.name, axis)
            for axis, extent in enumerate(view.shape)
        ]

    def load(self, view: View, depth: int) -> Expr:
        parts = self.indices(view, depth - 1)
        places = ", ".join(["{}"] * len(parts))
        return Expr(view.kind, f"{view.name}[{places}]", f"load_{view.kind}({view.name}, {places})", parts, "load")

    def call(self, kind: str, depth: int) -> Expr:
        fitting = [f for f in self.functions if f.results == [kind]]
        return self.call_of(self.choose(fitting), depth) if fitting else self.leaf(kind)

    def call_of(self, function: Callable_, depth: int) -> Expr:
        """A call, with or without the arguments that have defaults."""
        parts = []
        parameters = function.parameters
        if function.defaults and self.chance(50):
            parameters = parameters[: -function.defaults]
        for parameter in parameters:
            if isinstance(parameter, View):
                views = [
                    v for v in self.scope.views if v.kind == parameter.kind and len(v.shape) == 1 and v.own is None
                ]
                if not views:
                    return self.leaf(function.results[0])
                name = self.choose(views).name
                parts.append(Expr("array", name, name))
            elif isinstance(parameter, list):
                inside = [self.expr(kind, depth - 1) for kind in parameter]
                places = ", ".join(["{}"] * len(inside))
                parts.append(Expr("tuple", f"({places})", f"({places})", inside))
            else:
                parts.append(self.expr(parameter, depth - 1))
        places = ", ".join(["{}"] * len(parts))
        text = f"{function.name}({places})"
        return Expr(function.results[0], text, text, parts, "call")
