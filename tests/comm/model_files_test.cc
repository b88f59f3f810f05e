#include "comm/model/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "comm/model/formats/gguf_parts.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/formats/mxfp4.h"
#include "comm/model/formats/safetensors.h"
#include "tests/support/error_of.h"
#include "tests/support/random.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class ModelFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("quire-test-" + std::to_string(::getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
    return dir_ / name;
  }
  std::string SafetensorsError(const std::string& bytes) {
    const MappedFile file(Write("t.safetensors", bytes));
    return ErrorThrownBy([&] { ReadSafetensors(file.bytes(), file.path()); });
  }
  std::string GgufError(const std::string& bytes) {
    const MappedFile file(Write("t.gguf", bytes));
    return ErrorThrownBy([&] { ReadGguf(file.bytes(), file.path()); });
  }

  fs::path dir_;
};

std::string Number(uint64_t value, int bytes) {
  return {reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes)};
}
std::string Safetensors(const std::string& header, size_t data_bytes) {
  return Number(header.size(), 8) + header + std::string(data_bytes, '\1');
}
const std::string kGood = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                          R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";

TEST_F(ModelFilesTest, Safetensors_AreReadInPlace) {
  const MappedFile file(Write("t.safetensors", Safetensors(kGood, 22)));
  const TensorMap tensors = ReadSafetensors(file.bytes(), file.path());
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.at("a").shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tensors.at("b").type, NumberType::kBF16);
  EXPECT_EQ(tensors.at("b").data.data(), file.bytes().data() + 8 + kGood.size() + 16);
}

