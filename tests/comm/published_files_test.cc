// Tests that each model in a table of published models opens as published, or is refused with a reason. The table has
// the configurations and the names of the tensors. The tensors' bytes are holes in a file, because only their names
// matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/model_files.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using testing::HasSubstr;

Json PublishedRows() {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/published_files.json";
  return ParseJson(ReadTextFile(path, 1 << 20), path, {.max_depth = 8, .max_nodes = 100'000});
}

/// Replaces the first {} of every pattern by each number of the ranges.
std::vector<std::string> Numbered(const std::vector<std::string>& patterns, const Json& ranges) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) {
    const size_t place = pattern.find("{}");
    for (const Json& range : ranges) {
      for (int64_t number = range.at(0); number <= range.at(1).get<int64_t>(); ++number)
        names.push_back(pattern.substr(0, place) + std::to_string(number) + pattern.substr(place + 2));
    }
  }
  return names;
}

/// Returns all names of a row. Each axis of a pattern, such as layers and experts, is a list of ranges of numbers.
std::vector<std::string> NamesOf(const Json& row) {
  std::vector<std::string> all;
  for (const auto& [pattern, axes] : row.at("tensors").items()) {
    std::vector<std::string> names{pattern};
    for (const Json& ranges : axes) names = Numbered(names, ranges);
    all.insert(all.end(), names.begin(), names.end());
  }
  return all;
}

/// A folder with the row's config.json and, later, a file of its tensors.
struct PublishedFolder {
  explicit PublishedFolder(const Json& row) { WriteTextFile(folder.path() + "/config.json", row.at("config").dump()); }

  /// Writes a file with tensors of these names. A tensor that the model knows gets its shape, any other tensor one
  /// number.
  void WriteTensors(const std::vector<std::string>& names) const {
    const ModelFiles list = ModelFiles::Open(folder.path(), LoadFormat::kDummy);
    ModelSpec untied = list.spec();
    untied.tied_embeddings = false;
    std::map<std::string, std::vector<int64_t>> shapes;
    std::string head_name;
    for (const ExpectedTensor& tensor : ExpectedTensors(untied, WeightsOf(untied), Naming::kHf)) {
      shapes[tensor.name] = tensor.shape;
      if (tensor.role == Role::kHead) head_name = tensor.name;
    }
    Json header = Json::object();
    int64_t bytes = 0, head_at = 0;
    for (const std::string& name : names) {
      const auto found = shapes.find(list.ListNameOf(name));
      const std::vector<int64_t> shape = found != shapes.end() ? found->second : std::vector<int64_t>{1};
      int64_t size = 2;
      for (const int64_t extent : shape) size *= extent;
      header[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {bytes, bytes + size}}};
      if (list.ListNameOf(name) == head_name) head_at = bytes;
      bytes += size;
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::string head(sizeof(length), '\0');
    std::memcpy(head.data(), &length, sizeof(length));
    const std::string file = folder.path() + "/model.safetensors";
    WriteTextFile(file, head + text);
    std::filesystem::resize_file(file, head.size() + text.size() + static_cast<uint64_t>(bytes));
    // Makes the head differ from the embedding in its first number, so that the comparison need not read gigabytes.
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(head.size() + text.size()) + head_at)
        .put('\x01');
  }

  TemporaryDirectory folder;
};

TEST(PublishedFilesTest, PublishedModels_Open_OrAreRefusedWithAReason) {
  size_t opened = 0, with_tensors = 0;
  for (const Json& row : PublishedRows()) {
    const std::string name = row.at("name");
    const PublishedFolder published(row);
    const std::string config_error = ErrorThrownBy([&] { SpecFromHf(row.at("config").dump(), "", name); });
    if (row.contains("refused")) {
      EXPECT_THAT(config_error, HasSubstr(row.at("refused").get<std::string>())) << name;
      continue;
    }
    EXPECT_EQ(config_error, "") << name;
    ++opened;
    if (!row.contains("tensors") || !config_error.empty()) continue;
    published.WriteTensors(NamesOf(row));
    EXPECT_EQ(ErrorThrownBy([&] { ModelFiles::Open(published.folder.path()); }), "") << name;
    ++with_tensors;
  }
  EXPECT_GE(opened, 50U);
  EXPECT_GE(with_tensors, 33U);
}

TEST(PublishedFilesTest, MissingAndUnknownNames_AreRefused_InPublishedModels) {
  constexpr size_t kMostNames = 350;  // larger models take longer
  for (const Json& row : PublishedRows()) {
    if (row.contains("refused") || !row.contains("tensors")) continue;
    const PublishedFolder published(row);
    std::vector<std::string> names = NamesOf(row);
    if (names.size() > kMostNames) continue;
    const auto norm = std::ranges::find_if(names, [](const std::string& name) {
      return name.find(".0.") != name.npos && name.find("norm") != name.npos && name.ends_with("weight") &&
             name.find("vision") == name.npos && name.find("visual") == name.npos;
    });
    ASSERT_NE(norm, names.end()) << row.at("name");
    *norm += "_of_another_version";
    published.WriteTensors(names);
    const std::string error = ErrorThrownBy([&] { ModelFiles::Open(published.folder.path()); });
    EXPECT_THAT(error, HasSubstr("missing: ")) << row.at("name");
    EXPECT_THAT(error, HasSubstr("_of_another_version")) << row.at("name");
  }
}

}  // namespace
}  // namespace quire
