#include "coordinator/cluster/launch/backend_settings.h"

#include "comm/base/error.h"

namespace quire {

namespace {

template <class E>
[[noreturn]] void RefuseOnGpu(const char* flag, E value, const std::string& why) {
  Fail("{} {} is for the CPU ({}); give --backend cpu, or leave it out", flag, NameOf(value), why);
}

template <class E>
[[noreturn]] void RefuseOnCpu(const char* flag, E value, const std::string& why, const char* instead) {
  Fail("{} {} needs a GPU ({}); {}", flag, NameOf(value), why, instead);
}

}  // namespace

void CheckBackendSettings(const ComputeSettings& asked, BackendKind backend, const std::string& why) {
  const KvCacheDtype kept = asked.kv_cache_dtype;
  if (backend == BackendKind::kCuda) {
    if (asked.quantization != Quantization::kNone) RefuseOnGpu("--quantization", asked.quantization, why);
    if (asked.activations != ActivationType::kInt16) RefuseOnGpu("--activations", asked.activations, why);
    if (kept != KvCacheDtype::kAuto && kept != KvCacheDtype::kFp8) RefuseOnGpu("--kv-cache-dtype", kept, why);
  } else {
    if (asked.dtype != ModelDtype::kAuto && asked.dtype != ModelDtype::kFloat32)
      RefuseOnCpu("--dtype", asked.dtype, why, "the CPU computes in float32");
    if (asked.attention_backend != AttentionBackend::kAuto)
      RefuseOnCpu("--attention-backend", asked.attention_backend, why, "the CPU has one attention, auto");
    if (kept == KvCacheDtype::kFp8)
      RefuseOnCpu("--kv-cache-dtype", kept, why, "the CPU keeps float32, float16 or int8");
  }
}

}  // namespace quire
