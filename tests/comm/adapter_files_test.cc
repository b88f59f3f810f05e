// Tests how PEFT directories are read, and which directories are refused with an error that names the cause.
#include "comm/model/adapter_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "comm/base/error.h"
#include "comm/model/adapter_config.h"
#include "comm/model/model_files.h"
#include "comm/model/name_pattern.h"
#include "tests/support/error_of.h"
#include "tests/support/rewritten_model.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string BaseOfAdapters() { return std::string(QUIRE_TEST_DATA) + "/models/gqa"; }

/// An adapter for all linear modules of the golden model gqa. Tests change the adapter.
class AdapterFilesTest : public testing::Test {
 protected:
  std::string Error() {
    const std::string path = adapter_.Write("adapter_model.safetensors");
    return ErrorThrownBy([&] { AdapterFiles::Open(path, base_); });
  }
  /// Returns the error of a configuration in which the key has this value.
  std::string ErrorWith(const std::string& key, const Json& value) {
    const Json before = adapter_.config;
    adapter_.config[key] = value;
    const std::string error = Error();
    adapter_.config = before;
    return error;
  }

  static constexpr const char* kQ = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
  static constexpr const char* kB = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
  ModelFiles base_ = ModelFiles::Open(BaseOfAdapters());
  test::RewrittenModel adapter_{"../adapters/gqa_all", "adapter_config.json"};
};

TEST_F(AdapterFilesTest, Open_ReadsEveryMatrix_WithItsRankAndScale) {
  const AdapterFiles adapter = AdapterFiles::Open(adapter_.Write("adapter_model.safetensors"), base_);
  EXPECT_EQ(adapter.matrices().size(), 3u * 7u);
  EXPECT_EQ(adapter.rank(), 8);
  EXPECT_EQ(adapter.matrices()[0].scale, 2.0f);
  EXPECT_EQ(adapter.fingerprint().size(), 32u);
}

TEST_F(AdapterFilesTest, OpenWithABound_KeepsTheBytesRead_WhenTheFileIsCutLater) {
  const std::string path = adapter_.Write("adapter_model.safetensors"), file = path + "/adapter_model.safetensors";
  const AdapterFiles mapped = AdapterFiles::Open(path, base_);
  EXPECT_THAT(ErrorThrownBy([&] { AdapterFiles::Open(path, base_, mapped.file_bytes() - 1); }),
              AllOf(HasSubstr(file), HasSubstr("at most")));
  const AdapterFiles copied = AdapterFiles::Open(path, base_, mapped.file_bytes());
  EXPECT_EQ(copied.fingerprint(), mapped.fingerprint());
  int64_t numbers = 0;
  for (const AdapterMatrix& matrix : mapped.matrices())
    numbers += matrix.a.rows() * matrix.a.cols() + matrix.b.rows() * matrix.b.cols();
  EXPECT_EQ(copied.bytes(), 4 * numbers);
  const std::span<const std::byte> last = mapped.matrices().back().b.data;
  const std::vector<std::byte> before(last.begin(), last.end());
  std::filesystem::resize_file(file, 10);
  EXPECT_TRUE(std::ranges::equal(copied.matrices().back().b.data, before));
}

