# SPDX-License-Identifier: Apache-2.0
"""Device functions in another file, two files away, in NumPy's and in another distribution."""
# expect: k: helper = function helper; helper/OFFSET = 4; helper/_deeper.inner = function helper/_deeper.inner; helper/_deeper.inner/TOP = 5
# left: foreign: imports 'missing_thing'
import cudabuild as cb
from missing_thing import device_helper  # blame: foreign

from .helpers import helper


@cb.kernel("float32[::1]")
def k(x):
    x[0] = helper(x[0])


@cb.kernel("float32[::1]")
def foreign(x):
    x[0] = device_helper(x[0])
