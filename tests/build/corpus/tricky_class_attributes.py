# SPDX-License-Identifier: Apache-2.0
"""Class bodies: inherited and overridden names, metaclasses, hooks, descriptors, loops in the body, slots."""
# expect: k: Child.N = 5; Child.M = 2; COUNT = 3; Body.T = (0, 1, 4, ); META = 1; SET = 6; Outer.Inner.DEEP = 8
import cudabuild as cb

seen = []


class Meta(type):
    def __new__(mcs, name, bases, body):
        made = super().__new__(mcs, name, bases, body)
        seen.append(name)
        return made


class Base(metaclass=Meta):
    N = 1
    M = 2

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.extra = len(seen)


class Child(Base):
    N = Base.N + 4


class Grand(Child):
    pass


COUNT = len(seen)
META = Child.extra


class Body:
    T = []
    for i in range(3):
        T.append(i * i)
    T = tuple(T)
    del i


class Named:
    def __set_name__(self, owner, name):
        owner.value = len(name)


class Owner:
    abcdef = Named()


SET = Owner.value


class Outer:
    class Inner:
        DEEP = 7

    Inner.DEEP += 1


@cb.kernel("float32[::1]")
def k(x):
    x[0] = Child.N + Child.M + COUNT + Body.T[2] + META + SET + Outer.Inner.DEEP
