#include "tests/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <numeric>
#include <string_view>

#include "kernels/check.h"

namespace quire::kernels::reference {

namespace {

template <class T>
T ReadAs(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

double Half(const std::byte* p) {
  const auto h = ReadAs<uint16_t>(p);
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (h & 0x8000) ? -magnitude : magnitude;
}

double BFloat(const std::byte* p) {
  const uint32_t bits = uint32_t{ReadAs<uint16_t>(p)} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

double Number(NumberType type, const std::byte* block, int i) {
  const auto nibble = [&](int header) {
    const int byte = std::to_integer<int>(block[header + i % 16]);
    return i < 16 ? byte & 15 : byte >> 4;
  };
  switch (type) {
    case NumberType::kF32:
      return ReadAs<float>(block);
    case NumberType::kF16:
      return Half(block);
    case NumberType::kBF16:
      return BFloat(block);
    case NumberType::kQ8_0:
      return Half(block) * ReadAs<int8_t>(block + 2 + i);
    case NumberType::kQ4_0:
      return Half(block) * (nibble(2) - 8);
    case NumberType::kQ4_1:
      return Half(block) * nibble(4) + Half(block + 2);
    default:  // other tests compare these formats with golden numbers
      break;
  }
  QUIRE_KERNEL_CHECK(false);
}

}  // namespace

std::vector<double> Expand(const Weight& weight) {
  const NumberLayout layout = LayoutOf(weight.type);
  std::vector<double> out;
  for (int64_t row = 0; row < weight.rows; ++row) {
    for (int64_t col = 0; col < weight.cols; ++col) {
      const std::byte* block = weight.data + row * weight.row_bytes + col / layout.block_numbers * layout.block_bytes;
      out.push_back(Number(weight.type, block, static_cast<int>(col % layout.block_numbers)));
    }
  }
  return out;
}

std::vector<double> Matmul(const std::vector<double>& x, const std::vector<double>& w, int64_t m, int64_t n,
                           int64_t k) {
  std::vector<double> y(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += x[static_cast<size_t>(i * k + l)] * w[static_cast<size_t>(j * k + l)];
      y[static_cast<size_t>(i * n + j)] = sum;
    }
  }
  return y;
}

std::vector<double> RmsNorm(const std::vector<double>& x, const std::vector<double>& weight, double epsilon) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(x[i] * scale * weight[i]);
  return out;
}

std::vector<double> LayerNorm(const std::vector<double>& x, const std::vector<double>& weight,
                              const std::vector<double>& bias, double epsilon) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i) {
    out.push_back((x[i] - mean) / std::sqrt(variance + epsilon) * weight[i] + (bias.empty() ? 0 : bias[i]));
  }
  return out;
}

double Activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2;
    case Activation::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kRelu2:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kClampedSilu:  // used by GateMul only
      break;
  }
  QUIRE_KERNEL_CHECK(false);
}

std::vector<double> Rope(const std::vector<double>& head, int64_t position, double base) {
  const size_t half = head.size() / 2;
  std::vector<double> out(head.size());
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) *
                         std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head.size()));
    out[i] = head[i] * std::cos(angle) - head[half + i] * std::sin(angle);
    out[half + i] = head[half + i] * std::cos(angle) + head[i] * std::sin(angle);
  }
  return out;
}

std::vector<double> GateMul(const std::vector<double>& gate, const std::vector<double>& up, Activation activation,
                            double limit) {
  std::vector<double> out;
  for (size_t i = 0; i < gate.size(); ++i) {
    if (activation == Activation::kClampedSilu) {
      const double g = std::min(gate[i], limit), u = std::clamp(up[i], -limit, limit);
      out.push_back(g / (1 + std::exp(-kClampedSlope * g)) * (u + 1));
    } else {
      out.push_back(Activate(gate[i], activation) * up[i]);
    }
  }
  return out;
}

namespace {

/// Returns the indices of the `count` highest numbers, the highest first.
std::vector<int32_t> Highest(const std::vector<double>& numbers, int64_t count) {
  std::vector<int32_t> places(numbers.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, std::greater(), [&](int32_t i) { return numbers[static_cast<size_t>(i)]; });
  places.resize(static_cast<size_t>(count));
  return places;
}

}  // namespace

