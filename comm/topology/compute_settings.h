#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

enum class BackendKind { kAuto, kCpu, kCuda };
constexpr auto ChoicesOf(BackendKind) {
  return std::to_array<Choice<BackendKind>>(
      {{BackendKind::kAuto, "auto"}, {BackendKind::kCpu, "cpu"}, {BackendKind::kCuda, "cuda"}});
}

/// What a model's weights and activations are computed in.
enum class ModelDtype { kAuto, kFloat32, kBFloat16, kFloat16 };
constexpr auto ChoicesOf(ModelDtype) {
  return std::to_array<Choice<ModelDtype>>({{ModelDtype::kAuto, "auto"},
                                            {ModelDtype::kFloat32, "float32"},
                                            {ModelDtype::kBFloat16, "bfloat16"},
                                            {ModelDtype::kFloat16, "float16"}});
}

/// What keys and values are kept in.
enum class KvCacheDtype { kAuto, kFp8, kFloat32, kFloat16, kInt8 };
constexpr auto ChoicesOf(KvCacheDtype) {
  return std::to_array<Choice<KvCacheDtype>>({{KvCacheDtype::kAuto, "auto"},
                                              {KvCacheDtype::kFp8, "fp8"},
                                              {KvCacheDtype::kFloat32, "float32"},
                                              {KvCacheDtype::kFloat16, "float16"},
                                              {KvCacheDtype::kInt8, "int8"}});
}

/// What plain weights become as they are loaded.
enum class Quantization { kNone, kInt8, kInt4, kFp8 };
constexpr auto ChoicesOf(Quantization) {
  return std::to_array<Choice<Quantization>>({{Quantization::kNone, "none"},
                                              {Quantization::kInt8, "int8"},
                                              {Quantization::kInt4, "int4"},
                                              {Quantization::kFp8, "fp8"}});
}

/// What meets quantised weights.
enum class ActivationType { kInt16, kInt8, kAuto };
constexpr auto ChoicesOf(ActivationType) {
  return std::to_array<Choice<ActivationType>>(
      {{ActivationType::kInt16, "int16"}, {ActivationType::kInt8, "int8"}, {ActivationType::kAuto, "auto"}});
}

/// What computes the attention of decodes on a GPU. Chunks of prompts have PrefillAttention, one way or the other.
enum class AttentionBackend {
  kAuto,   // tensor cores; fp32 goes through PrefillAttention
  kV1,     // PagedDecodeV1 for every batch
  kV2,     // PagedDecode: partitions of 512 tokens, but v1 where the literature's rule prefers it (PrefersV1)
  kWgmma,  // as kAuto, but prompts by products of warpgroups, where the device has those (sm_90a)
};
constexpr auto ChoicesOf(AttentionBackend) {
  return std::to_array<Choice<AttentionBackend>>({{AttentionBackend::kAuto, "auto"},
                                                  {AttentionBackend::kV1, "v1"},
                                                  {AttentionBackend::kV2, "v2"},
                                                  {AttentionBackend::kWgmma, "wgmma"}});
}

/// How workers compute: one type from flags and topology files to the engines of the ranks. What is written here is
/// what was asked for; workers are told a backend, a dtype and activations that are no longer kAuto.
struct ComputeSettings {
  BackendKind backend = BackendKind::kAuto;
  ModelDtype dtype = ModelDtype::kAuto;
  KvCacheDtype kv_cache_dtype = KvCacheDtype::kAuto;             // kAuto: as dtype; kFp8 on GPUs; the others on the CPU
  Quantization quantization = Quantization::kNone;               // on the CPU
  ActivationType activations = ActivationType::kInt16;           // on the CPU; kAuto: as the weights allow
  AttentionBackend attention_backend = AttentionBackend::kAuto;  // v1, v2 on GPUs
  bool expert_parallel = false;                                  // ranks have whole experts, not columns of each
  bool operator==(const ComputeSettings&) const = default;
};

}  // namespace quire
