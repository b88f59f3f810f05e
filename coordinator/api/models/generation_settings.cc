#include "coordinator/api/models/generation_settings.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/gguf.h"
#include "comm/model/model_tree.h"

namespace quire {

namespace {

constexpr size_t kMaxSettingsBytes = 1 << 20;
constexpr const char* kFile = "generation_config.json";

/// One sampling setting: its key in generation_config.json, its key in GGUF, and its range, which is also the range of
/// the request field with this name.
struct Setting {
  const char* key;
  const char* gguf_key;
  double low, high;
  void (*set)(SamplingDefaults& defaults, double value);
};

const Setting kPenalty = {"repetition_penalty", "general.sampling.penalty_repeat", 0.01, 100,
                          [](SamplingDefaults& d, double value) { d.repetition_penalty = static_cast<float>(value); }};
const Setting kDraws[] = {
    {"temperature", "general.sampling.temp", 0, 100,
     [](SamplingDefaults& d, double value) { d.temperature = static_cast<float>(value); }},
    {"top_k", "general.sampling.top_k", 0, INT32_MAX,
     [](SamplingDefaults& d, double value) { d.top_k = static_cast<int32_t>(value); }},
    {"top_p", "general.sampling.top_p", 1e-6, 1,
     [](SamplingDefaults& d, double value) { d.top_p = static_cast<float>(value); }},
    {"min_p", "general.sampling.min_p", 0, 1,
     [](SamplingDefaults& d, double value) { d.min_p = static_cast<float>(value); }},
};

/// Looks a setting up in the model's files and returns its value; nullopt when the setting is not set. Throws Error
/// when the value is no number.
using Look = std::function<std::optional<double>(const Setting&)>;

[[noreturn]] void Refuse(const std::string& path, const char* key, const Setting& setting) {
  Fail("{}: {} must be a number from {} to {}; --generation-config quire or none leaves the file alone", path, key,
       setting.low, setting.high);
}

bool ReadInto(const std::string& path, bool is_gguf, const Look& look, const Setting& setting, SamplingDefaults& into) {
  const std::optional<double> value = look(setting);
  if (!value) return false;
  if (!(*value >= setting.low && *value <= setting.high))
    Refuse(path, is_gguf ? setting.gguf_key : setting.key, setting);
  setting.set(into, *value);
  return true;
}

Look LookInto(const GgufFile& file) {
  return [&file](const Setting& setting) -> std::optional<double> {
    const auto value = file.metadata.find(setting.gguf_key);
    if (value == file.metadata.end()) return std::nullopt;
    if (const auto* real = std::get_if<double>(&value->second)) return *real;
    if (const auto* integer = std::get_if<int64_t>(&value->second)) return static_cast<double>(*integer);
    Refuse(file.path, setting.gguf_key, setting);
  };
}

Look LookInto(const Json& config, const std::string& path) {
  return [&config, &path](const Setting& setting) -> std::optional<double> {
    const auto value = config.find(setting.key);
    if (value == config.end() || value->is_null()) return std::nullopt;
    if (!value->is_number()) Refuse(path, setting.key, setting);
    return value->get<double>();
  };
}

/// Replaces the members of `found` that the model's files set. `look` finds a setting in these files. Returns true when
/// the files set at least one of temperature, top_k, top_p and min_p.
bool ReadAll(const std::string& path, bool is_gguf, const Look& look, SamplingDefaults& found) {
  bool says_how = false;
  for (const Setting& setting : kDraws) says_how |= ReadInto(path, is_gguf, look, setting, found);
  ReadInto(path, is_gguf, look, kPenalty, found);
  return says_how;
}

bool ReadFiles(const ModelFiles& model, SamplingDefaults& found) {
  if (const GgufFile* gguf = model.gguf()) return ReadAll(gguf->path, true, LookInto(*gguf), found);
  const ModelTree tree(model.path());
  if (!tree.Has(kFile)) return false;
  const std::string path = tree.PathOf(kFile);
  const Json config = ParseJson(tree.ReadText(kFile, kMaxSettingsBytes), path);
  return ReadAll(path, false, LookInto(config, path), found);
}

}  // namespace

ChosenSampling SamplingDefaultsOf(const ModelFiles& model, const Topology::Model& settings) {
  const GenerationConfigMode mode = settings.generation_config;
  if (mode == GenerationConfigMode::kNone) return {};
  if (mode == GenerationConfigMode::kQuire) return {kQuireSampling, mode};
  SamplingDefaults found;
  if (ReadFiles(model, found) || mode == GenerationConfigMode::kModel) return {found, GenerationConfigMode::kModel};
  ChosenSampling chosen = {kQuireSampling, GenerationConfigMode::kQuire};
  chosen.values.repetition_penalty = found.repetition_penalty;
  return chosen;
}

std::string DescribeDefaults(const ChosenSampling& chosen) {
  const SamplingDefaults& d = chosen.values;
  const char* source = chosen.source == GenerationConfigMode::kModel   ? "the model's files"
                       : chosen.source == GenerationConfigMode::kQuire ? "Quire's defaults"
                                                                       : "OpenAI's defaults";
  const std::string penalty =
      d.repetition_penalty == 1 ? "" : fmt::format(", repetition_penalty {}", d.repetition_penalty);
  return fmt::format("temperature {}, top_k {}, top_p {}, min_p {}{} ({}, --generation-config)", d.temperature,
                     d.top_k == 0 ? "all" : std::to_string(d.top_k), d.top_p, d.min_p, penalty, source);
}

}  // namespace quire
