#include "coordinator/cli/generation_settings.h"

#include <fmt/format.h>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/model_tree.h"

namespace quire {

namespace {

constexpr size_t kMaxSettingsBytes = 1 << 20;
constexpr const char* kFile = "generation_config.json";

}  // namespace

SamplingDefaults SamplingDefaultsOf(const ModelFiles& model, const Topology::Model& settings) {
  SamplingDefaults defaults;
  if (settings.generation_config == GenerationConfigMode::kNone || model.gguf() != nullptr) return defaults;
  const ModelTree tree(model.path());
  if (!tree.Has(kFile)) return defaults;
  const std::string path = tree.PathOf(kFile);
  const Json config = ParseJson(tree.ReadText(kFile, kMaxSettingsBytes), path);
  const auto read = [&](const char* key, double low, double high, auto& setting) {
    const auto value = config.find(key);
    if (value == config.end() || value->is_null()) return;
    if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high)) {
      Fail("{}: {} must be a number from {} to {}; --generation-config none leaves the file alone", path, key, low,
           high);
    }
    setting = value->get<std::remove_reference_t<decltype(setting)>>();
  };
  // The ranges equal those of the request fields with these names.
  read("temperature", 0, 100, defaults.temperature);
  read("top_k", 0, INT32_MAX, defaults.top_k);
  read("top_p", 1e-6, 1, defaults.top_p);
  read("min_p", 0, 1, defaults.min_p);
  read("repetition_penalty", 0.01, 100, defaults.repetition_penalty);
  return defaults;
}

std::string DescribeDefaults(const SamplingDefaults& d) {
  std::string words;
  const auto add = [&](const char* name, auto value, auto usual) {
    if (value != usual) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", name, value);
  };
  const SamplingDefaults usual;
  add("temperature", d.temperature, usual.temperature);
  add("top_k", d.top_k, usual.top_k);
  add("top_p", d.top_p, usual.top_p);
  add("min_p", d.min_p, usual.min_p);
  add("repetition_penalty", d.repetition_penalty, usual.repetition_penalty);
  return words;
}

}  // namespace quire
