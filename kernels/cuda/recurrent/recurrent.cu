#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/recurrent/causal_conv.cuh"
#include "kernels/cuda/recurrent/gated_delta.cuh"
#include "kernels/cuda/recurrent/gates.cuh"
#include "kernels/cuda/recurrent/state_space.cuh"

// Checks the parameters of the operations of layers with a recurrent state, and launches their kernels.
namespace quire::kernels {

namespace {

/// True if all states advance, states use all bytes of their blocks, no number of a state lies across two blocks, and
/// `bytes` bytes of each state fit into its blocks.
bool IsWhole(const StateView& state, int64_t bytes) {
  return state.held == nullptr && state.bytes_of_block == 0 && state.block_stride % 4 == 0 && state.offset % 4 == 0 &&
         state.Holds(bytes);
}

/// Launches Rule<T> over all sequences and value heads.
template <template <class> class Rule, class Params>
void LaunchHeads(const CudaStream& stream, const Params& p) {
  QUIRE_KERNEL_CHECK(p.key_dim > 0 && p.key_dim <= kMaxStateKeyDim);
  QUIRE_KERNEL_CHECK(IsWhole(p.state, HeadStateBytes(p.value_heads, p.key_dim, p.value_dim)));
  if (p.state.num_sequences == 0) return;
  WithType(p.dtype, [&](auto t) {
    using T = decltype(t);
    const auto launch = [&]<class Kernel>(Kernel) {
      const int64_t pieces = (p.value_dim + Kernel::kColumns - 1) / Kernel::kColumns;
      simt::Launch<Kernel>({p.state.num_sequences, p.value_heads, pieces}, Kernel::Threads(p.value_dim),
                           Kernel::kSharedSize, stream, p);
    };
    if (p.key_dim <= 64) {
      launch(HeadStateKernel<Rule<T>, T, 64>{});
    } else {
      launch(HeadStateKernel<Rule<T>, T, kMaxStateKeyDim>{});
    }
  });
}

}  // namespace

void CausalConv(const CudaStream& stream, const CausalConvParams& p) {
  QUIRE_KERNEL_CHECK(p.taps >= 2 && p.taps <= kMaxTaps);
  QUIRE_KERNEL_CHECK(IsWhole(p.state, CausalConvStateBytes(p.channels, p.taps)));
  if (p.state.num_sequences == 0 || p.channels == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = CausalConvKernel<decltype(t)>;
    const int64_t pieces = (p.channels + Kernel::kThreads - 1) / Kernel::kThreads;
    simt::Launch<Kernel>({p.state.num_sequences, pieces}, Kernel::kThreads, 0, stream, p);
  });
}

void GatedDelta(const CudaStream& stream, const GatedDeltaParams& p) {
  if (p.value_heads == 0) return;
  QUIRE_KERNEL_CHECK(p.key_heads > 0 && p.value_heads % p.key_heads == 0);
  LaunchHeads<GatedDeltaRule>(stream, p);
}

void StateSpace(const CudaStream& stream, const StateSpaceParams& p) {
  QUIRE_KERNEL_CHECK(p.heads_per_key > 0 && p.first_head >= 0);
  if (p.value_heads > 0) LaunchHeads<StateSpaceRule>(stream, p);
}

void GatedNorm(const CudaStream& stream, const GatedNormParams& p) {
  if (p.num_tokens == 0 || p.num_heads == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = GatedNormKernel<decltype(t)>;
    const int64_t groups = (p.num_heads + Kernel::kWarps - 1) / Kernel::kWarps;
    simt::Launch<Kernel>({p.num_tokens, groups}, Kernel::kThreads, 0, stream, p);
  });
}

void GateSquares(const CudaStream& stream, const GateSquaresParams& p) {
  QUIRE_KERNEL_CHECK(p.first >= 0 && p.begin(p.num_groups) == p.columns);
  if (p.num_tokens == 0 || p.num_groups == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = GateSquaresKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens, p.num_groups}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
  });
}

void WideNorm(const CudaStream& stream, const WideNormParams& p) {
  QUIRE_KERNEL_CHECK(p.width > 0 && p.first >= 0);
  if (p.num_tokens == 0 || p.columns == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = WideNormKernel<decltype(t)>;
    const int64_t pieces = (p.columns + Kernel::kThreads - 1) / Kernel::kThreads;
    simt::Launch<Kernel>({p.num_tokens, pieces}, Kernel::kThreads, 0, stream, p);
  });
}

void SigmoidGate(const CudaStream& stream, const SigmoidGateParams& p) {
  const bool by_number = p.columns_per_gate == 1;
  QUIRE_KERNEL_CHECK(p.columns_per_gate > 0 && p.columns % p.columns_per_gate == 0);
  QUIRE_KERNEL_CHECK(by_number || p.columns_per_gate * ByteSize(p.dtype) % 16 == 0);
  QUIRE_KERNEL_CHECK(p.columns * ByteSize(p.dtype) % 16 == 0 && Aligned(p.rows));
  QUIRE_KERNEL_CHECK(!by_number || (p.gate_stride * ByteSize(p.dtype) % 16 == 0 && Aligned(p.gates)));
  if (p.num_tokens == 0 || p.columns == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = SigmoidGateKernel<decltype(t)>;
    const int64_t of_block = int64_t{Kernel::kThreads} * Kernel::kVec;
    simt::Launch<Kernel>({p.num_tokens, (p.columns + of_block - 1) / of_block}, Kernel::kThreads, 0, stream, p);
  });
}

}  // namespace quire::kernels
