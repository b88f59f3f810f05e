#include "coordinator/cluster/launch/backend_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/base/error.h"

namespace quire {
namespace {

ActivationType Chosen(const std::string& model, Quantization quantization = Quantization::kNone) {
  return ActivationsFor(ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + model), quantization);
}

TEST(ActivationsForTest, Activations_AreInt8_WhenWeightsHaveAboutFourBits) {
  for (const char* model : {"gptq", "awq", "packed"}) EXPECT_EQ(Chosen(model), ActivationType::kInt8) << model;
  for (const char* model : {"gqa", "int8", "fp8", "linear.gguf"})
    EXPECT_EQ(Chosen(model), ActivationType::kInt16) << model;
}

TEST(ActivationsForTest, Activations_FollowTheRequestedQuantization_WhenWeightsArePlain) {
  EXPECT_EQ(Chosen("gqa", Quantization::kInt4), ActivationType::kInt8);
  EXPECT_EQ(Chosen("gqa", Quantization::kInt8), ActivationType::kInt16);
  EXPECT_EQ(Chosen("int8", Quantization::kInt4), ActivationType::kInt16) << "what is quantised stays as it is";
}

KvCacheDtype CacheOf(const std::string& model, Quantization quantization = Quantization::kNone) {
  return KvCacheDtypeFor(ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + model), quantization);
}

TEST(KvCacheDtypeForTest, KvCache_IsFloat16_WhenWeightsHaveAtMost16Bits) {
  for (const char* model : {"gqa", "gptq", "awq", "packed", "int8", "fp8", "linear.gguf", "gptoss", "qwen2moe"})
    EXPECT_EQ(CacheOf(model), KvCacheDtype::kFloat16) << model;
  for (const char* model : {"mha", "swa"}) EXPECT_EQ(CacheOf(model), KvCacheDtype::kFloat32) << model;
}

TEST(KvCacheDtypeForTest, KvCacheOfEncoders_IsFloat32_WhateverTypeTheirWeightsHave) {
  EXPECT_EQ(CacheOf("bert", Quantization::kInt8), KvCacheDtype::kFloat32);
}

TEST(KvCacheDtypeForTest, KvCache_IsFloat16_WhenFloat32WeightsAreQuantisedAsTheyAreLoaded) {
  EXPECT_EQ(CacheOf("mha", Quantization::kInt8), KvCacheDtype::kFloat16);
  EXPECT_EQ(CacheOf("mha", Quantization::kInt4), KvCacheDtype::kFloat16);
}

ComputeSettings Settled(const Topology& asked, const char* model) {
  ComputeSettings settings = asked.compute;
  SettleForCpu(asked.exact, ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + model), settings);
  return settings;
}

TEST(SettleForCpuTest, Exact_MeansFloat32AndInt16_AndDefaultsFollowTheWeights) {
  Topology asked;
  EXPECT_EQ(Settled(asked, "gptq").activations, ActivationType::kInt16);
  asked.compute.activations = ActivationType::kAuto;
  EXPECT_EQ(Settled(asked, "gptq").kv_cache_dtype, KvCacheDtype::kFloat16);
  EXPECT_EQ(Settled(asked, "gptq").activations, ActivationType::kInt8);
  EXPECT_EQ(Settled(asked, "gptq").dtype, ModelDtype::kFloat32);
  asked.exact = true;
  EXPECT_EQ(Settled(asked, "gptq").kv_cache_dtype, KvCacheDtype::kFloat32);
  EXPECT_EQ(Settled(asked, "gptq").activations, ActivationType::kInt16);
}

TEST(SettleForCpuTest, ConfiguredTypes_AreKept) {
  Topology asked;
  asked.compute.kv_cache_dtype = KvCacheDtype::kInt8;
  asked.compute.activations = ActivationType::kInt16;
  EXPECT_EQ(Settled(asked, "gptq").kv_cache_dtype, KvCacheDtype::kInt8);
  EXPECT_EQ(Settled(asked, "gptq").activations, ActivationType::kInt16);
}

TEST(DescribeNumbersTest, Line_MarksTypesThatQuireChose_AndNamesTheFlagForExactTypes) {
  Topology asked;
  EXPECT_EQ(DescribeNumbers(asked, Settled(asked, "mha")), "KV cache float32 (auto), activations int16");
  asked.compute.activations = ActivationType::kAuto;
  EXPECT_THAT(DescribeNumbers(asked, Settled(asked, "gptq")),
              testing::AllOf(testing::HasSubstr("KV cache float16 (auto), activations int8 (auto); "),
                             testing::EndsWith("--exact rounds least")));
  EXPECT_EQ(DescribeNumbers(asked, Settled(asked, "mha")), "KV cache float32 (auto), activations int16 (auto)");
  asked.exact = true;
  asked.compute.activations = ActivationType::kInt16;
  EXPECT_EQ(DescribeNumbers(asked, Settled(asked, "gptq")), "KV cache float32 (--exact), activations int16");
}

