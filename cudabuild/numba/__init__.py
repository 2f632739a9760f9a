# SPDX-License-Identifier: Apache-2.0
"""The numba-shaped names around :mod:`cudabuild.cuda`: what adopted packages see where they import numba.

``tree.py`` is the module tree, ``tables.py`` says which module of numba is which place here, ``answers.py`` holds what
has another name here, ``cpu.py`` is numba's CPU side: the real one where it is installed, plain Python otherwise.
"""
