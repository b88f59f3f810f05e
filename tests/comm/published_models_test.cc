// Tests that published forms of models are read. Published models differ in names, keys and structure from the files
// that HF's tools write now. The golden models, rewritten into these forms, must be read as the same models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "comm/model/model_files.h"
#include "comm/model/wrapper.h"
#include "tests/support/error_of.h"
#include "tests/support/rewritten_model.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using test::RewrittenModel;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kGoldenModels = std::string(QUIRE_TEST_DATA) + "/models/";

/// Returns a text of everything that the computation uses, independent of file names: the description and every
/// tensor's bytes.
std::string NumbersOf(const ModelFiles& files) {
  ModelSpec spec = files.spec();
  spec.architecture.clear();
  spec.text_only = false;
  std::string text = TextOf(spec);
  for (const WeightSpec& weight : WeightsOf(files.spec())) {
    for (int64_t layer = 0; layer < (IsOfLayer(weight.role) ? spec.num_layers() : 1); ++layer) {
      if (!files.Has(weight.role, layer)) continue;
      const bool experts = IsOfExpert(weight.role);
      for (int64_t expert = 0; expert < (experts ? spec.mixture.experts : 1); ++expert) {
        const Tensor& tensor = files.Get(weight.role, layer, expert);
        const std::string_view bytes(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
        text += std::to_string(std::hash<std::string_view>()(bytes)) + " ";
      }
    }
  }
  return text;
}
std::string NumbersOf(const std::string& model) { return NumbersOf(ModelFiles::Open(model)); }

/// Returns the names of the golden models in safetensors.
std::set<std::string> GoldenModels() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGoldenModels)) {
    if (entry.is_directory() && fs::exists(entry.path() / "config.json")) names.insert(entry.path().filename());
  }
  return names;
}

/// Returns the prefix that most tensor names have: "model.", "transformer." or another.
std::string BaseOf(const RewrittenModel& model) {
  std::map<std::string, int> counts;
  for (const auto& [name, tensor] : model.tensors) ++counts[name.substr(0, name.find('.') + 1)];
  return std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })->first;
}

TEST(PublishedModelsTest, TensorNames_MayLackTheirPrefix_InEveryFamily) {
  size_t models = 0;
  for (const std::string& name : GoldenModels()) {
    RewrittenModel model(name);
    if (name.ends_with(".vision") || name == "gemma4whole") continue;  // the prefix of their names has two parts
    const std::string base = BaseOf(model);
    // The files of these encoders have no prefix.
    if (base == "encoder." || base == "layers." || name == "distilbert") continue;
    model.Rename([&](const std::string& full) { return full.starts_with(base) ? full.substr(base.size()) : full; });
    EXPECT_EQ(NumbersOf(model.Write()), NumbersOf(kGoldenModels + name)) << name;
    ++models;
  }
  EXPECT_GE(models, 60U);
}

TEST(PublishedModelsTest, TensorNames_MayHaveThePrefixOfATextModelInsideALargerModel) {
  for (const std::string& name : GoldenModels()) {
    for (const std::string text : {"model.language_model.", "language_model.model.", "language_model."}) {
      RewrittenModel model(name);
      if (BaseOf(model) != "model." || name.ends_with(".vision") || name == "gemma4whole") continue;
      model.Rename([&](const std::string& full) {
        if (full.starts_with("model.")) return text + full.substr(sizeof("model.") - 1);
        return text == "language_model.model." ? "language_model." + full : full;
      });
      EXPECT_EQ(NumbersOf(model.Write()), NumbersOf(kGoldenModels + name)) << name << " as " << text;
    }
  }
}

TEST(PublishedModelsTest, UnknownPrefixes_AndTwoNamesOfOneTensor_AreRefused) {
  RewrittenModel unknown("qwen3");
  unknown.Rename([](const std::string& full) { return "somewhere." + full; });
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(unknown.Write()); }),
              AllOf(HasSubstr("missing: model.embed_tokens.weight"), HasSubstr("unexpected: somewhere.")));
  RewrittenModel twice("qwen3");
  twice.tensors["embed_tokens.weight"] = twice.tensors.at("model.embed_tokens.weight");
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(twice.Write()); }),
              HasSubstr("tensor model.embed_tokens.weight is there under two names"));
  RewrittenModel senses("gemma3");
  senses.AddTensor("vision_tower.x");
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(senses.Write()); }), HasSubstr("unexpected: vision_tower.x"))
      << "of a model that reads only";
}

