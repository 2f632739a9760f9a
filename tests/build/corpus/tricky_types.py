# SPDX-License-Identifier: Apache-2.0
"""Type aliases, new types, ``TYPE_CHECKING`` blocks and annotations that cannot be evaluated."""
# expect: k: N = 3; SIZE = 4; CHECKED = 0; LIMIT = 6
from typing import TYPE_CHECKING, Annotated, Any, Generic, NewType, Optional, TypeVar

import cudabuild as cb

if TYPE_CHECKING:
    from missing_thing import Array

    CHECKED = 1
else:
    CHECKED = 0

T = TypeVar("T", bound="Array")
Count = NewType("Count", int)
Sizes = dict[str, "Optional[Array]"]
N: Count = Count(3)
LIMIT: Annotated[int, "between"] = 6
later: "Array"


class Box(Generic[T]):
    size: int = 4
    held: "Array"

    def get(self) -> "Array":
        return self.held


SIZE = Box[int].size


@cb.kernel("float32[::1]")
def k(x: "Array") -> "Any":
    x[0] = N + SIZE + CHECKED + LIMIT
