#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "tests/support/temporary_directory.h"

namespace quire::test {

/// A golden model, or an adapter of one, in another published form: the same numbers under other names and settings.
/// For an adapter, `name` is "../adapters/NAME" and `config_file` is "adapter_config.json".
class RewrittenModel {
 public:
  explicit RewrittenModel(const std::string& name, const std::string& config_file = "config.json")
      : config_file_(config_file) {
    const std::filesystem::path from = std::filesystem::path(QUIRE_TEST_DATA) / "models" / name;
    config = Json::parse(ReadTextFile(from / config_file, kMost));
    for (const auto& entry : std::filesystem::directory_iterator(from)) {
      if (entry.path().extension() == ".safetensors") ReadTensors(ReadTextFile(entry.path(), kMost));
      if (entry.path().filename() == "generation_config.json")
        Add("generation_config.json", ReadTextFile(entry.path(), kMost));
    }
  }

  struct Tensor {
    Json entry;
    std::string bytes;
  };
  Json config;
  std::map<std::string, Tensor> tensors;

  /// Adds the tensors of another safetensors file among the golden data.
  void AddTensorsOf(const std::string& file) {
    ReadTensors(ReadTextFile(std::filesystem::path(QUIRE_TEST_DATA) / file, kMost));
  }
  void Rename(const std::function<std::string(const std::string&)>& name_of) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : tensors) renamed[name_of(name)] = std::move(tensor);
    tensors = std::move(renamed);
  }
  /// Adds a tensor of zeros.
  void AddTensor(const std::string& name, const std::vector<int64_t>& shape = {1}) {
    size_t bytes = sizeof(float);
    for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
    tensors[name] = {{{"dtype", "F32"}, {"shape", shape}}, std::string(bytes, '\0')};
  }
  void Add(const std::string& file, const std::string& text) { WriteTextFile(folder_.path() + "/" + file, text); }

  /// Writes the model and returns its path.
  std::string Write(const std::string& file = "model.safetensors") {
    Json header = Json::object();
    std::string data;
    for (auto& [name, tensor] : tensors) {
      header[name] = tensor.entry;
      header[name]["data_offsets"] = {data.size(), data.size() + tensor.bytes.size()};
      data += tensor.bytes;
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::string head(sizeof(length), '\0');
    std::memcpy(head.data(), &length, sizeof(length));
    Add(file, head + text + data);
    Add(config_file_, config.dump());
    return folder_.path();
  }
  std::string path() const { return folder_.path(); }

 private:
  static constexpr size_t kMost = 8 << 20;

  void ReadTensors(const std::string& bytes) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const Json header = Json::parse(bytes.substr(sizeof(length), length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto begin = entry.at("data_offsets").at(0).get<size_t>(),
                 end = entry.at("data_offsets").at(1).get<size_t>();
      tensors[name] = {entry, bytes.substr(sizeof(length) + length + begin, end - begin)};
    }
  }

  std::string config_file_;
  TemporaryDirectory folder_;
};

}  // namespace quire::test
