// The op as it is, with per-thread streams and launches that are waited for (simt/device.cuh here).
#include "kernels/cuda/elementwise/ops.cu"