/// Puts the model into a multimodal model: its configuration becomes text_config, and its tensors get the prefix
/// `text`.
RewrittenModel& Wrap(RewrittenModel& model, const std::string& wrapper, const std::string& text) {
  Json text_config = model.config;
  for (const char* of_the_whole : {"architectures", "dtype", "transformers_version", "eos_token_id", "bos_token_id"})
    text_config.erase(of_the_whole);
  const Json eos = model.config["eos_token_id"];
  const bool tied = model.config.value("tie_word_embeddings", false);
  model.config = {{"model_type", wrapper},
                  {"text_config", text_config},
                  {"vision_config", {{"hidden_size", 8}, {"hidden_act", "gelu"}}},
                  {"eos_token_id", eos},
                  {"tie_word_embeddings", tied},
                  {"image_token_index", 10}};
  model.Rename([&](const std::string& full) {
    return full.starts_with("model.")                     ? text + full.substr(sizeof("model.") - 1)
           : text.ends_with("model.") && text != "model." ? "language_model." + full
                                                          : full;
  });
  for (const char* sense : {"vision_tower.patch_conv.weight", "multi_modal_projector.linear_1.weight",
                            "model.visual.blocks.0.norm1.weight", "visual.merger.mlp.0.bias"})
    model.AddTensor(sense);
  return model;
}

TEST(PublishedModelsTest, TextModelOfAWrapper_IsRead_AndNotesNameTheOmittedParts) {
  const std::tuple<std::string, std::string, std::string> forms[] = {
      {"ministral3", "mistral3", "language_model.model."}, {"swa", "mistral3", "language_model.model."},
      {"swa", "llava", "language_model.model."},           {"mqa", "llava", "language_model.model."},
      {"gemma3", "gemma3", "language_model.model."},       {"gemma3", "gemma3", "model.language_model."},
      {"gemma4", "gemma4", "model.language_model."},       {"qwen35", "qwen3_5", "model.language_model."},
      {"qwen35moe", "qwen3_5_moe", "language_model."},     {"qwen25", "internvl", "language_model.model."},
      {"qwen3", "internvl", "model.language_model."},      {"cohere2", "aya_vision", "language_model.model."},
      {"llama4", "llama4", "language_model.model."},
  };
  for (const auto& [name, wrapper, text] : forms) {
    RewrittenModel model(name);
    const ModelFiles files = ModelFiles::Open(Wrap(model, wrapper, text).Write());
    EXPECT_EQ(NumbersOf(files), NumbersOf(kGoldenModels + name)) << name << " in " << wrapper;
    EXPECT_TRUE(files.spec().text_only);
    EXPECT_THAT(files.notes(), Contains(AllOf(HasSubstr("text only"), HasSubstr("vision_tower"),
                                              HasSubstr("multi_modal_projector"), HasSubstr("model.visual"))))
        << wrapper;
  }
}

