// Tests that published tokenizer_config.json files (tests/golden/published_files.json) are read as HF transformers 5.24
// reads them beside a tokenizer.json.
#include <gtest/gtest.h>

#include <string>

#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"

namespace quire {
namespace {

std::string TextOfToken(const Json& config, const char* key) {
  if (!config.contains(key) || config[key].is_null()) return "";
  return config[key].is_string() ? config[key].get<std::string>() : config[key].at("content").get<std::string>();
}

TEST(PublishedTokenizersTest, Configurations_NameTokensAndTemplates_AndOnlyTokenizerJsonPutsTokensAroundPrompts) {
  const std::string data = QUIRE_TEST_DATA, path = data + "/published_files.json";
  HfTokenizerFiles files;
  files.tokenizer_json = ReadTextFile(data + "/models/gqa/tokenizer.json", 1 << 20);
  size_t models = 0, adding = 0;
  for (const Json& row : ParseJson(ReadTextFile(path, 1 << 20), path, {.max_depth = 8, .max_nodes = 100'000})) {
    if (!row.contains("tokenizer")) continue;
    Json config = row.at("tokenizer");
    const bool has_template = config.at("has_chat_template");
    if (has_template) config["chat_template"] = "{{ messages[0].content }}";
    files.config_json = config.dump();
    const TokenizerData read = TokenizerDataFromHf(files, row.at("name"));
    EXPECT_EQ(read.bos_token, TextOfToken(config, "bos_token")) << row.at("name");
    EXPECT_EQ(read.eos_token, TextOfToken(config, "eos_token")) << row.at("name");
    EXPECT_EQ(read.pad_token, TextOfToken(config, "pad_token")) << row.at("name");
    EXPECT_EQ(!read.chat_template.empty(), has_template) << row.at("name");
    // If a tokenizer.json exists, HF ignores add_bos_token and add_eos_token of any class. The post-processor decides
    // then, and Quire takes no tokens around prompts from the configuration.
    EXPECT_TRUE(read.prefix.empty() && read.suffix.empty()) << row.at("name");
    adding += config.value("add_bos_token", false);
    ++models;
  }
  EXPECT_GE(models, 60U);
  EXPECT_GE(adding, 15U);
}

}  // namespace
}  // namespace quire
