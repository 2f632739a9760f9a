# SPDX-License-Identifier: Apache-2.0
import missing_thing

from . import base

base.N = missing_thing.N
