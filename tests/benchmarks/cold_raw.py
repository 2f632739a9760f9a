# SPDX-License-Identifier: Apache-2.0
"""Fresh process to first finished launch, the limit: nothing but the driver. Arguments: a cubin and its symbol."""

import time

start = time.perf_counter()

import ctypes  # noqa: E402
import sys  # noqa: E402

from cuda.bindings import driver  # noqa: E402

driver.cuInit(0)
_, context = driver.cuDevicePrimaryCtxRetain(0)
driver.cuCtxSetCurrent(context)
_, x = driver.cuMemAlloc(1024)
_, y = driver.cuMemAlloc(1024)
with open(sys.argv[1], "rb") as file:
    image = file.read()
status, module = driver.cuModuleLoadData(image)
assert status == driver.CUresult.CUDA_SUCCESS, status
status, function = driver.cuModuleGetFunction(module, sys.argv[2].encode())
assert status == driver.CUresult.CUDA_SUCCESS, status
values = (ctypes.c_float(2), ctypes.c_uint64(int(x)), ctypes.c_int(256), ctypes.c_uint64(int(y)), ctypes.c_int(256))
pointers = (ctypes.c_void_p * 5)(*(ctypes.addressof(value) for value in values))
(status,) = driver.cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, 0, ctypes.addressof(pointers), 0)
assert status == driver.CUresult.CUDA_SUCCESS, status
(status,) = driver.cuCtxSynchronize()
assert status == driver.CUresult.CUDA_SUCCESS, status
print(time.perf_counter() - start)
