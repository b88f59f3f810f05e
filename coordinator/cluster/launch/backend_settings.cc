#include "coordinator/cluster/launch/backend_settings.h"

#include "comm/base/error.h"

namespace quire {

void CheckBackendSettings(const Topology& t, const std::string& backend, const std::string& why) {
  const auto of_cpu = [&](const char* flag, const std::string& value) {
    Fail("{} {} is for the CPU ({}); give --backend cpu, or leave it out", flag, value, why);
  };
  const auto of_gpu = [&](const char* flag, const std::string& value, const char* instead) {
    Fail("{} {} needs a GPU ({}); {}", flag, value, why, instead);
  };
  if (backend == "cuda") {
    if (t.quantization != "none") of_cpu("--quantization", t.quantization);
    if (t.activations != "int16") of_cpu("--activations", t.activations);
    if (t.cache.dtype != "auto" && t.cache.dtype != "fp8") of_cpu("--kv-cache-dtype", t.cache.dtype);
  } else {
    if (t.dtype != "auto" && t.dtype != "float32") of_gpu("--dtype", t.dtype, "the CPU computes in float32");
    if (t.cache.dtype == "fp8") of_gpu("--kv-cache-dtype", t.cache.dtype, "the CPU keeps float32, float16 or int8");
  }
}

}  // namespace quire