TEST(CheckBackendSettingsTest, Exact_IsRefused_WithCoarserTypesAndOnGpus) {
  Topology asked;
  asked.exact = true;
  const auto refusal = [&](BackendKind backend) -> std::string {
    try {
      CheckBackendSettings(asked, backend, "a test");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(BackendKind::kCpu), "");
  EXPECT_THAT(refusal(BackendKind::kCuda), testing::HasSubstr("--exact is for the CPU (a test)"));
  asked.compute.kv_cache_dtype = KvCacheDtype::kFloat32;
  asked.compute.activations = ActivationType::kInt16;
  EXPECT_EQ(refusal(BackendKind::kCpu), "") << "the same by name";
  for (const KvCacheDtype dtype : {KvCacheDtype::kFloat16, KvCacheDtype::kInt8}) {
    asked.compute.kv_cache_dtype = dtype;
    EXPECT_THAT(refusal(BackendKind::kCpu), testing::HasSubstr("--exact contradicts --kv-cache-dtype"));
  }
  asked.compute.kv_cache_dtype = KvCacheDtype::kAuto;
  asked.compute.activations = ActivationType::kInt8;
  EXPECT_THAT(refusal(BackendKind::kCpu), testing::HasSubstr("--exact contradicts --activations int8"));
}

TEST(CheckBackendSettingsTest, Gpus_AcceptOnlyAutoForActivations) {
  Topology asked;
  asked.compute.activations = ActivationType::kAuto;
  EXPECT_NO_THROW(CheckBackendSettings(asked, BackendKind::kCuda, "a test"));
  asked.compute.activations = ActivationType::kInt8;
  EXPECT_THROW(CheckBackendSettings(asked, BackendKind::kCuda, "a test"), Error);
  EXPECT_NO_THROW(CheckBackendSettings(asked, BackendKind::kCpu, "a test"));
}

TEST(CheckBackendSettingsTest, CpusAndGpus_AcceptInt4Quantization_ButGpusNotWithFloat32) {
  Topology asked;
  asked.compute.quantization = Quantization::kInt4;
  EXPECT_NO_THROW(CheckBackendSettings(asked, BackendKind::kCuda, "a test"));
  EXPECT_NO_THROW(CheckBackendSettings(asked, BackendKind::kCpu, "a test"));
  asked.compute.dtype = ModelDtype::kFloat32;
  EXPECT_THROW(CheckBackendSettings(asked, BackendKind::kCuda, "a test"), Error)
      << "products of integers are of 16 bits";
  EXPECT_NO_THROW(CheckBackendSettings(asked, BackendKind::kCpu, "a test"));
}

TEST(CheckBackendSettingsTest, Fp8Quantization_IsRefusedOnCpus) {
  Topology asked;
  asked.compute.quantization = Quantization::kFp8;
  EXPECT_NO_THROW(CheckBackendSettings(asked, BackendKind::kCuda, "a test"));
  EXPECT_THAT([&] { CheckBackendSettings(asked, BackendKind::kCpu, "a test"); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("--quantization fp8"), testing::HasSubstr("int8 or int4"))));
}

TEST(CheckBackendSettingsTest, RefusalOnCpus_NamesTheRemedy_WhenATypeNeedsAGpu) {
  Topology halves, floats, caches;
  halves.compute.dtype = ModelDtype::kFloat16;
  floats.compute.quantization = Quantization::kFp8;
  caches.compute.kv_cache_dtype = KvCacheDtype::kFp8;
  for (const Topology& asked : {halves, floats, caches}) {
    EXPECT_THAT([&] { CheckBackendSettings(asked, BackendKind::kCpu, "a test"); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("leave it out")));
  }
}

TEST(CheckBackendSettingsTest, Speculation_IsRefusedOnGpus) {
  Topology asked;
  asked.speculation.method = SpeculationMethod::kNgram;
  EXPECT_NO_THROW(CheckBackendSettings(asked, BackendKind::kCpu, "a test"));
  EXPECT_THAT([&] { CheckBackendSettings(asked, BackendKind::kCuda, "a test"); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("--speculative-config"), testing::HasSubstr("leave it out"))));
}

}  // namespace
}  // namespace quire