TEST(PublishedModelsTest, QwenVl_IsReadAsQwen_WithRopeSections) {
  const Json older = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
  const Json newer = {{"rope_type", "default"}, {"mrope_section", {2, 3, 3}}, {"mrope_interleaved", true}};
  for (const std::string wrapper : {"qwen2_vl", "qwen2_5_vl"}) {
    RewrittenModel flat("qwen25");  // the form first published: one object with only the text model's names
    flat.config["model_type"] = wrapper;
    flat.config["vision_config"] = {{"model_type", wrapper}};
    flat.config["rope_theta"] = flat.config["rope_parameters"]["rope_theta"];
    flat.config.erase("rope_parameters");
    flat.config["rope_scaling"] = older;
    flat.AddTensor("visual.blocks.0.attn.qkv.weight");
    EXPECT_EQ(NumbersOf(flat.Write()), NumbersOf(kGoldenModels + "qwen25")) << wrapper;
    RewrittenModel inside("qwen25");
    Wrap(inside, wrapper, "model.language_model.");
    inside.config["text_config"]["model_type"] = wrapper + "_text";
    EXPECT_EQ(NumbersOf(inside.Write()), NumbersOf(kGoldenModels + "qwen25")) << wrapper;
  }
  RewrittenModel third("qwen3");
  Wrap(third, "qwen3_vl", "model.language_model.");
  Json& text = third.config["text_config"];
  text["model_type"] = "qwen3_vl_text";
  text["rope_theta"] = text["rope_parameters"]["rope_theta"];
  for (const char* of_others : {"rope_parameters", "layer_types"}) text.erase(of_others);
  text["rope_scaling"] = newer;
  EXPECT_EQ(NumbersOf(third.Write()), NumbersOf(kGoldenModels + "qwen3"));
  text["rope_scaling"]["rope_type"] = "dynamic";
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(third.Write()); }),
              HasSubstr("text_config: rope_scaling of type dynamic is not supported"));
}

TEST(PublishedModelsTest, Wrapper_IsRefused_WithTheTextModelsName_WhenThatModelIsUnknown) {
  RewrittenModel model("qwen3");
  Wrap(model, "llava", "model.");
  model.config["text_config"]["model_type"] = "mpt_llama";
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(model.Write()); }),
              AllOf(HasSubstr("text_config: architecture \"mpt_llama\" is not supported"), HasSubstr(", llama, "),
                    HasSubstr(", mistral3 (text only), ")));
  model.config["text_config"] = 7;
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(model.Write()); }), HasSubstr("text_config must be an object"));
}

TEST(PublishedModelsTest, MissingSizesOfATextConfig_GetTheDefaultsOfItsFamily) {
  const auto spec_of = [](const Json& text, const std::string& wrapper) {
    return SpecFromHf(Json({{"model_type", wrapper}, {"text_config", text}}).dump(), "", "config.json");
  };
  const ModelSpec gemma = spec_of({{"model_type", "gemma3_text"},
                                   {"hidden_size", 2560},
                                   {"intermediate_size", 10240},
                                   {"num_hidden_layers", 34},
                                   {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                                   {"sliding_window", 1024}},
                                  "gemma3");
  EXPECT_EQ(gemma.num_heads, 8);
  EXPECT_EQ(gemma.layers[0].num_kv_heads, 4);
  EXPECT_EQ(gemma.layers[0].head_dim, 256);
  EXPECT_EQ(gemma.vocab_size, 262208);
  EXPECT_EQ(gemma.longest_position, 131072) << "layers with a window rotate without scaling";
  EXPECT_TRUE(gemma.tied_embeddings);
  const ModelSpec llava = spec_of({{"model_type", "llama"}, {"vocab_size", 32064}, {"rms_norm_eps", 1e-5}}, "llava");
  EXPECT_EQ(llava.num_layers(), 32);
  EXPECT_EQ(llava.layers[0].num_kv_heads, 32);
  EXPECT_FALSE(llava.tied_embeddings);
  for (const Json& heads : {Json("32"), Json(32.5), Json::array({32}), Json(true)}) {
    EXPECT_THAT(ErrorThrownBy([&] {
                  spec_of({{"model_type", "llama"}, {"vocab_size", 32064}, {"num_attention_heads", heads}}, "llava");
                }),
                HasSubstr("config.json: text_config: num_attention_heads must be an integer"));
  }
  const ModelSpec pixtral = spec_of({{"model_type", "mistral"},
                                     {"head_dim", 128},
                                     {"hidden_size", 5120},
                                     {"intermediate_size", 14336},
                                     {"num_hidden_layers", 40},
                                     {"num_key_value_heads", 8},
                                     {"sliding_window", nullptr},
                                     {"vocab_size", 131072}},
                                    "llava");
  EXPECT_EQ(pixtral.num_heads, 32);
  EXPECT_EQ(pixtral.window(), 0);
}

TEST(PublishedModelsTest, Head_IsReadFromTheFile_WhateverTieWordEmbeddingsSays) {
  const std::string head = "lm_head.weight", embedding = "model.embed_tokens.weight";
  RewrittenModel said_tied("mqa");  // this model has a head of its own
  ASSERT_TRUE(said_tied.tensors.contains(head));
  said_tied.config["tie_word_embeddings"] = true;
  const ModelFiles files = ModelFiles::Open(said_tied.Write());
  EXPECT_EQ(NumbersOf(files), NumbersOf(kGoldenModels + "mqa")) << "the head, and not the embedding";
  EXPECT_THAT(files.notes(), Contains(HasSubstr("a lm_head.weight that differs")));

  RewrittenModel both("qwen25");  // this model has no head of its own
  ASSERT_FALSE(both.tensors.contains(head));
  both.tensors[head] = both.tensors.at(embedding);
  const ModelFiles same = ModelFiles::Open(both.Write());
  EXPECT_TRUE(same.spec().tied_embeddings);
  EXPECT_THAT(same.notes(), IsEmpty());
  RewrittenModel only_head("qwen25");
  only_head.tensors[head] = only_head.tensors.at(embedding);
  only_head.tensors.erase(embedding);
  EXPECT_EQ(NumbersOf(only_head.Write()), NumbersOf(kGoldenModels + "qwen25")) << "either of the two is both";
  both.config["tie_word_embeddings"] = false;
  EXPECT_FALSE(ModelFiles::Open(both.Write()).spec().tied_embeddings);
}

TEST(PublishedModelsTest, EmbeddingModel_NeedsNoHead) {
  RewrittenModel model("mqa");
  model.tensors.erase("lm_head.weight");
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(model.Write()); }), HasSubstr("missing: lm_head.weight"));
  model.Add("modules.json", "[]");
  const ModelFiles files = ModelFiles::Open(model.Write());
  EXPECT_FALSE(files.spec().has_head);
  EXPECT_THAT(files.notes(), Contains(HasSubstr("makes embeddings only")));
  RewrittenModel base("mqa");
  base.tensors.erase("lm_head.weight");
  base.config["architectures"] = {"LlamaModel"};
  EXPECT_FALSE(ModelFiles::Open(base.Write()).spec().has_head);
  EXPECT_TRUE(ModelFiles::Open(kGoldenModels + "mqa").spec().has_head);
}

