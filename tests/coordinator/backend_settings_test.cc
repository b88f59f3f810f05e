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
