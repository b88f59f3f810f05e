#include "coordinator/cluster/launch/backend_settings.h"

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

}  // namespace

void CheckBackendSettings(const Topology& topology, BackendKind backend, const std::string& why) {
  const ComputeSettings& asked = topology.compute;
  const KvCacheDtype kept = asked.kv_cache_dtype;
  if (backend == BackendKind::kCuda) {
    if (asked.quantization != Quantization::kNone && asked.dtype == ModelDtype::kFloat32) {
      FailSettings("--quantization {} on a GPU ({}) needs --dtype bfloat16, float16 or auto",
                   NameOf(asked.quantization), why);
    }
    const SpeculationMethod drafts = topology.speculation.method;  // kPrediction, the default, has no effect there
    if (drafts == SpeculationMethod::kNgram || drafts == SpeculationMethod::kSuffix)
      RefuseOnGpu("--speculative-config, method", drafts, why);
    if (asked.activations == ActivationType::kInt8) RefuseOnGpu("--activations", asked.activations, why);
    if (kept != KvCacheDtype::kAuto && kept != KvCacheDtype::kFp8) RefuseOnGpu("--kv-cache-dtype", kept, why);
  } else {
    if (asked.dtype != ModelDtype::kAuto && asked.dtype != ModelDtype::kFloat32)
      RefuseOnCpu("--dtype", asked.dtype, why, "the CPU computes in float32");
    if (asked.attention_backend != AttentionBackend::kAuto)
      RefuseOnCpu("--attention-backend", asked.attention_backend, why, "the CPU has one attention, auto");
    if (asked.quantization == Quantization::kFp8)
      RefuseOnCpu("--quantization", asked.quantization, why, "the CPU takes int8 or int4");
    if (kept == KvCacheDtype::kFp8)
      RefuseOnCpu("--kv-cache-dtype", kept, why, "the CPU keeps float32, float16 or int8");
  }
}

ActivationType ActivationsFor(const ModelFiles& model, Quantization quantization) {
  constexpr double kFewBits = 5.2;  // bits per number with its part of scale and minimum: Q4_1 has 5, Q5_0 has 5.5
  double few = 0, all = 0;
  for (const WeightSpec& weight : WeightsOf(model.spec())) {
    if (!weight.is_matrix() || !IsOfLayer(weight.role)) continue;
    for (int64_t layer = 0; layer < model.spec().num_layers(); ++layer) {
      if (!model.Has(weight.role, layer)) continue;
      const Tensor& tensor = model.Get(weight.role, layer);  // one expert stands for all experts
      const NumberLayout& layout = LayoutOf(tensor.type);
      const auto numbers = static_cast<double>(tensor.rows() * tensor.cols());
      const bool plain = layout.block_numbers == 1 && layout.block_bytes > 1;
      const double bits = plain && quantization == Quantization::kInt4 ? 4.5
                                                                       : 8.0 * static_cast<double>(layout.block_bytes) /
                                                                             static_cast<double>(layout.block_numbers);
      all += numbers;
      if (bits < kFewBits) few += numbers;
    }
  }
  return few > all / 2 ? ActivationType::kInt8 : ActivationType::kInt16;
}

}  // namespace quire