TEST(PublishedModelsTest, KeysAndValuesOfOlderConfigurations_AreUnderstood) {
  const auto with = [](const std::string& name, const std::function<void(Json&)>& change) {
    RewrittenModel model(name);
    change(model.config);
    return NumbersOf(model.Write());
  };
  for (const std::string name : {"lfm2"}) {
    EXPECT_EQ(with(name,
                   [](Json& config) {
                     config["block_ff_dim"] = config["intermediate_size"];
                     std::vector<size_t> attending;
                     for (size_t i = 0; i < config["layer_types"].size(); ++i) {
                       if (config["layer_types"][i] == "full_attention") attending.push_back(i);
                     }
                     config["full_attn_idxs"] = attending;
                     for (const char* newer : {"intermediate_size", "layer_types", "tie_word_embeddings"})
                       config.erase(newer);
                   }),
              NumbersOf(kGoldenModels + name));
  }
  for (const char* scoring : {"noaux_tc", "sigmoid", "softmax"}) {
    EXPECT_EQ(with("dots1", [&](Json& config) { config["scoring_func"] = scoring; }),
              NumbersOf(kGoldenModels + "dots1"))
        << "HF does not look at it";
  }
  for (const std::string name : {"glm4moe", "deepseekv3", "minimaxm2"}) {
    EXPECT_EQ(with(name, [](Json& config) { config["scoring_func"] = "noaux_tc"; }), NumbersOf(kGoldenModels + name));
  }
  EXPECT_EQ(with("int8", [](Json& config) { config["quantization_config"]["quantization_status"] = "frozen"; }),
            NumbersOf(kGoldenModels + "int8"));
}

