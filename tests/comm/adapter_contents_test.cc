// Tests adapters with embeddings, heads or experts, and adapters in llama.cpp's format. An adapter with parts that are
// damaged, missing, unsupported or do not fit the base model must be refused, with an error that names the part.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/model/adapter_files.h"
#include "comm/model/model_files.h"
#include "tests/support/error_of.h"
#include "tests/support/rewritten_model.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// An adapter whose files a test changes, and its base model.
struct ChangedAdapter {
  ModelFiles base;
  test::RewrittenModel files;

  ChangedAdapter(const std::string& model, const std::string& name)
      : base(ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + model)),
        files("../adapters/" + name, "adapter_config.json") {}
  std::string Error() {
    const std::string path = files.Write("adapter_model.safetensors");
    return ErrorThrownBy([&] { AdapterFiles::Open(path, base); });
  }
};

TEST(AdapterTablesTest, Open_RefusesTokensAndWeights_ThatDoNotFitTheConfiguration) {
  const std::string rows = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
  ChangedAdapter tokens("gqa", "gqa_tokens");
  EXPECT_EQ(tokens.Error(), "");
  const Json right = tokens.files.config["trainable_token_indices"];
  const auto with = [&](const Json& ids) {
    tokens.files.config["trainable_token_indices"]["embed_tokens"] = ids;
    return tokens.Error();
  };
  EXPECT_THAT(with({7, 3}), AllOf(HasSubstr("tensor " + rows), HasSubstr("[3, 72] instead of [2, 72]")));
  EXPECT_THAT(with({7, 3, 7}), HasSubstr("token 7 of model.embed_tokens twice"));
  EXPECT_THAT(with({7, 3, 257}), HasSubstr("token 257 of model.embed_tokens, which has 257"));
  EXPECT_THAT(with({7, 3, -1}), HasSubstr("trainable_token_indices must hold ids of tokens"));
  EXPECT_THAT(with(5), HasSubstr("trainable_token_indices must hold lists"));
  tokens.files.config["trainable_token_indices"] = right;
  tokens.files.tensors.erase(rows);
  EXPECT_THAT(tokens.Error(), HasSubstr("names embed_tokens (trainable_token_indices), of which the file has no"));
  ChangedAdapter saved("gqa", "gqa_saved");
  EXPECT_EQ(saved.Error(), "");
  saved.files.tensors.erase("base_model.model.lm_head.weight");
  EXPECT_THAT(saved.Error(), HasSubstr("names lm_head (modules_to_save), of which the file has no tensors"));
  ChangedAdapter embedded("gqa", "gqa_tables");
  EXPECT_EQ(embedded.Error(), "");
  embedded.files.AddTensor("base_model.model.model.embed_tokens.lora_embedding_B", {72, 5});
  EXPECT_THAT(embedded.Error(), HasSubstr("lora_embedding_B: [72, 5] instead of [72, 4]"));
}

TEST(AdapterExpertsTest, Open_RefusesExperts_WhenTheyAreMissingMisshapenOrPresentTwice) {
  const std::string layer = "base_model.model.model.layers.1.mlp.experts";
  ChangedAdapter experts("qwen3moe", "qwen3moe_experts");
  const auto whole = experts.files.tensors;
  const auto error = [&] {
    const std::string found = experts.Error();
    experts.files.tensors = whole;
    return found;
  };
  EXPECT_EQ(error(), "");
  experts.files.AddTensor(layer + ".base_layer.lora_B.weight", {40, 20});
  EXPECT_THAT(error(), HasSubstr("tensor " + layer + ".base_layer.lora_B.weight: [40, 20] instead of [40, 21]"));
  experts.files.tensors.erase(layer + ".lora_B.weight");
  EXPECT_THAT(error(), HasSubstr("tensor " + layer + ".lora_A.weight: its other half is missing"));
  experts.files.tensors.erase(layer + ".lora_A.weight");
  experts.files.tensors.erase(layer + ".lora_B.weight");
  EXPECT_THAT(error(), HasSubstr("without base_layer"));
  for (const char* part : {".base_layer", ""}) {
    experts.files.tensors.erase(layer + part + ".lora_A.weight");
    experts.files.tensors.erase(layer + part + ".lora_B.weight");
  }
  EXPECT_THAT(error(), HasSubstr("model.layers.1.mlp.experts.down_proj (target_parameters), of which the file has no"));
  experts.files.config["target_modules"] = {"k_proj", "gate_proj"};
  experts.files.AddTensor(layer + ".2.gate_proj.lora_A.weight", {3, 48});
  experts.files.AddTensor(layer + ".2.gate_proj.lora_B.weight", {20, 3});
  for (int64_t number = 0; number < experts.base.spec().num_layers(); ++number) {
    for (int64_t expert = 0; expert < 7; ++expert) {
      const std::string module =
          fmt::format("base_model.model.model.layers.{}.mlp.experts.{}.gate_proj.lora_", number, expert);
      experts.files.AddTensor(module + "A.weight", {3, 48});
      experts.files.AddTensor(module + "B.weight", {20, 3});
    }
  }
  EXPECT_THAT(error(), HasSubstr("change the same weight of the base model"));
}

/// Returns the error for an adapter in llama.cpp's format in which `from` is replaced by `to`, of the same length.
std::string ErrorOfGguf(const std::string& from, const std::string& to, const std::string& model = "linear.gguf") {
  const std::string data = QUIRE_TEST_DATA;
  std::string bytes = ReadTextFile(data + "/adapters/linear_all.gguf", 1 << 20);
  const size_t place = bytes.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  bytes.replace(place, from.size(), to);
  const TemporaryDirectory folder;
  WriteTextFile(folder.path() + "/adapter.gguf", bytes);
  const ModelFiles base = ModelFiles::Open(data + "/models/" + model);
  return ErrorThrownBy([&] { AdapterFiles::Open(folder.path() + "/adapter.gguf", base); });
}

TEST(GgufAdapterFilesTest, Open_RefusesUnsupportedAdapters_AndNamesTheKeyOrTensor) {
  EXPECT_EQ(ErrorOfGguf("lora", "lora"), "");
  EXPECT_THAT(ErrorOfGguf("adapter.type", "adapter.tipe"), HasSubstr("adapter.type"));
  EXPECT_THAT(ErrorOfGguf("adapter.lora.alpha", "adapter.lora.alpho"), HasSubstr("adapter.lora.alpha"));
  EXPECT_THAT(ErrorOfGguf("blk.1.attn_q.weight.lora_b", "blk.1.attn_q.weight.lora_c"),
              HasSubstr("tensor blk.1.attn_q.weight.lora_c: is none of a LoRA matrix"));
  EXPECT_THAT(ErrorOfGguf("blk.1.attn_q.weight.lora_b", "blk.1.attn_p.weight.lora_b"), HasSubstr("other half"));
  EXPECT_THAT(ErrorOfGguf("blk.1.attn_q", "blk.7.attn_q"), HasSubstr("blk."));
  EXPECT_THAT(ErrorOfGguf("lora", "lora", "phi3.gguf"), HasSubstr("the base model's is \"phi3\""));
  EXPECT_THAT(ErrorOfGguf("lora", "lora", "mqa.gguf"), AllOf(HasSubstr("tensor "), HasSubstr("instead of")));
  EXPECT_THAT(ErrorOfGguf("lora", "lora", "neox"), HasSubstr("a PEFT directory"));
}

}  // namespace
}  // namespace quire
