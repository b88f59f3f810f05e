// Compiles the ops unchanged, with per-thread streams and launches that wait for their kernel (simt/device.cuh in this
// folder).
#include "kernels/cuda/elementwise/ops.cu"
