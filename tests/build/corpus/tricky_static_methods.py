# SPDX-License-Identifier: Apache-2.0
"""Kernels and device functions that are static methods, in nested and inherited classes and under conditions."""
# expect: Solver.step: Solver.ORDER = 4; Solver.weight = function Solver.weight; Solver.weight/SCALE = 2
# expect: Solver.Inner.deep: N = 3
# expect: Solver.bound: N = 3
# expect: Guarded.k: N = 3
# left: Missing.k: imports 'missing_thing'
import cudabuild as cb

N = 3
SCALE = 2


class Solver:
    ORDER = 2

    @staticmethod
    def weight(a):
        return a * SCALE

    @staticmethod
    @cb.kernel("float32[::1]")
    def step(x):
        x[0] = Solver.weight(x[0]) + Solver.ORDER

    class Inner:
        @staticmethod
        @cb.kernel("float32[::1]")
        def deep(x):
            x[0] = N

    @cb.kernel("float32[::1]")
    def bound(x):
        x[0] = N

    def launch(self, x):
        import missing_thing

        missing_thing.before(x)
        self.step[1, 1](x)


if N:

    class Guarded:
        if SCALE:

            @staticmethod
            @cb.kernel("float32[::1]")
            def k(x):
                x[0] = N


class Missing:
    import missing_thing  # blame: Missing.k

    SIZE = missing_thing.SIZE

    @staticmethod
    @cb.kernel("float32[::1]")
    def k(x):
        x[0] = Missing.SIZE


Solver.ORDER += 2
