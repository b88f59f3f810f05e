#include "coordinator/api/models/generation_settings.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "comm/model/formats/mapped_file.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

constexpr size_t kMostBytes = 16 << 20;

template <class T>
std::string BytesOf(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string GgufText(const std::string& text) { return BytesOf(uint64_t{text.size()}) + text; }
std::string GgufReal(const std::string& key, float value) {
  return GgufText(key) + BytesOf(uint32_t{6}) + BytesOf(value);
}
std::string GgufInteger(const std::string& key, int32_t value) {
  return GgufText(key) + BytesOf(uint32_t{5}) + BytesOf(value);
}

/// Returns the bytes of a golden model in GGUF with additional metadata (`pairs`: `count` encoded pairs of key and
/// value), and a filler that keeps the tensors aligned.
std::string WithMetadata(const std::string& pairs, uint64_t count) {
  const auto from = std::filesystem::path(QUIRE_TEST_DATA) / "models" / "mqa.gguf";
  std::string bytes = ReadTextFile(from, kMostBytes);
  std::string added = pairs + GgufText("general.filler") + BytesOf(uint32_t{8});
  added += GgufText(std::string((32 - (added.size() + 8) % 32) % 32, 'x'));
  uint64_t metadata = 0;
  std::memcpy(&metadata, bytes.data() + 16, sizeof(metadata));
  return bytes.replace(16, 8, BytesOf(metadata + count + 1)).insert(24, added);
}

class GenerationSettingsTest : public testing::Test {
 protected:
  ChosenSampling Choose(const std::string& gguf, GenerationConfigMode mode) {
    const std::string path = folder_.path() + "/model.gguf";
    WriteTextFile(path, gguf);
    Topology::Model settings;
    settings.generation_config = mode;
    return SamplingDefaultsOf(ModelFiles::Open(path), settings);
  }

  TemporaryDirectory folder_;
};

TEST_F(GenerationSettingsTest, GgufDefaults_Apply_WhenTheFileHasSamplingSettings) {
  const std::string gguf =
      WithMetadata(GgufReal("general.sampling.temp", 0.5f) + GgufInteger("general.sampling.top_k", 7) +
                       GgufReal("general.sampling.penalty_repeat", 1.25f),
                   3);
  const ChosenSampling chosen = Choose(gguf, GenerationConfigMode::kAuto);
  EXPECT_EQ(chosen.source, GenerationConfigMode::kModel);
  EXPECT_EQ(chosen.values, (SamplingDefaults{.temperature = 0.5f, .repetition_penalty = 1.25f, .top_k = 7}));
  EXPECT_EQ(DescribeDefaults(chosen),
            "temperature 0.5, top_k 7, top_p 1, min_p 0, repetition_penalty 1.25 (the model's files, "
            "--generation-config)");
  EXPECT_EQ(Choose(gguf, GenerationConfigMode::kNone).values, SamplingDefaults());
  EXPECT_EQ(Choose(gguf, GenerationConfigMode::kQuire).values, kQuireSampling);
}

TEST_F(GenerationSettingsTest, QuiresDefaults_Apply_WhenTheGgufFileHasOnlyAPenalty) {
  const std::string gguf = WithMetadata(GgufReal("general.sampling.penalty_repeat", 1.25f), 1);
  const ChosenSampling chosen = Choose(gguf, GenerationConfigMode::kAuto);
  EXPECT_EQ(chosen.source, GenerationConfigMode::kQuire);
  SamplingDefaults want = kQuireSampling;
  want.repetition_penalty = 1.25f;
  EXPECT_EQ(chosen.values, want);
  EXPECT_EQ(Choose(gguf, GenerationConfigMode::kModel).values, (SamplingDefaults{.repetition_penalty = 1.25f}));
}

TEST_F(GenerationSettingsTest, Errors_NameFileAndKey_WhenAValueIsOutOfRangeOrNoNumber) {
  const std::string hot = WithMetadata(GgufReal("general.sampling.temp", -1), 1);
  const std::string error = ErrorThrownBy([&] { Choose(hot, GenerationConfigMode::kAuto); });
  EXPECT_NE(error.find("model.gguf: general.sampling.temp must be a number from 0 to 100; --generation-config quire or "
                       "none leaves the file alone"),
            std::string::npos)
      << error;
  const std::string word =
      WithMetadata(GgufText("general.sampling.min_p") + BytesOf(uint32_t{8}) + GgufText("small"), 1);
  EXPECT_NE(ErrorThrownBy([&] { Choose(word, GenerationConfigMode::kAuto); }).find("general.sampling.min_p"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