TEST_F(AdapterFilesTest, Open_RefusesSparseFiles_BeforeReadingThem) {
  constexpr std::uintmax_t kTebibyte = std::uintmax_t{1} << 40;
  const std::string path = adapter_.Write("adapter_model.safetensors"), folder = path + "/adapter_model.safetensors";
  const std::string gguf = path + "/adapter.gguf";
  std::filesystem::copy_file(std::string(QUIRE_TEST_DATA) + "/adapters/gemma2_norms.gguf", gguf);
  const ModelFiles gemma = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/gemma2");
  const auto error_of = [&](const std::string& what, const ModelFiles& base, std::optional<size_t> most) {
    return ErrorThrownBy([&] { AdapterFiles::Open(what, base, most); });
  };
  for (const std::string& file : {folder, gguf}) std::filesystem::resize_file(file, kTebibyte);
  for (const std::optional<size_t> most : {std::optional<size_t>(), std::optional<size_t>(kTebibyte)}) {
    EXPECT_THAT(error_of(path, base_, most), AllOf(HasSubstr(folder), HasSubstr("holes")));
    EXPECT_THAT(error_of(gguf, gemma, most), AllOf(HasSubstr(gguf), HasSubstr("holes")));
  }
  std::filesystem::resize_file(path + "/adapter_config.json", kTebibyte);
  EXPECT_THAT(error_of(path, base_, {}), AllOf(HasSubstr("adapter_config.json"), HasSubstr("4194304")));
}

TEST_F(AdapterFilesTest, Fingerprint_DiffersWithSettingsAndTensors) {
  const std::string path = adapter_.Write("adapter_model.safetensors");
  const auto with = [&] { return ModelFiles::Open(BaseOfAdapters(), LoadFormat::kAuto, {path}).Fingerprint(); };
  const std::string first = with();
  EXPECT_NE(first, base_.Fingerprint());
  EXPECT_EQ(first, with());
  adapter_.config["lora_alpha"] = 17;
  adapter_.Write("adapter_model.safetensors");
  const std::string second = with();
  EXPECT_NE(second, first);
  adapter_.tensors.at(kB).bytes.back() ^= 1;
  adapter_.Write("adapter_model.safetensors");
  EXPECT_NE(with(), second);
}

TEST_F(AdapterFilesTest, Open_RefusesUnsupportedSettings_ThatWouldChangeTheResult) {
  const std::pair<const char*, Json> refused[] = {{"use_dora", true},
                                                  {"modules_to_save", {"lm_head"}},
                                                  {"lora_bias", true},
                                                  {"bias", "all"},
                                                  {"peft_type", "IA3"},
                                                  {"peft_type", nullptr},
                                                  {"target_parameters", {"experts.gate_up_proj"}},
                                                  {"layer_replication", {{0, 1}}},
                                                  {"trainable_token_indices", {1}},
                                                  {"alora_invocation_tokens", {1}},
                                                  {"use_qalora", true},
                                                  {"init_lora_weights", "pissa"},
                                                  {"a_key_of_later", 1},
                                                  {"r", 0},
                                                  {"r", 2.5},
                                                  {"r", "8"},
                                                  {"r", 100000},
                                                  {"lora_alpha", "x"},
                                                  {"use_rslora", 1},
                                                  {"target_modules", nullptr},
                                                  {"target_modules", 5},
                                                  {"target_modules", "("},
                                                  {"target_modules", std::string(5000, 'a')},
                                                  {"exclude_modules", {1}},
                                                  {"rank_pattern", {{"q_proj", "x"}}},
                                                  {"rank_pattern", {{"(", 8}}},
                                                  {"alpha_pattern", 5},
                                                  {"layers_to_transform", {"x"}},
                                                  {"layers_to_transform", {1e300}},
                                                  {"layers_to_transform", -1},
                                                  {"layers_to_transform", 0.5},
                                                  {"layers_pattern", 5}};
  for (const auto& [key, value] : refused)
    EXPECT_THAT(ErrorWith(key, value), AllOf(HasSubstr("adapter_config.json"), HasSubstr(key))) << key << value;
  const std::pair<const char*, Json> taken[] = {{"use_dora", false},      {"modules_to_save", Json::array()},
                                                {"lora_dropout", 0.1},    {"init_lora_weights", "gaussian"},
                                                {"fan_in_fan_out", true}, {"a_key_of_later", nullptr}};
  for (const auto& [key, value] : taken) EXPECT_EQ(ErrorWith(key, value), "") << key << value;
}

