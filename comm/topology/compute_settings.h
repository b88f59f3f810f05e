#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

enum class BackendKind { kAuto, kCpu, kCuda };
constexpr auto ChoicesOf(BackendKind) {
  return std::to_array<Choice<BackendKind>>(
      {{BackendKind::kAuto, "auto"}, {BackendKind::kCpu, "cpu"}, {BackendKind::kCuda, "cuda"}});
}

/// The number type of a model's weights and activations.
enum class ModelDtype { kAuto, kFloat32, kBFloat16, kFloat16 };
constexpr auto ChoicesOf(ModelDtype) {
  return std::to_array<Choice<ModelDtype>>({{ModelDtype::kAuto, "auto"},
                                            {ModelDtype::kFloat32, "float32"},
                                            {ModelDtype::kBFloat16, "bfloat16"},
                                            {ModelDtype::kFloat16, "float16"}});
}

/// The number type of the KV cache.
enum class KvCacheDtype { kAuto, kFp8, kFloat32, kFloat16, kInt8 };
constexpr auto ChoicesOf(KvCacheDtype) {
  return std::to_array<Choice<KvCacheDtype>>({{KvCacheDtype::kAuto, "auto"},
                                              {KvCacheDtype::kFp8, "fp8"},
                                              {KvCacheDtype::kFloat32, "float32"},
                                              {KvCacheDtype::kFloat16, "float16"},
                                              {KvCacheDtype::kInt8, "int8"}});
}

/// The type to which plain weights are quantised while they are loaded.
enum class Quantization { kNone, kInt8, kInt4, kFp8 };
constexpr auto ChoicesOf(Quantization) {
  return std::to_array<Choice<Quantization>>({{Quantization::kNone, "none"},
                                              {Quantization::kInt8, "int8"},
                                              {Quantization::kInt4, "int4"},
                                              {Quantization::kFp8, "fp8"}});
}

/// The type of activations that are multiplied with quantised weights.
enum class ActivationType { kInt16, kInt8, kAuto };
constexpr auto ChoicesOf(ActivationType) {
  return std::to_array<Choice<ActivationType>>(
      {{ActivationType::kInt16, "int16"}, {ActivationType::kInt8, "int8"}, {ActivationType::kAuto, "auto"}});
}

/// The kernel with which a GPU computes the attention of decode steps. Prompt chunks use PrefillAttention with every
/// value; kWgmma only selects another kernel of it.
enum class AttentionBackend {
  kAuto,   // DecodeAttention on tensor cores; fp32 uses PrefillAttention; heads over 256 use kV2
  kV1,     // PagedDecodeV1 for every batch
  kV2,     // PagedDecode: v2 with partitions of 512 tokens, or v1 where PrefersV1 says so
  kWgmma,  // as kAuto, but prompt chunks use warpgroup products on devices with sm_90a
};
constexpr auto ChoicesOf(AttentionBackend) {
  return std::to_array<Choice<AttentionBackend>>({{AttentionBackend::kAuto, "auto"},
                                                  {AttentionBackend::kV1, "v1"},
                                                  {AttentionBackend::kV2, "v2"},
                                                  {AttentionBackend::kWgmma, "wgmma"}});
}

/// Settings for how workers compute, in flags, topology files and the ranks' engines. A topology has the settings as
/// given. The coordinator replaces kAuto before ranks read the settings, with two exceptions: for the KV cache of GPUs
/// kAuto means the model's dtype, and for attention_backend kAuto is a choice of its own.
struct ComputeSettings {
  BackendKind backend = BackendKind::kAuto;
  ModelDtype dtype = ModelDtype::kAuto;
  KvCacheDtype kv_cache_dtype = KvCacheDtype::kAuto;             // kAuto on CPUs: fp16 or fp32, by the weights' bits
  Quantization quantization = Quantization::kNone;               // GPUs: 16-bit dtypes only; CPU: not kFp8
  ActivationType activations = ActivationType::kInt16;           // CPU only; kAuto: int8 or int16, by weights' bits
  AttentionBackend attention_backend = AttentionBackend::kAuto;  // on the CPU, only kAuto is allowed
  bool expert_parallel = false;                                  // ranks have whole experts, not columns of each
  bool operator==(const ComputeSettings&) const = default;
};

}  // namespace quire
