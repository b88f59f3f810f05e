// The op as it is, with per-thread streams and launches that are waited for (simt/device.cuh here).
#include "kernels/cuda/collective/one_shot_all_reduce.cu"