TEST_F(AdapterFilesTest, Open_RefusesScales_WhenTheyExceed32BitFloats) {
  for (const double alpha : {1e300, -1e300, 1e40})
    EXPECT_THAT(ErrorWith("lora_alpha", alpha),
                AllOf(HasSubstr(".lora_A.weight: its factor"), HasSubstr("beyond 32-bit numbers")))
        << alpha;
  EXPECT_THAT(ErrorWith("alpha_pattern", {{"q_proj", 1e300}}), HasSubstr("beyond 32-bit numbers"));
  EXPECT_EQ(ErrorWith("lora_alpha", 1e38), "");
}

TEST_F(AdapterFilesTest, Open_RefusesTensors_WhoseNamesNoAdapterHas) {
  const auto with = [this](const std::string& name, const std::vector<int64_t>& shape) {
    adapter_.AddTensor(name, shape);
    const std::string error = Error();
    adapter_.tensors.erase(name);
    EXPECT_THAT(error, HasSubstr("tensor " + name));
    return error;
  };
  const std::string layer = "base_model.model.model.layers.0.";
  EXPECT_THAT(with("base_model.model.lm_head.lora_A.weight", {8, 72}), HasSubstr("targets no such"));
  EXPECT_THAT(with(layer + "self_attn.q_proj.lora_magnitude_vector.weight", {72}), HasSubstr("none of a LoRA"));
  EXPECT_THAT(with("base_model.model.model.embed_tokens.lora_embedding_A", {8, 257}), HasSubstr("targets no such"));
  EXPECT_THAT(with("base_model.model.lm_head.lora_embedding_A", {8, 257}), HasSubstr("takes lora_A"));
  EXPECT_THAT(with("base_model.model.model.norm.weight", {72}), HasSubstr("embedding and of the output head only"));
  EXPECT_THAT(with("base_model.model.lm_head.weight", {259, 72}), HasSubstr("[259, 72] instead of [257, 72]"));
  EXPECT_THAT(with("base_model.model.lm_head.weight", {72}), HasSubstr("1 dimensions"));
  EXPECT_THAT(with("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta", {2, 72}),
              HasSubstr("names no such tokens"));
  EXPECT_THAT(with(layer + "mlp.experts.lora_A.weight", {8, 72}), HasSubstr("targets no"));
  EXPECT_THAT(with(layer + "self_attn.qkv_proj.lora_A.weight", {8, 72}), HasSubstr("no such matrix"));
  EXPECT_THAT(with("base_model.model.model.layers.7.mlp.up_proj.lora_A.weight", {8, 72}), HasSubstr("no such matrix"));
  EXPECT_THAT(with("model.layers.0.mlp.up_proj.lora_A.weight", {8, 72}), HasSubstr("none of a LoRA"));
  EXPECT_THAT(with(layer + "input_layernorm.lora_A.weight", {8, 72}), HasSubstr("no such matrix"));
}

TEST_F(AdapterFilesTest, Open_RefusesTensors_OfWrongShapesOrWithoutTheirPartner) {
  const auto whole = adapter_.tensors;
  const auto refused = [&](const char* name, const std::string& reason) {
    EXPECT_THAT(Error(), AllOf(HasSubstr(std::string("tensor ") + name), HasSubstr(reason)));
    adapter_.tensors = whole;
  };
  adapter_.AddTensor(kQ, {8, 71});
  refused(kQ, "[8, 71] instead of [8, 72]");
  adapter_.AddTensor(kQ, {7, 72});
  refused(kQ, "[7, 72] instead of [8, 72]");
  adapter_.AddTensor(kB, {80, 8});
  refused(kB, "[80, 8] instead of [72, 8]");
  adapter_.AddTensor(kB, {72, 2, 4});
  refused(kB, "3 dimensions");
  adapter_.tensors.erase(kB);
  refused(kQ, "other half");
  adapter_.tensors.erase(kQ);
  refused(kB, "other half");
  adapter_.tensors.at(kQ).entry["dtype"] = "I32";
  adapter_.tensors.at(kQ).entry["shape"] = {8, 36};
  refused(kQ, "I32");
}

