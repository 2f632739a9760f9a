# SPDX-License-Identifier: Apache-2.0
"""Classes, modules and functions that other modules change from outside."""
from . import base, changes