std::vector<std::pair<int32_t, double>> RouteExperts(const std::vector<double>& logits,
                                                     const std::vector<double>& correction, RouterScore score,
                                                     double tolerance, int64_t experts_per_token, bool renormalize,
                                                     double scale, int64_t groups, int64_t groups_per_token) {
  std::vector<double> scores;
  double all = 0;
  for (const double logit : logits) all += std::exp(logit);
  for (const double logit : logits) {
    scores.push_back(score == RouterScore::kSoftmax   ? std::exp(logit) / all
                     : score == RouterScore::kSigmoid ? 1 / (1 + std::exp(-logit))
                                                      : logit);
  }
  std::vector<double> compared = scores, of_groups;
  for (size_t e = 0; e < correction.size(); ++e) compared[e] += correction[e];
  const size_t size = logits.size() / static_cast<size_t>(groups);
  for (size_t first = 0; groups > 1 && first < compared.size(); first += size) {
    const std::vector<double> members(&compared[first], &compared[first] + size);
    const auto two = Highest(members, 2);
    of_groups.push_back(members[static_cast<size_t>(two[0])] + members[static_cast<size_t>(two[1])]);
  }
  if (groups > 1) {
    const auto best = Highest(of_groups, groups_per_token);
    for (size_t e = 0; e < compared.size(); ++e) {
      if (std::ranges::find(best, static_cast<int32_t>(e / size)) == best.end()) compared[e] = -1e300;
    }
  }
  std::vector<std::pair<int32_t, double>> chosen;
  double sum = 0;
  for (const int32_t e : Highest(compared, experts_per_token)) {
    const double weight = scores[static_cast<size_t>(e)];
    chosen.emplace_back(e, score == RouterScore::kSoftmaxOfChosen ? std::exp(weight) : weight);
    sum += chosen.back().second;
  }
  for (size_t j = 0; score == RouterScore::kSparseMixer && j < chosen.size(); ++j) {
    const double own = logits[static_cast<size_t>(chosen[j].first)];
    double near = 0;
    for (size_t e = 0; e < logits.size(); ++e) {
      const auto is_e = [&](const auto& choice) { return choice.first == static_cast<int32_t>(e); };
      const auto end = chosen.begin() + static_cast<std::ptrdiff_t>(j);
      if (std::any_of(chosen.begin(), end, is_e)) continue;
      if ((own - logits[e]) / std::max(std::abs(logits[e]), own) <= tolerance) near += std::exp(logits[e] - own);
    }
    chosen[j].second = 1 / near;
  }
  const bool divides = renormalize || score == RouterScore::kSoftmaxOfChosen;
  for (auto& [expert, weight] : chosen) weight *= scale / (divides ? sum : 1);
  return chosen;
}

std::vector<double> CausalConv(const std::vector<double>& x, const std::vector<double>& weight,
                               const std::vector<double>& bias, int64_t channels, int64_t taps, bool silu) {
  std::vector<double> out;
  const int64_t tokens = std::ssize(x) / channels;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(c)];
      for (int64_t i = 0; i < taps; ++i) {
        const int64_t from = t - taps + 1 + i;
        if (from >= 0)
          sum += weight[static_cast<size_t>(i * channels + c)] * x[static_cast<size_t>(from * channels + c)];
      }
      out.push_back(silu ? Activate(sum, Activation::kSilu) : sum);
    }
  }
  return out;
}

std::vector<double> GatedDelta(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                               const std::vector<double>& b, const std::vector<double>& a, double rate, double bias,
                               int64_t key_dim, int64_t value_dim) {
  std::vector<double> out;
  std::vector<double> state(static_cast<size_t>(key_dim * value_dim));
  const auto at = [](const std::vector<double>& rows, int64_t row, int64_t width, int64_t i) {
    return rows[static_cast<size_t>(row * width + i)];
  };
  for (int64_t t = 0; t < std::ssize(b); ++t) {
    double q_squares = 1e-6, k_squares = 1e-6;
    for (int64_t i = 0; i < key_dim; ++i) {
      q_squares += at(q, t, key_dim, i) * at(q, t, key_dim, i);
      k_squares += at(k, t, key_dim, i) * at(k, t, key_dim, i);
    }
    const double beta = 1 / (1 + std::exp(-b[static_cast<size_t>(t)]));
    const double decay = std::exp(-rate * std::log1p(std::exp(a[static_cast<size_t>(t)] + bias)));
    for (double& s : state) s *= decay;
    for (int64_t j = 0; j < value_dim; ++j) {
      double recalled = 0, result = 0;
      for (int64_t i = 0; i < key_dim; ++i)
        recalled += state[static_cast<size_t>(i * value_dim + j)] * at(k, t, key_dim, i) / std::sqrt(k_squares);
      const double change = beta * (at(v, t, value_dim, j) - recalled);
      for (int64_t i = 0; i < key_dim; ++i) {
        double& s = state[static_cast<size_t>(i * value_dim + j)];
        s += change * at(k, t, key_dim, i) / std::sqrt(k_squares);
        result += s * at(q, t, key_dim, i) / std::sqrt(q_squares * static_cast<double>(key_dim));
      }
      out.push_back(result);
    }
  }
  return out;
}

