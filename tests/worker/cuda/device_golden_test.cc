// Compares the CUDA engine, over an emulated device, with HF transformers. The expected values do not come from the CPU
// engine (tests/golden/make_device_golden.py).
#include <gtest/gtest.h>

#include <boost/crc.hpp>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "tests/worker/cuda/device_models.h"
#include "worker/cuda/engine_case.h"

namespace quire {
namespace {

using test::DeviceModel;

const Json& DeviceGolden() {
  static const Json golden = [] {
    const std::string path = std::string(QUIRE_TEST_DATA) + "/device_models.json";
    return ParseJson(ReadTextFile(path, 16 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000});
  }();
  return golden;
}

uint32_t Crc32OfFile(const std::string& path) {
  const std::string bytes = ReadTextFile(path, 64 << 20);
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

class DeviceGoldenTest : public testing::TestWithParam<DeviceModel> {};

TEST_P(DeviceGoldenTest, TokensAndLogprobs_EqualTransformers_ToTheLastToken) {
  const DeviceModel& m = GetParam();
  const test::RandomModel model(m.shape, test::kDeviceModelSeed);
  ASSERT_TRUE(DeviceGolden().contains(m.name));
  const Json& golden = DeviceGolden().at(m.name);
  ASSERT_EQ(Crc32OfFile(model.path() + "/model.safetensors"), golden.at("crc32").get<uint32_t>())
      << "other weights: make the golden data again";
  const ModelFiles files = ModelFiles::Open(model.path());
  const Json& cases = golden.at("cases");
  std::vector<test::Ask> asks;
  for (const Json& one : cases)
    asks.push_back({.prompt = one.at("prompt").get<std::vector<TokenId>>(),
                    .max_tokens = static_cast<int>(one.at("tokens").size())});
  test::CudaMaker maker({.dtype = NumberType::kF32});
  const test::Answers got =
      Serve(files, asks, {.ranks = m.ranks, .expert_parallel = m.expert_parallel}, std::ref(maker));
  ASSERT_EQ(asks.size(), 3u);
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSERT_EQ(got.sinks[i].error, "");
    const auto& choice = got.sinks[i].choices.at(0);
    EXPECT_EQ(choice.tokens, cases[i].at("tokens").get<std::vector<TokenId>>()) << "request " << i;
    const auto logprobs = cases[i].at("logprobs").get<std::vector<float>>();
    ASSERT_EQ(choice.logprobs.size(), logprobs.size());
    for (size_t t = 0; t < logprobs.size(); ++t)
      EXPECT_NEAR(choice.logprobs[t], logprobs[t], 5e-4) << "request " << i << ", token " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DeviceGoldenTest, testing::ValuesIn(test::DeviceModels()),
                         [](const testing::TestParamInfo<DeviceModel>& model) { return model.param.name; });

}  // namespace
}  // namespace quire
