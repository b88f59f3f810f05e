// Changes each key of config.json that HF's classes read. If HF then computes a different result, Quire must describe
// the model differently, too, or refuse it. tests/golden/make_config_keys.py has computed HF's results, with the
// weights of the golden models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/wrapper.h"

namespace quire {
namespace {

Json ReadJsonFile(const std::string& path) {
  return ParseJson(ReadTextFile(path, 8 << 20), path, {.max_depth = 8, .max_nodes = 200'000});
}

Json Golden(const std::string& name) { return ReadJsonFile(std::string(QUIRE_TEST_DATA) + "/" + name); }

/// Returns the text of the description with the names of its weights, or the error.
std::string Meaning(const Json& config) {
  try {
    const ModelSpec spec = SpecFromHf(config.dump(), "", "config.json");
    std::string text = TextOf(spec);
    for (const ExpectedTensor& tensor : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) text += " " + tensor.name;
    return text;
  } catch (const Error& error) {
    return std::string("refused: ") + error.what();
  }
}

/// Returns the configuration with another value at KEY or OBJECT/KEY.
Json Changed(Json config, const std::string& path, const Json& value) {
  std::istringstream steps(path);
  Json* place = &config;
  for (std::string step; std::getline(steps, step, '/');) place = &(*place)[step];
  *place = value;
  return config;
}

/// Returns the model types that the error of an unknown architecture lists.
std::set<std::string> Families() {
  const std::string error = Meaning({{"model_type", "?"}});
  constexpr std::string_view kBefore = "supported: ";
  std::istringstream list(error.substr(error.rfind(kBefore) + kBefore.size()));
  std::set<std::string> families;
  for (std::string name; std::getline(list >> std::ws, name, ',');) families.insert(name);
  return families;
}

TEST(ConfigKeysTest, EveryFamily_IsInTheTableOfKeys) {
  const Json table = Golden("config_keys.json");
  std::set<std::string> walked;
  for (const auto& [family, entry] : table.items()) walked.insert(family);
  // HF has no class that reads the keys of the published files of these families. tests/comm/architecture_test.cc tests
  // the families.
  const std::set<std::string> published = {"nomic_bert", "new", "gte", "jina-bert-v2"};
  for (const std::string& family : Families()) {
    if (published.contains(family)) continue;
    const std::string name = family.substr(0, family.find(" ("));
    const Wrapper* wrapper = FindWrapper(name);
    const std::map<std::string, std::string> as_others = {{"qwen2_vl_text", "qwen2"},
                                                          {"qwen2_5_vl_text", "qwen2"},
                                                          {"qwen3_vl_text", "qwen3"},
                                                          {"roberta", "xlm-roberta"},
                                                          {"camembert", "xlm-roberta"}};
    EXPECT_EQ(wrapper != nullptr, name != family) << "of those that see, it is said that they are text only";
    std::string text = wrapper == nullptr ? name : wrapper->text;
    if (const auto other = as_others.find(text); other != as_others.end()) text = other->second;
    EXPECT_TRUE(walked.contains(text)) << family;
  }
}

TEST(ConfigKeysTest, Keys_ChangeTheDescriptionOrAreRefused_WhenTheyChangeTheResultOfHf) {
  const Json table = Golden("config_keys.json");
  for (const auto& [family, entry] : table.items()) {
    const Json config = Golden("models/" + entry.at("model").get<std::string>() + "/config.json");
    const std::string usual = Meaning(config);
    ASSERT_FALSE(usual.starts_with("refused")) << usual;
    size_t counting = 0;
    for (const Json& row : entry.at("keys")) {
      if (row.at(2) == "same") continue;
      ++counting;
      EXPECT_NE(Meaning(Changed(config, row.at(0), row.at(1))), usual)
          << family << ": " << row << " makes a difference in HF and none here";
    }
    EXPECT_GE(counting, 6U) << family;
  }
}

}  // namespace
}  // namespace quire