std::vector<double> StateSpace(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                               const std::vector<double>& a, double rate, double bias, double skip, int64_t key_dim,
                               int64_t value_dim) {
  std::vector<double> out, state(static_cast<size_t>(key_dim * value_dim));
  for (size_t t = 0; t < a.size(); ++t) {
    const double step = std::log1p(std::exp(a[t] + bias));
    for (double& s : state) s *= std::exp(-rate * step);
    for (int64_t j = 0; j < value_dim; ++j) {
      const double value = v[t * static_cast<size_t>(value_dim) + static_cast<size_t>(j)];
      double result = skip * value;
      for (int64_t i = 0; i < key_dim; ++i) {
        const size_t at = t * static_cast<size_t>(key_dim) + static_cast<size_t>(i);
        double& s = state[static_cast<size_t>(i * value_dim + j)];
        s += k[at] * step * value;
        result += s * q[at];
      }
      out.push_back(result);
    }
  }
  return out;
}

double Capped(double x, double scale, double cap) { return cap > 0 ? cap * std::tanh(scale * x / cap) : scale * x; }

namespace {

/// Returns number `index` of the keys or values of one head; `offset` is the token's slot in its block.
double KvNumber(const KvCacheView& cache, const std::byte* head, int64_t offset, int64_t index) {
  if (cache.type == NumberType::kF32) return reinterpret_cast<const float*>(head)[index];
  if (cache.type == NumberType::kF16) return static_cast<double>(reinterpret_cast<const _Float16*>(head)[index]);
  const auto* numbers = reinterpret_cast<const int8_t*>(head) + cache.block_size * static_cast<int64_t>(sizeof(float));
  return double{reinterpret_cast<const float*>(head)[offset]} * numbers[index];
}

/// Returns the query times the scale, rounded to 8 bits if the kernel rounds it.
std::vector<double> QueryOf(const PagedAttentionParams& p, const float* query) {
  const int64_t dim = p.cache.head_dim;
  std::vector<double> out;
  for (int64_t d = 0; d < dim; ++d) out.push_back(double{query[d]} * p.scale);
  const bool bytes = p.activations == Activations::kInt8 && p.cache.type == NumberType::kInt8 && dim % 16 == 0 &&
                     p.cache.block_size % 16 == 0 && CpuIsaName() != std::string_view("avx2");
  if (!bytes) return out;
  float most = 0;
  for (int64_t d = 0; d < dim; ++d) most = std::max(most, std::abs(query[d] * p.scale));
  for (int64_t d = 0; d < dim; ++d)
    out[static_cast<size_t>(d)] = std::nearbyint(query[d] * p.scale * (127 / most)) * double{most / 127};
  return out;
}

/// Returns the keys, or without `keys` the values, of a head of the cache at positions [first, end) of a sequence: [end
/// - first, head_dim].
std::vector<double> CachedNumbers(const PagedAttentionParams& p, bool keys, int64_t sequence, int64_t kv, int64_t first,
                                  int64_t end) {
  const KvCacheView& cache = p.cache;
  std::vector<double> numbers(static_cast<size_t>((end - first) * cache.head_dim));
  double* out = numbers.data();
  for (int64_t t = first; t < end; ++t) {
    const int64_t block = p.block_tables[sequence * p.table_stride + t / cache.block_size];
    const int64_t begin = block * cache.block_stride + kv * cache.head_bytes(), offset = t % cache.block_size;
    for (int64_t d = 0; d < cache.head_dim; ++d) {
      *out++ = keys ? KvNumber(cache, cache.keys + begin, offset, d * cache.block_size + offset)
                    : KvNumber(cache, cache.values + begin, offset, offset * cache.head_dim + d);
    }
  }
  return numbers;
}

/// Two numbers that are added or multiplied at once, and eight sums of products. Most of the time of the attention
/// tests goes into these sums, which are computed again for each instruction set.
using Pair [[gnu::vector_size(2 * sizeof(double))]] = double;
Pair PairAt(const double* x) {
  Pair pair;
  std::memcpy(&pair, x, sizeof(pair));
  return pair;
}
struct EightSums {
  Pair a = {}, b = {}, c = {}, d = {};
};
constexpr size_t kSums = 8;

/// Returns the sum of products of two vectors of n numbers.
double Dot(const double* x, const double* y, size_t n) {
  EightSums sums;
  size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    sums.a += PairAt(x + i) * PairAt(y + i);
    sums.b += PairAt(x + i + 2) * PairAt(y + i + 2);
    sums.c += PairAt(x + i + 4) * PairAt(y + i + 4);
    sums.d += PairAt(x + i + 6) * PairAt(y + i + 6);
  }
  const Pair all = sums.a + sums.b + (sums.c + sums.d);
  double sum = all[0] + all[1];
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/// Adds the vectors of n numbers that `values` has one after another, each times its weight, to `result`, which is 0.
void AddWeighted(const std::vector<double>& weights, const double* values, size_t n, double* result) {
  size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    EightSums sums;
    const double* value = values + i;
    for (const double weight : weights) {
      sums.a += weight * PairAt(value);
      sums.b += weight * PairAt(value + 2);
      sums.c += weight * PairAt(value + 4);
      sums.d += weight * PairAt(value + 6);
      value += n;
    }
    std::memcpy(result + i, &sums, sizeof(sums));
  }
  for (; i < n; ++i) {
    const double* value = values + i;
    for (const double weight : weights) {
      result[i] += weight * *value;
      value += n;
    }
  }
}