TEST_F(AdapterFilesTest, Open_RefusesFiles_ThatLackTensorsOfATargetedModule) {
  adapter_.tensors.erase(kQ);
  adapter_.tensors.erase(kB);
  EXPECT_THAT(Error(), HasSubstr("model.layers.0.self_attn.q_proj, of which the file has no tensors"));
  adapter_.config["exclude_modules"] = {"layers.0.self_attn.q_proj"};
  EXPECT_EQ(Error(), "");
  adapter_.config["exclude_modules"] = {"q_proj"};
  EXPECT_THAT(Error(), HasSubstr("targets no such module"));
  adapter_.tensors.clear();
  EXPECT_THAT(Error(), HasSubstr("no tensors"));
}

TEST_F(AdapterFilesTest, Open_RefusesFolders_WithoutTheFilesOfAnAdapter) {
  const auto error_of = [&](const std::string& path) {
    return ErrorThrownBy([&] { AdapterFiles::Open(path, base_); });
  };
  const std::string path = adapter_.Write("adapter_model.safetensors");
  std::filesystem::resize_file(path + "/adapter_model.safetensors", 5000);
  EXPECT_THAT(error_of(path), HasSubstr("adapter_model.safetensors"));
  std::filesystem::remove(path + "/adapter_config.json");
  EXPECT_THAT(error_of(path), HasSubstr("adapter_config.json"));
  std::filesystem::remove(path + "/adapter_model.safetensors");
  EXPECT_THAT(error_of(path), HasSubstr("holds no adapter_model.safetensors"));
  EXPECT_THAT(error_of(path + "/none"), HasSubstr("none"));
}

TEST_F(AdapterFilesTest, Open_RefusesAdapters_OfModelsThatSupportNoAdapters) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/adapters/gqa_all";
  for (const auto& [model, reason] :
       {std::pair{"neox.gguf", "an adapter in GGUF"}, {"deepseekv2", "latent attention"}}) {
    const ModelFiles base = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + model);
    EXPECT_THAT(ErrorThrownBy([&] { AdapterFiles::Open(path, base); }), HasSubstr(reason));
  }
  const ModelFiles mixture = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/qwen3moe");
  EXPECT_THAT(ErrorThrownBy([&] { AdapterFiles::Open(path, mixture); }), HasSubstr("tensor"));
}

AdapterConfig ConfigOf(Json changes) {
  Json config = {{"peft_type", "LORA"}, {"r", 8}, {"lora_alpha", 16}, {"target_modules", {"q_proj"}}};
  if (!changes.is_null()) config.update(changes);
  return AdapterConfig(config.dump(), "c.json");
}

TEST(AdapterConfigTest, Targets_FollowsPeft_ForListsPatternsAndLayers) {
  const std::string q0 = "model.layers.0.self_attn.q_proj", q2 = "model.layers.2.self_attn.q_proj";
  EXPECT_TRUE(ConfigOf({}).Targets(q0));
  EXPECT_FALSE(ConfigOf({}).Targets("model.layers.0.self_attn.xq_proj"));
  EXPECT_TRUE(ConfigOf({{"target_modules", {"self_attn.q_proj"}}}).Targets(q0));
  EXPECT_TRUE(ConfigOf({{"target_modules", R"(.*\.0\.self_attn\..*)"}}).Targets(q0));
  EXPECT_FALSE(ConfigOf({{"target_modules", R"(.*\.0\.self_attn\..*)"}}).Targets(q2));
  EXPECT_FALSE(ConfigOf({{"target_modules", "q_proj"}}).Targets(q0));  // a pattern matches the whole name
  EXPECT_TRUE(ConfigOf({{"layers_to_transform", 0}}).Targets(q0));
  EXPECT_FALSE(ConfigOf({{"layers_to_transform", 0}}).Targets(q2));
  EXPECT_TRUE(ConfigOf({{"layers_to_transform", {1, 2}}, {"layers_pattern", "layers"}}).Targets(q2));
  EXPECT_FALSE(ConfigOf({{"layers_to_transform", {2}}, {"layers_pattern", "blocks"}}).Targets(q2));
  EXPECT_TRUE(ConfigOf({{"layers_to_transform", {1}}, {"target_modules", {q2}}}).Targets(q2));  // its whole name
  EXPECT_TRUE(ConfigOf({{"layers_to_transform", Json::array()}}).Targets(q2));
  EXPECT_FALSE(ConfigOf({{"exclude_modules", {q2}}}).Targets(q2));
  EXPECT_FALSE(ConfigOf({{"exclude_modules", R"(.*\.2\..*)"}}).Targets(q2));
  EXPECT_TRUE(ConfigOf({{"target_modules", "all-linear"}}).Targets("any"));
}