TEST_F(ModelFilesTest, BrokenSafetensors_AreRefusedWithAReason) {
  const auto entry = [](const std::string& body) { return "{\"a\":{" + body + "}}"; };
  const std::pair<std::string, std::string> cases[] = {
      {"", "empty"},
      {"1234567", "too short"},
      {Number(1000, 8) + "{}", "not a safetensors file"},
      {Number(uint64_t{1} << 63, 8) + "{}", "not a safetensors file"},
      {Number(200'000'000, 8) + "{}", "not a safetensors file"},
      {Number(2, 8) + "[]", "not a safetensors file"},
      {Safetensors("{\"a\":1}", 0), "expected exactly"},
      {Safetensors("{\"a\"", 0), "header"},
      {Safetensors(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 4), "truncated download?"},
      {Safetensors(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8), "outside"},
      {Safetensors(entry(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), 8), "non-negative"},
      {Safetensors(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8), "non-negative"},
      {Safetensors(entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8), "its shape needs 12"},
      {Safetensors(entry(R"("dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8])"), 8),
       "impossible shape"},
      {Safetensors(entry(R"("dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,8])"), 8),
       "impossible shape"},
      {Safetensors(entry(R"("dtype":"C64","shape":[1],"data_offsets":[0,8])"), 8), "dtype C64"},
      {Safetensors(entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,8])"), 8), "non-negative"},
      {Safetensors(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), 8), "expected exactly"},
      {Safetensors(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), 8), "expected exactly"},
      {Safetensors(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 12), "belong to no tensor"},
      {Safetensors(entry(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), 12), "hole"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],)"
                   R"("data_offsets":[4,12]}})",
                   12),
       "overlaps"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],)"
                   R"("data_offsets":[0,8]}})",
                   8),
       "duplicate key"},
      {Safetensors("{\"a b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8), "unacceptable name"},
      {Safetensors("{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8), "unacceptable name"},
      {Safetensors("{\"" + std::string(600, 'x') + "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
       "unacceptable name"},
      {Safetensors(std::string(20, '[') + std::string(20, ']'), 0), "not a safetensors file"},
  };
  for (const auto& [bytes, reason] : cases) {
    std::string error;
    try {
      error = SafetensorsError(bytes);
    } catch (const Error& e) {
      error = e.what();
    }
    EXPECT_NE(error.find(reason), std::string::npos) << "got \"" << error << "\", expected \"" << reason << "\"";
  }
}

/// The parts of a GGUF file, each of which a test can break.
struct GgufBytes {
  std::string magic = "GGUF", version = Number(3, 4), values, infos, data;
  uint64_t num_tensors = 0, num_values = 0;

  static std::string Text(const std::string& s) { return Number(s.size(), 8) + s; }
  GgufBytes& Value(const std::string& key, uint32_t type, const std::string& bytes) {
    values += Text(key) + Number(type, 4) + bytes;
    ++num_values;
    return *this;
  }
  GgufBytes& Tensor(const std::string& name, std::vector<uint64_t> extents, uint32_t type, uint64_t offset) {
    infos += Text(name) + Number(extents.size(), 4);
    for (const uint64_t e : extents) infos += Number(e, 8);
    infos += Number(type, 4) + Number(offset, 8);
    ++num_tensors;
    return *this;
  }
  std::string Bytes() const {
    std::string out = magic + version + Number(num_tensors, 8) + Number(num_values, 8) + values + infos;
    out.resize((out.size() + 31) / 32 * 32);
    return out + data;
  }
};

GgufBytes GoodGguf() {
  GgufBytes g;
  g.Value("a.int", 4, Number(7, 4))
      .Value("a.text", 8, GgufBytes::Text("hey"))
      .Value("a.list", 9, Number(8, 4) + Number(2, 8) + GgufBytes::Text("x") + GgufBytes::Text("yz"));
  g.Tensor("w", {32, 2}, 2, 0);  // Q4_0: two rows of one block each
  g.data.assign(36, '\2');
  return g;
}

TEST_F(ModelFilesTest, Gguf_IsReadInPlace_WithReversedShapes) {
  const MappedFile file(Write("t.gguf", GoodGguf().Bytes()));
  const GgufFile gguf = ReadGguf(file.bytes(), file.path());
  EXPECT_EQ(gguf.Get<int64_t>("a.int"), 7);
  EXPECT_EQ(gguf.Get<std::string>("a.text"), "hey");
  EXPECT_EQ(gguf.Get<std::vector<std::string>>("a.list"), (std::vector<std::string>{"x", "yz"}));
  EXPECT_EQ(gguf.Find<int64_t>("none"), nullptr);
  EXPECT_THROW(gguf.Get<int64_t>("a.text"), Error);
  EXPECT_EQ(gguf.tensors.at("w").shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(gguf.tensors.at("w").data.size(), 36u);
}

TEST_F(ModelFilesTest, BrokenGguf_IsRefusedWithAReason) {
  const auto broken = [](auto change) {
    GgufBytes g = GoodGguf();
    change(g);
    return g.Bytes();
  };
  const std::pair<std::string, std::string> cases[] = {
      {broken([](auto& g) { g.magic = "GGML"; }), "not a GGUF file"},
      {broken([](auto& g) { g.version = Number(1, 4); }), "version 1"},
      {broken([](auto& g) { g.num_tensors = uint64_t{1} << 60; }), "cannot fit"},
      {broken([](auto& g) { g.num_values = uint64_t{1} << 60; }), "cannot fit"},
      {broken([](auto& g) { g.Value("s", 8, Number(uint64_t{1} << 40, 8)); }), "a string of"},
      {broken([](auto& g) { g.Value("l", 9, Number(4, 4) + Number(uint64_t{1} << 61, 8)); }), "cannot fit"},
      {broken([](auto& g) { g.Value("l", 9, Number(9, 4) + Number(1, 8)); }), "nested arrays"},
      {broken([](auto& g) { g.Value("t", 99, Number(1, 8)); }), "unknown value type 99"},
      {broken([](auto& g) { g.Value("a.int", 4, Number(1, 4)); }), "given twice"},
      {broken([](auto& g) { g.Value("u", 10, Number(UINT64_MAX, 8)); }), "too large"},
      {broken([](auto& g) { g.Value("general.alignment", 4, Number(24, 4)); }), "power of two"},
      {broken([](auto& g) { g.Tensor("w", {32}, 2, 0); }), "given twice"},
      {broken([](auto& g) { g.Tensor("x", {33}, 2, 0); }), "do not fill blocks"},
      {broken([](auto& g) {
         g.Tensor("x", {1, 1, 1, 1, 1}, 0, 0);
       }),
       "dimensions"},
      {broken([](auto& g) {
         g.Tensor("x", {uint64_t{1} << 62, 8}, 0, 0);
       }),
       "impossible shape"},
      {broken([](auto& g) { g.Tensor("x", {UINT64_MAX}, 0, 0); }), "impossible shape"},
      {broken([](auto& g) { g.Tensor("x", {64}, 0, 0); }), "outside the file"},
      {broken([](auto& g) { g.Tensor("x", {1}, 0, uint64_t{1} << 63); }), "outside the file"},
      {broken([](auto& g) { g.Tensor("x", {1}, 0, 3); }), "not aligned"},
      {broken([](auto& g) { g.Tensor("x", {256}, 15, 0); }), "type Q8_K is not supported"},
      {broken([](auto& g) { g.data.resize(20); }), "incomplete download?"},
  };
  for (const auto& [bytes, reason] : cases)
    EXPECT_NE(GgufError(bytes).find(reason), std::string::npos) << GgufError(bytes) << " / " << reason;
}

TEST_F(ModelFilesTest, UnsupportedArchitecturesAndKeys_OfGguf_AreRefusedByName) {
  const auto error_of = [&](const std::string& architecture, const std::string& key, uint32_t type,
                            const std::string& value) -> std::string {
    GgufBytes g = GoodGguf();
    g.Value("general.architecture", 8, GgufBytes::Text(architecture));
    for (const char* size :
         {"embedding_length", "block_count", "attention.head_count", "feed_forward_length", "context_length"}) {
      g.Value(architecture + "." + size, 4, Number(8, 4));
    }
    g.Value(architecture + ".attention.layer_norm_rms_epsilon", 6, Number(std::bit_cast<uint32_t>(1e-5f), 4));
    g.Value("tokenizer.ggml.tokens", 9, Number(8, 4) + Number(1, 8) + GgufBytes::Text("x"));
    if (!key.empty()) g.Value(architecture + "." + key, type, value);
    if (key == "rope.dimension_count") g.Tensor("rope_freqs.weight", {4}, 0, 0);
    const MappedFile file(Write("t.gguf", g.Bytes()));
    return ErrorThrownBy([&] { SpecFromGguf(ReadGguf(file.bytes(), "t.gguf")); });
  };
  EXPECT_TRUE(
      error_of("mamba", "", 0, "")
          .starts_with(
              "t.gguf: architecture \"mamba\" is not supported; supported: afmoe, arcee, bert, bloom, cohere2, "));
  EXPECT_EQ(error_of("llama", "expert_count", 4, Number(0, 4)),
            "t.gguf: 1 of 1 dimensions of a head cannot rotate in pairs");
  EXPECT_EQ(error_of("qwen2", "expert_count", 4, Number(8, 4)),
            "t.gguf: metadata qwen2.expert_count = 8 is not supported for this architecture");
  EXPECT_EQ(error_of("qwen3", "rope.dimension_sections", 9, Number(4, 4) + Number(1, 8) + Number(2, 4)),
            "t.gguf: metadata qwen3.rope.dimension_sections = [] is not supported for this architecture");
  EXPECT_EQ(error_of("qwen2", "rope.scaling.type", 8, GgufBytes::Text("x")),
            "t.gguf: rope scaling of type x is not supported");
  EXPECT_EQ(error_of("qwen2", "attention.value_length", 4, Number(16, 4)),
            "t.gguf: values of another length than keys are not supported");
  EXPECT_EQ(error_of("llama", "rope.dimension_count", 10, Number(uint64_t{1} << 38, 8)),
            "t.gguf: rope_freqs.weight must hold 137438953472 F32 numbers");
}

/// Returns the bytes of part `number` (from 0 on) of `count` parts of a split GGUF model. The part has these tensors;
/// it says that all parts together have `all` tensors (-1: it says nothing).
std::string GgufPartBytes(uint64_t number, uint64_t count, const std::vector<std::string>& tensors, int32_t all = -1) {
  GgufBytes g;
  if (number == 0) g.Value("a.text", 8, GgufBytes::Text("hey"));
  g.Value("split.no", 2, Number(number, 2)).Value("split.count", 2, Number(count, 2));
  if (all >= 0) g.Value("split.tensors.count", 5, Number(static_cast<uint64_t>(all), 4));
  for (const std::string& name : tensors) g.Tensor(name, {8}, 0, 32 * (g.num_tensors));
  g.data.assign(32 * tensors.size(), static_cast<char>('0' + number));
  return g.Bytes();
}

TEST_F(ModelFilesTest, FirstPartOfASplitGguf_OpensAllParts) {
  const auto error_of = [&](const std::string& path) -> std::string {
    std::vector<MappedFile> files;
    return ErrorThrownBy([&] { ReadGgufParts(path, files); });
  };
  const std::string first = Write("m-00001-of-00003.gguf", GgufPartBytes(0, 3, {"a", "b"}, 4));
  EXPECT_THAT(error_of(first), testing::HasSubstr("m-00002-of-00003.gguf: part 2 of 3 is missing"));
  const std::string second = Write("m-00002-of-00003.gguf", GgufPartBytes(1, 3, {"c"}));
  Write("m-00003-of-00003.gguf", GgufPartBytes(2, 3, {"d"}));
  std::vector<MappedFile> files;
  const GgufFile whole = ReadGgufParts(first, files);
  EXPECT_EQ(files.size(), 3u);
  EXPECT_EQ(whole.tensors.size(), 4u);
  EXPECT_EQ(whole.Get<std::string>("a.text"), "hey");
  EXPECT_EQ(whole.tensors.at("d").data[0], std::byte{'2'});
  EXPECT_EQ(GgufPaths(first), (std::vector<std::string>{first, second, (dir_ / "m-00003-of-00003.gguf").string()}));
  // Some programs write a first part without tensors.
  Write("n-00001-of-00002.gguf", GgufPartBytes(0, 2, {}));
  Write("n-00002-of-00002.gguf", GgufPartBytes(1, 2, {"a"}));
  EXPECT_EQ(error_of(dir_ / "n-00001-of-00002.gguf"), "");

  EXPECT_THAT(error_of(second), testing::HasSubstr("is part 2 of a model in 3 files; give the first, " + first));
  EXPECT_THAT(error_of(Write("other.gguf", GgufPartBytes(0, 3, {"a"}))),
              testing::HasSubstr("call it NAME-00001-of-00003.gguf"));
  Write("m-00003-of-00003.gguf", GgufPartBytes(2, 3, {"a"}));
  EXPECT_THAT(error_of(first), testing::HasSubstr("tensor a is in another part, too"));
  Write("m-00003-of-00003.gguf", GgufPartBytes(1, 3, {"d"}));
  EXPECT_THAT(error_of(first), testing::HasSubstr("is not part 3 of 3"));
  Write("m-00003-of-00003.gguf", GgufPartBytes(2, 3, {"d", "e"}));
  EXPECT_THAT(error_of(first), testing::HasSubstr("3 parts have 5 tensors instead of 4"));
  EXPECT_THAT(error_of(Write("k-00001-of-60000.gguf", GgufPartBytes(0, 60000, {}))), testing::HasSubstr("400 at most"));
  EXPECT_EQ(GgufPartNamed("x/NAME-Q4_K_M-00002-of-00010.gguf")->prefix, "x/NAME-Q4_K_M");
  for (const char* name : {"m.gguf", "m-00001-of-00002.bin", "m-0001-of-00002.gguf", "m-00003-of-00002.gguf",
                           "00001-of-00002.gguf", "m-00000-of-00002.gguf", "-of-00002.gguf", ".gguf"})
    EXPECT_FALSE(GgufPartNamed(name).has_value()) << name;
}

TEST_F(ModelFilesTest, TruncatedAndMutatedFiles_NeverCrashTheReader) {
  const std::string gguf = GoodGguf().Bytes(), safetensors = Safetensors(kGood, 22);
  for (size_t length = 1; length < gguf.size(); ++length) EXPECT_NE(GgufError(gguf.substr(0, length)), "") << length;
  for (size_t length = 1; length < safetensors.size(); ++length)
    EXPECT_NE(SafetensorsError(safetensors.substr(0, length)), "") << length;
  test::Random random(3);
  for (int i = 0; i < 4000; ++i) {
    std::string a = gguf, b = safetensors;
    for (int64_t m = random.Between(1, 4); m > 0; --m) {
      a[static_cast<size_t>(random.Below(static_cast<int64_t>(a.size())))] = static_cast<char>(random.Bits());
      b[static_cast<size_t>(random.Below(static_cast<int64_t>(b.size())))] = static_cast<char>(random.Bits());
    }
    GgufError(a);
    SafetensorsError(b);
  }
}

TEST_F(ModelFilesTest, ShardedAndSingleFileModels_CanBeOpened_AndHaveDifferentFingerprints) {
  const std::string models = std::string(QUIRE_TEST_DATA) + "/models/";
  const ModelFiles mqa = ModelFiles::Open(models + "mqa"), gqa = ModelFiles::Open(models + "gqa");
  EXPECT_EQ(mqa.spec().num_heads, 5);
  EXPECT_EQ(mqa.spec().ropes[0].scaling, RopeScaling::kLlama3);
  EXPECT_EQ(gqa.Get(Role::kEmbedding).type, NumberType::kBF16);
  EXPECT_NE(mqa.Fingerprint(), gqa.Fingerprint());
  EXPECT_EQ(gqa.Fingerprint(), ModelFiles::Open(models + "gqa").Fingerprint());
}

TEST_F(ModelFilesTest, BlocksAndScalesOfMxFp4_BecomeOneTensor) {
  const std::vector<std::byte> bytes(2 * 3 * 16);
  const auto of = [&](std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    return Tensor{NumberType::kU8, std::move(shape), std::span(bytes).first(static_cast<size_t>(count))};
  };
  const auto error_of = [&](TensorMap tensors) -> std::string {
    return ErrorThrownBy([&] { JoinMxFp4(tensors, "model"); });
  };
  TensorMap tensors = {{"w_blocks", of({2, 3, 16})}, {"w_scales", of({2, 3})}, {"mask_scales", of({4})}};
  JoinMxFp4(tensors, "model");
  EXPECT_EQ(tensors.size(), 2u);
  DropMasks(tensors);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors.at("w").type, NumberType::kMxFp4Pairs);
  EXPECT_EQ(tensors.at("w").shape, (std::vector<int64_t>{2, 96}));
  EXPECT_EQ(tensors.at("w").data.size(), 96u);
  EXPECT_EQ(tensors.at("w").scales.size(), 6u);
  const std::string wants = "model: tensor w_blocks needs w_scales";
  EXPECT_THAT(error_of({{"w_blocks", of({2, 3, 16})}}), testing::StartsWith(wants));
  EXPECT_THAT(error_of({{"w_blocks", of({2, 3, 16})}, {"w_scales", of({3, 2})}}), testing::StartsWith(wants));
  EXPECT_THAT(error_of({{"w_blocks", of({2, 3, 8})}, {"w_scales", of({2, 3})}}), testing::StartsWith(wants));
  EXPECT_THAT(error_of({{"w_blocks", of({16})}, {"w_scales", of({1})}}), testing::StartsWith(wants));
  EXPECT_THAT(error_of({{"w_blocks", of({0, int64_t{1} << 59, 16})}, {"w_scales", of({0, int64_t{1} << 59})}}),
              testing::HasSubstr("too long"));
  EXPECT_THAT(error_of({{"w", of({3})}, {"w_blocks", of({1, 16})}, {"w_scales", of({1})}}),
              testing::HasSubstr("w is there twice"));
}

// Two hosts may have equal weights and still scale positions differently.
TEST_F(ModelFilesTest, Fingerprint_ChangesWithRopeScaling) {
  const std::string models = std::string(QUIRE_TEST_DATA) + "/models/";
  std::string config = ReadTextFile(models + "mqa/config.json", 1 << 20);
  fs::copy(models + "mqa", dir_ / "mqa");
  const std::string as_it_was = ModelFiles::Open(dir_ / "mqa").Fingerprint();
  EXPECT_EQ(as_it_was, ModelFiles::Open(models + "mqa").Fingerprint());
  for (const std::string key : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    std::string other = config;
    const size_t value = other.find("\"" + key + "\": ") + key.size() + 4;
    other.replace(value, 1, "3");  // factors of 3.0 and a length of 34
    ASSERT_NE(other, config);
    Write("mqa/config.json", other);
    EXPECT_NE(ModelFiles::Open(dir_ / "mqa").Fingerprint(), as_it_was) << key;
  }
}

TEST_F(ModelFilesTest, SlidingWindow_IsRead_ForMistralButNotForLlama) {
  const auto window_of = [](const std::string& type_and_window) {
    return SpecFromHf(
               R"({"hidden_size":8,"num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":8,"vocab_size":9,)"
               R"("max_position_embeddings":16,)" +
                   type_and_window + "}",
               "", "config.json")
        .window();
  };
  EXPECT_EQ(window_of(R"("model_type":"mistral","sliding_window":24)"), 24);
  EXPECT_EQ(window_of(R"("model_type":"mistral","sliding_window":null)"), 0);
  EXPECT_EQ(window_of(R"("model_type":"mistral")"), 4096) << "where the file is silent";
  EXPECT_EQ(window_of(R"("model_type":"llama","sliding_window":24)"), 0);
}

TEST_F(ModelFilesTest, Errors_NameTheKeyOfAWrongConfiguration) {
  const auto error_of = [](const std::string& config) -> std::string {
    return ErrorThrownBy([&] { SpecFromHf(config, "", "config.json"); });
  };
  const std::string good =
      R"("model_type":"llama","num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":8,"vocab_size":9,)"
      R"("max_position_embeddings":16)";
  EXPECT_EQ(error_of("{\"hidden_size\":8," + good + "}"), "");
  EXPECT_EQ(error_of("{" + good + "}"), "config.json: hidden_size is missing");
  EXPECT_EQ(error_of("{\"hidden_size\":\"8\"," + good + "}"), "config.json: hidden_size must be an integer");
  EXPECT_EQ(error_of("{\"hidden_size\":-8," + good + "}").substr(0, 31), "config.json: hidden_size = -8 i");
  EXPECT_NE(error_of("{\"hidden_size\":8,\"num_key_value_heads\":3," + good + "}").find("do not divide"),
            std::string::npos);
  EXPECT_TRUE(error_of("{\"hidden_size\":8,\"model_type\":\"x\"}")
                  .starts_with("config.json: architecture \"x\" is not supported; supported: afmoe, arcee, aya_vision "
                               "(text only), bamba, bert, "));
  const std::string mistral = "{\"hidden_size\":8,\"model_type\":\"mistral\"," + good.substr(good.find(',') + 1);
  EXPECT_EQ(error_of(mistral + ",\"sliding_window\":-1}"), "config.json: sliding_window = -1 is out of range");
  EXPECT_EQ(error_of(mistral + ",\"sliding_window\":\"4\"}"), "config.json: sliding_window must be an integer");
  EXPECT_NE(error_of("[]").find("expected an object"), std::string::npos);
}

/// Returns the resident pages of mapped files of this process, in kB.
int64_t ResidentFilePages() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "RssFile:" && status >> kilobytes) return kilobytes;
  }
  return -1;
}

TEST_F(ModelFilesTest, ReleasePages_FreesResidentPages_WhichCanBeReadAgain) {
  constexpr size_t kBytes = 16 << 20;
  const MappedFile file(Write("pages", std::string(kBytes, 'x')));
  const auto count = [&] { return std::ranges::count(file.bytes(), std::byte{'x'}); };
  EXPECT_EQ(count(), std::ssize(file.bytes()));
  const int64_t before = ResidentFilePages();
  file.ReleasePages();
  EXPECT_LT(ResidentFilePages(), before - 15 * 1024);
  EXPECT_EQ(count(), std::ssize(file.bytes()));
}

}  // namespace
}  // namespace quire