TEST(PublishedModelsTest, AutoRoundModels_AreReadAsGptqOrAwq) {
  const auto as = [](const std::string& name, const Json& changes) {
    RewrittenModel model(name);
    const Json was = model.config["quantization_config"];
    model.config["quantization_config"] = {{"quant_method", "auto-round"},
                                           {"bits", was["bits"]},
                                           {"group_size", was["group_size"]},
                                           {"sym", true},
                                           {"data_type", "int"},
                                           {"autoround_version", "0.5.1"},
                                           {"batch_size", 8},
                                           {"iters", 200}};
    model.config["quantization_config"].update(changes);
    const std::string path = model.Write();
    return ErrorThrownBy([&] { ModelFiles::Open(path); }) + (name.empty() ? "" : NumbersOf(path));
  };
  const auto error_of = [&](const Json& changes) { return ErrorThrownBy([&] { as("gptq", changes); }); };
  const std::string gptq = NumbersOf(kGoldenModels + "gptq");
  for (const char* packing : {"auto_round:auto_gptq", "auto_round:gptq", "auto"})
    EXPECT_EQ(as("gptq", {{"packing_format", packing}}), gptq) << packing;
  EXPECT_EQ(as("gptq", Json::object()), gptq);
  EXPECT_EQ(as("gptq", {{"backend", "auto_round:gptq:exllamav2"}, {"quant_method", "intel/auto-round"}}), gptq);
  EXPECT_EQ(as("gptq", {{"extra_config", {{"lm_head", {{"bits", 16}}}, {"model.layers.0", {{"bits", 4}}}}}}), gptq);
  EXPECT_EQ(as("awq", {{"packing_format", "auto_round:auto_awq"}}), NumbersOf(kGoldenModels + "awq"));
  EXPECT_THAT(error_of({{"extra_config", {{"model.layers.0.mlp", {{"bits", 8}}}}}}),
              HasSubstr("extra_config: model.layers.0.mlp: bits = 8"));
  EXPECT_THAT(error_of({{"packing_format", "auto_round:marlin"}}), HasSubstr("\"auto_round:marlin\" is not supported"));
  EXPECT_THAT(error_of({{"data_type", "mx_fp"}}), HasSubstr("data_type \"mx_fp\""));
}

TEST(PublishedModelsTest, PublishedConfigurations_AreRead_OrRefusedWithAReason) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/published_configs.json";
  const Json rows = ParseJson(ReadTextFile(path, 1 << 20), path, {.max_depth = 8, .max_nodes = 100'000});
  EXPECT_GE(rows.size(), 40U);
  for (const Json& row : rows) {
    const std::string name = row.at("name"), config = row.at("config").dump();
    if (row.contains("refused")) {
      EXPECT_THAT(ErrorThrownBy([&] { SpecFromHf(config, "", name); }),
                  AllOf(HasSubstr(row.at("refused").get<std::string>()), HasSubstr("not supported")));
      continue;
    }
    const std::string error = ErrorThrownBy([&] {
      const ModelSpec spec = SpecFromHf(config, "", name);
      const auto attending = static_cast<size_t>(spec.first_attention_layer());
      const LayerSpec& layer = spec.layers[attending];
      const Json read = {
          {"layers", spec.num_layers()},    {"heads", spec.num_heads},          {"kv_heads", layer.num_kv_heads},
          {"head_dim", layer.head_dim},     {"mlp", layer.intermediate_size},   {"vocabulary", spec.vocab_size},
          {"positions", spec.max_position}, {"longest", spec.longest_position}, {"tied", spec.tied_embeddings}};
      EXPECT_EQ(read.dump(), row.at("reads").dump()) << name;
    });
    EXPECT_EQ(error, "");
  }
}

TEST(PublishedModelsTest, SingleFile_IsPreferred_ToALeftoverIndex) {
  RewrittenModel model("mqa");
  model.Write();
  model.Add("model.safetensors.index.json", R"({"weight_map": {"a": "model-00001-of-00009.safetensors"}})");
  EXPECT_EQ(NumbersOf(model.path()), NumbersOf(kGoldenModels + "mqa"));
  fs::rename(model.path() + "/model.safetensors", model.path() + "/model-00001-of-00009.safetensors");
  EXPECT_EQ(NumbersOf(model.path()), NumbersOf(kGoldenModels + "mqa")) << "and without it the index is read";
}

}  // namespace
}  // namespace quire
