#include "coordinator/cluster/launch/backend_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/number_type.h"
#include "comm/model/architecture.h"

namespace quire {

namespace {

template <class E>
[[noreturn]] void RefuseOnGpu(const char* flag, E value, const std::string& why) {
  FailSettings("{} {} is for the CPU ({}); give --backend cpu, or leave it out", flag, NameOf(value), why);
}

template <class E>
[[noreturn]] void RefuseOnCpu(const char* flag, E value, const std::string& why, const char* instead) {
  FailSettings("{} {} needs a GPU ({}); {}", flag, NameOf(value), why, instead);
}

/// Returns the bits of one number of a matrix: as stored, or as `quantization` packs plain numbers.
double BitsOf(const NumberLayout& layout, Quantization quantization) {
  const bool plain = layout.block_numbers == 1 && layout.block_bytes > 1;
  if (plain && quantization == Quantization::kInt4) return 4.5;
  if (plain && quantization == Quantization::kInt8) return 8.5;
  return 8.0 * static_cast<double>(layout.block_bytes) / static_cast<double>(layout.block_numbers);
}

/// True when more than half of the numbers in the layers' matrices have at most `bits` bits, as stored or as loaded.
/// The scale of a block of numbers counts, too: its bits are divided among the block's numbers.
bool MostHaveAtMost(double bits, const ModelFiles& model, Quantization quantization) {
  double within = 0, all = 0;
  for (const WeightSpec& weight : WeightsOf(model.spec())) {
    if (!weight.is_matrix() || !IsOfLayer(weight.role)) continue;
    for (int64_t layer = 0; layer < model.spec().num_layers(); ++layer) {
      if (!model.Has(weight.role, layer)) continue;
      const Tensor& tensor = model.Get(weight.role, layer);  // for a mixture: the first expert counts for all experts
      const auto numbers = static_cast<double>(tensor.rows() * tensor.cols());
      all += numbers;
      if (BitsOf(LayoutOf(tensor.type), quantization) <= bits) within += numbers;
    }
  }
  return within > all / 2;
}

void CheckExact(const ComputeSettings& asked) {
  const KvCacheDtype kept = asked.kv_cache_dtype;
  if (kept != KvCacheDtype::kAuto && kept != KvCacheDtype::kFloat32)
    FailSettings("--exact contradicts --kv-cache-dtype {}: leave one of them out", NameOf(kept));
  if (asked.activations == ActivationType::kInt8)
    FailSettings("--exact contradicts --activations int8: leave one of them out");
}

}  // namespace

void CheckBackendSettings(const Topology& topology, BackendKind backend, const std::string& why) {
  const ComputeSettings& asked = topology.compute;
  const KvCacheDtype kept = asked.kv_cache_dtype;
  if (backend == BackendKind::kCuda) {
    if (asked.quantization != Quantization::kNone && asked.dtype == ModelDtype::kFloat32) {
      FailSettings("--quantization {} on a GPU ({}) needs --dtype bfloat16, float16 or auto",
                   NameOf(asked.quantization), why);
    }
    const SpeculationMethod drafts = topology.speculation.method;
    constexpr SpeculationMethod kWithoutDrafts[] = {SpeculationMethod::kOff, SpeculationMethod::kPrediction,
                                                    SpeculationMethod::kAuto};
    if (std::ranges::find(kWithoutDrafts, drafts) == std::end(kWithoutDrafts))
      RefuseOnGpu("--speculative-config, method", drafts, why);
    if (topology.exact)
      FailSettings("--exact is for the CPU ({}); give --backend cpu, or leave it out and give --dtype float32", why);
    if (asked.activations == ActivationType::kInt8) RefuseOnGpu("--activations", asked.activations, why);
    if (kept != KvCacheDtype::kAuto && kept != KvCacheDtype::kFp8) RefuseOnGpu("--kv-cache-dtype", kept, why);
  } else {
    if (topology.exact) CheckExact(asked);
    if (asked.dtype != ModelDtype::kAuto && asked.dtype != ModelDtype::kFloat32)
      RefuseOnCpu("--dtype", asked.dtype, why, "leave it out: the CPU computes in float32");
    if (asked.attention_backend != AttentionBackend::kAuto)
      RefuseOnCpu("--attention-backend", asked.attention_backend, why, "leave it out: the CPU has one attention");
    if (asked.quantization == Quantization::kFp8)
      RefuseOnCpu("--quantization", asked.quantization, why,
                  "give int8 or int4, or leave it out: files in FP8 are read without it");
    if (kept == KvCacheDtype::kFp8)
      RefuseOnCpu("--kv-cache-dtype", kept, why, "give float32, float16 or int8, or leave it out");
  }
}

ActivationType ActivationsFor(const ModelFiles& model, Quantization quantization) {
  constexpr double kFewBits = 5.2;  // bits per number with its part of scale and minimum: Q4_1 has 5, Q5_0 has 5.5
  return MostHaveAtMost(kFewBits, model, quantization) ? ActivationType::kInt8 : ActivationType::kInt16;
}

KvCacheDtype KvCacheDtypeFor(const ModelFiles& model, Quantization quantization) {
  constexpr double kHalfOfFloat32 = 16;
  if (model.spec().bidirectional) return KvCacheDtype::kFloat32;  // an encoder's keys and values last for one step
  return MostHaveAtMost(kHalfOfFloat32, model, quantization) ? KvCacheDtype::kFloat16 : KvCacheDtype::kFloat32;
}

void SettleForCpu(bool exact, const ModelFiles& model, ComputeSettings& settings) {
  if (settings.dtype == ModelDtype::kAuto) settings.dtype = ModelDtype::kFloat32;
  const Quantization quantization = settings.quantization;
  if (settings.activations == ActivationType::kAuto)
    settings.activations = exact ? ActivationType::kInt16 : ActivationsFor(model, quantization);
  if (settings.kv_cache_dtype == KvCacheDtype::kAuto)
    settings.kv_cache_dtype = exact ? KvCacheDtype::kFloat32 : KvCacheDtypeFor(model, quantization);
}

std::string DescribeNumbers(const Topology& asked, const ComputeSettings& settled) {
  const bool auto_cache = asked.compute.kv_cache_dtype == KvCacheDtype::kAuto;
  const bool auto_activations = asked.compute.activations == ActivationType::kAuto;
  const char* by_auto = asked.exact ? " (--exact)" : " (auto)";
  std::string cost;
  if (auto_cache && settled.kv_cache_dtype == KvCacheDtype::kFloat16)
    cost =
        "; the cache costs less than writing weights as bfloat16 (docs/benchmarks/2026-11-28-defaults.md); --exact "
        "rounds least";
  return fmt::format("KV cache {}{}, activations {}{}{}", NameOf(settled.kv_cache_dtype),
                     auto_cache ? by_auto : " (asked for)", NameOf(settled.activations),
                     auto_activations ? by_auto : "", cost);
}

}  // namespace quire
