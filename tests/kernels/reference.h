#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/paged_attention.h"
#include "kernels/route_experts.h"
#include "kernels/weight.h"

// Has simple fp64 versions of the operations. Tests compare every backend with them.
namespace quire::kernels::reference {

/// Expands a weight to fp64, [rows, cols], by the definition of its storage type.
std::vector<double> Expand(const Weight& weight);

/// Returns the product of x [m, k] and the transposed w [n, k].
std::vector<double> Matmul(const std::vector<double>& x, const std::vector<double>& w, int64_t m, int64_t n, int64_t k);

std::vector<double> RmsNorm(const std::vector<double>& x, const std::vector<double>& weight, double epsilon);

/// Returns the LayerNorm of x. `bias` may be empty.
std::vector<double> LayerNorm(const std::vector<double>& x, const std::vector<double>& weight,
                              const std::vector<double>& bias, double epsilon);

double Activate(double x, Activation activation);

/// Rotates one head [head_dim] to `position` with the angles position * base^(-2i/head_dim).
std::vector<double> Rope(const std::vector<double>& head, int64_t position, double base);

/// Returns the experts of one row of logits and their weights, best first. `correction` may be empty.
/// RouteExpertsParams explains the other arguments; `tolerance` counts only for kSparseMixer.
std::vector<std::pair<int32_t, double>> RouteExperts(const std::vector<double>& logits,
                                                     const std::vector<double>& correction, RouterScore score,
                                                     double tolerance, int64_t experts_per_token, bool renormalize,
                                                     double scale, int64_t groups, int64_t groups_per_token);

std::vector<double> GateMul(const std::vector<double>& gate, const std::vector<double>& up,
                            Activation activation = Activation::kSilu, double limit = 0);

/// Returns the causal convolution of x [tokens, channels], a sequence from its beginning on. `weight` is [taps,
/// channels], and `bias` is [channels] or empty.
std::vector<double> CausalConv(const std::vector<double>& x, const std::vector<double>& weight,
                               const std::vector<double>& bias, int64_t channels, int64_t taps, bool silu);

/// Computes one value head of the gated delta rule for a sequence from its beginning. q and k are [tokens, key_dim], v
/// is [tokens, value_dim], b (logits of beta) and a (inputs of the decay) are [tokens]. A token's decay is exp(-rate *
/// softplus(a + bias)). Returns [tokens, value_dim].
std::vector<double> GatedDelta(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                               const std::vector<double>& b, const std::vector<double>& a, double rate, double bias,
                               int64_t key_dim, int64_t value_dim);

/// Computes one value head of a state space (Mamba-2) for a sequence from its beginning. q and k are [tokens, key_dim],
/// v is [tokens, value_dim], a (inputs of the step) is [tokens]. A token's step is softplus(a + bias), and its decay
/// exp(-rate * step); `skip` * v is added to the result. Returns [tokens, value_dim].
std::vector<double> StateSpace(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                               const std::vector<double>& a, double rate, double bias, double skip, int64_t key_dim,
                               int64_t value_dim);

/// Returns scale * x or, with a cap, cap * tanh(scale * x / cap).
double Capped(double x, double scale, double cap);

/// Computes attention by reading keys and values through the block tables: all scores of a query, then softmax, then
/// the weighted sum. Returns [num_queries, num_heads * head_dim].
std::vector<double> PagedAttention(const PagedAttentionParams& params);

}  // namespace quire::kernels::reference