/// Returns the numbers by which a query weighs the values of positions [first, context), and their sum, which includes
/// the weight of a sink. `key` points to the first position's key, `position` is the query's.
std::pair<std::vector<double>, double> WeightsOf(const PagedAttentionParams& p, const std::vector<double>& query,
                                                 const double* key, int64_t head, int64_t first, int64_t context,
                                                 int64_t position) {
  std::vector<double> weights;
  weights.reserve(static_cast<size_t>(context - first));
  const double slope = p.alibi_slopes == nullptr ? 0 : p.alibi_slopes[head];
  for (int64_t t = first; t < context; ++t, key += p.cache.head_dim) {
    const double score = Dot(query.data(), key, query.size());
    double added = -slope * static_cast<double>(std::abs(t - position));
    if (p.relative_bias != nullptr) {
      const int64_t reach = p.relative_reach;
      added = p.relative_bias[head * (2 * reach + 1) + reach + std::clamp(t - position, -reach, reach)];
    }
    weights.push_back(Capped(score, 1, p.soft_cap) + added);
  }
  double max = *std::max_element(weights.begin(), weights.end());
  if (p.sinks != nullptr) max = std::max(max, double{p.sinks[head]});
  double sum = p.sinks == nullptr ? 0 : std::exp(p.sinks[head] - max);
  for (double& w : weights) sum += w = std::exp(w - max);
  return {std::move(weights), sum};
}

}  // namespace

std::vector<double> PagedAttention(const PagedAttentionParams& p) {
  const int64_t dim = p.cache.head_dim;
  std::vector<double> out(static_cast<size_t>(p.query_start[p.num_sequences] * p.num_heads * dim));
  const auto attend = [&](int64_t s, int64_t kv, int64_t first_head, int64_t end_head) {
    const int64_t begin = p.query_start[s], end = p.query_start[s + 1];
    const auto context_of = [&](int64_t query) {
      return p.first_position != nullptr ? p.first_position[s] + (query - begin) + 1
                                         : p.context_len[s] - (end - query) + 1;
    };
    const auto first_of = [&](int64_t query) {
      const int64_t of_context = p.begin_of(s);
      return p.window > 0 ? std::max<int64_t>(context_of(query) - p.window, of_context) : of_context;
    };
    const auto past_seen = [&](int64_t query) {
      const int64_t all = p.context_len[s];
      if (!p.both_ways) return context_of(query);
      return p.window > 0 ? std::min(context_of(query) + p.window - 1, all) : all;
    };
    if (begin == end) return;
    const int64_t read = first_of(begin);  // earlier positions may no longer be cached
    const std::vector<double> keys = CachedNumbers(p, true, s, kv, read, p.context_len[s]);
    const std::vector<double> values = CachedNumbers(p, false, s, kv, read, p.context_len[s]);
    for (int64_t q = begin; q < end; ++q) {
      const int64_t skipped = (first_of(q) - read) * dim;
      for (int64_t h = first_head; h < end_head; ++h) {
        const std::vector<double> query = QueryOf(p, p.queries + q * p.query_stride + h * dim);
        const auto [weights, sum] =
            WeightsOf(p, query, keys.data() + skipped, h, first_of(q), past_seen(q), context_of(q) - 1);
        double* const result = &out[static_cast<size_t>((q * p.num_heads + h) * dim)];
        AddWeighted(weights, values.data() + skipped, static_cast<size_t>(dim), result);
        for (int64_t d = 0; d < dim; ++d) result[d] /= sum;
      }
    }
  };
  for (int64_t s = 0; s < p.num_sequences; ++s) {
    for (int64_t kv = 0; kv < p.cache.num_kv_heads; ++kv) attend(s, kv, p.head_start[kv], p.head_start[kv + 1]);
  }
  return out;
}

}  // namespace quire::kernels::reference