TEST(AdapterConfigTest, RanksAndScalesOfSingleModules_ComeFromTheFirstPatternThatMatches) {
  const std::string q0 = "model.layers.0.self_attn.q_proj", up = "model.layers.0.mlp.up_proj";
  const AdapterConfig config = ConfigOf({{"rank_pattern", {{"q_proj", 4}, {R"(layers\.0\..*)", 2}}},
                                         {"alpha_pattern", {{"^model.layers.0.mlp.up_proj", 3}}}});
  EXPECT_EQ(config.RankOf(up), 2);
  EXPECT_EQ(config.RankOf("model.layers.1.mlp.up_proj"), 8);
  EXPECT_EQ(config.ScaleOf(up), 1.5);
  EXPECT_EQ(ConfigOf({{"use_rslora", true}, {"r", 16}}).ScaleOf(q0), 4);
  const auto first = [&](const std::string& text) { return AdapterConfig(text, "c.json").RankOf(q0); };
  const std::string rest = R"("peft_type": "LORA", "r": 8, "lora_alpha": 1, "target_modules": ["q_proj"]})";
  EXPECT_EQ(first(R"({"rank_pattern": {"q_proj": 4, "layers.*": 2}, )" + rest), 4);
  EXPECT_EQ(first(R"({"rank_pattern": {"layers.*": 2, "q_proj": 4}, )" + rest), 2);
}

TEST(AdapterConfigTest, Patterns_ThrowAnError_WhenTogetherTheyExceedTheTimeLimit) {
  const std::string name = "model.layers.0.self_attn.q_proj";
  Json settings = {{"peft_type", "LORA"}, {"r", 8}, {"lora_alpha", 1}, {"target_modules", {"q_proj"}}};
  for (int i = 0; i < 1000; ++i) settings["rank_pattern"]["[a-z_.0-9]*[a-z_.0-9]*[a-z_.0-9]*!" + std::to_string(i)] = 4;
  const auto time = std::make_shared<PatternTime>(PatternTime{std::chrono::milliseconds(20)});
  const AdapterConfig config(settings.dump(), "c.json", time);
  EXPECT_THAT(ErrorThrownBy([&] {
                for (int i = 0; i < 100'000; ++i) config.RankOf(name);
              }),
              AllOf(HasSubstr("c.json: rank_pattern"), HasSubstr("too much work")));
  EXPECT_LT(time->left.count(), 0);
}

TEST(NamePatternTest, Matches_ThrowsAnError_WhenAPatternExceedsTheWorkLimit) {
  const NamePattern pattern("(a*)*(a*)*[bd]", "c.json: target_modules");
  EXPECT_TRUE(pattern.Matches("aab"));
  EXPECT_THAT(ErrorThrownBy([&] { pattern.Matches(std::string(400, 'a') + "c"); }),
              AllOf(HasSubstr("c.json: target_modules"), HasSubstr("too much work")));
}

}  // namespace
}  // namespace quire
