#include "comm/model/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/parse_number.h"

namespace quire {

namespace {

constexpr int64_t kMaxRank = 4096;
constexpr size_t kMaxPatterns = 4096;
/// A regular expression that matches the whole name of a module and captures the number of its layer. {} stands for a
/// pattern of the text before that number. This text ends with the name of the list of layers, such as "layers".
constexpr const char* kLayerNumber = "{}\\.(?P<number>\\d+)\\..*";

/// Keys that describe the adapter's training or storage, and do not change its products.
constexpr std::string_view kUnused[] = {
    "auto_mapping",  "base_model_name_or_path", "revision",       "task_type",         "inference_mode",
    "lora_dropout",  "megatron_core",           "peft_version",   "loftq_config",      "eva_config",
    "corda_config",  "lora_ga_config",          "runtime_config", "qalora_group_size", "fan_in_fan_out"};

/// Values of init_lora_weights that do not change the base model.
constexpr std::string_view kHarmlessInits[] = {"gaussian", "eva", "orthogonal"};

bool IsEmpty(const OrderedJson& value) {
  return value.is_null() || value == false || ((value.is_structured() || value.is_string()) && value.empty());
}

}  // namespace

/// Reads the keys of adapter_config.json one by one, and remembers which keys were read.
class AdapterConfig::Reader {
 public:
  Reader(const std::string& text, const std::string& path, std::shared_ptr<PatternTime> time)
      : path_(path), time_(std::move(time)) {
    ParseJson(text, path);  // ParseJson checks the text strictly
    json_ = OrderedJson::parse(text);
    if (!json_.is_object()) Fail("{}: expected an object", path);
  }

  /// Returns the key's value; null when the key is missing or its value is null, false, or an empty text, list or
  /// object.
  const OrderedJson* Find(const char* key) {
    read_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() || IsEmpty(*found) ? nullptr : &*found;
  }
  double Number(const char* key) {
    const OrderedJson* value = Find(key);
    if (value == nullptr) Fail("{}: {} is missing", path_, key);
    return NumberOf(*value, key);
  }
  double NumberOf(const OrderedJson& value, const std::string& key) const {
    if (!value.is_number() || !std::isfinite(value.get<double>())) Fail("{}: {} must be a number", path_, key);
    return value.get<double>();
  }
  int64_t RankOf(double number, const std::string& key) const {
    if (number != std::floor(number) || number < 1 || number > kMaxRank)
      Fail("{}: {} must be a whole number from 1 to {}", path_, key, kMaxRank);
    return static_cast<int64_t>(number);
  }
  int64_t LayerOf(const OrderedJson& layer) const {
    constexpr double kMostLayers = 1e6;
    const double number = NumberOf(layer, "layers_to_transform");
    if (number != std::floor(number) || number < 0 || number > kMostLayers)
      Fail("{}: layers_to_transform must hold numbers of layers", path_);
    return static_cast<int64_t>(number);
  }
  bool Flag(const char* key) {
    const OrderedJson* value = Find(key);
    if (value != nullptr && !value->is_boolean()) Fail("{}: {} must be true or false", path_, key);
    return value != nullptr;
  }
  std::string TextOf(const OrderedJson& value, const char* key) const {
    if (!value.is_string()) Fail("{}: {} must hold names", path_, key);
    return value.get<std::string>();
  }
  NamePattern PatternOf(const std::string& pattern, const char* key) const {
    return {pattern, fmt::format("{}: {}", path_, key), time_};
  }

  Names NamesOf(const char* key) {
    const OrderedJson* value = Find(key);
    Names names;
    if (value == nullptr) return names;
    if (!value->is_array()) Fail("{}: {} must be a list", path_, key);
    for (const OrderedJson& name : *value) names.insert(TextOf(name, key));
    return names;
  }

  /// Reads names of modules: a list, or a string that is a regular expression.
  void Modules(const char* key, Names& names, std::optional<NamePattern>& pattern) {
    const OrderedJson* value = Find(key);
    if (value == nullptr) return;
    if (value->is_string()) {
      pattern = PatternOf(value->get<std::string>(), key);
    } else if (value->is_array()) {
      for (const OrderedJson& name : *value) names.insert(TextOf(name, key));
    } else {
      Fail("{}: {} must be a text or a list", path_, key);
    }
  }

  /// Reads numbers for single modules. As in PEFT, a key is a regular expression, which must match a module's whole
  /// name or the last parts of the name; dots separate the parts.
  Exceptions ModuleNumbers(const char* key) {
    const OrderedJson* value = Find(key);
    Exceptions exceptions;
    if (value == nullptr) return exceptions;
    if (!value->is_object() || value->size() > kMaxPatterns) Fail("{}: {} must be an object of numbers", path_, key);
    for (const auto& [name, number] : value->items())
      exceptions.emplace_back(PatternOf("(?:.*\\.)?(?:" + name + ")", key), NumberOf(number, key));
    return exceptions;
  }

  /// Reads token ids: one list, for the embedding, or one list for each module name.
  std::map<std::string, std::vector<TokenId>> Tokens(const char* key) {
    std::map<std::string, std::vector<TokenId>> tokens;
    const OrderedJson* value = Find(key);
    if (value == nullptr) return tokens;
    if (!value->is_structured()) Fail("{}: {} must be a list or an object of lists", path_, key);
    const auto read = [&](const std::string& module, const OrderedJson& list) {
      if (!list.is_array()) Fail("{}: {} must hold lists", path_, key);
      for (const OrderedJson& token : list) tokens[module].push_back(TokenOf(token, key));
    };
    if (value->is_array()) {
      read("", *value);
    } else {
      for (const auto& [module, list] : value->items()) read(module, list);
    }
    return tokens;
  }
  TokenId TokenOf(const OrderedJson& value, const char* key) const {
    const double number = NumberOf(value, key);
    if (number != std::floor(number) || number < 0 || number > std::numeric_limits<TokenId>::max())
      Fail("{}: {} must hold ids of tokens", path_, key);
    return static_cast<TokenId>(number);
  }

  void RefuseUnread() const {
    for (const auto& [key, value] : json_.items()) {
      if (read_.contains(key) || IsEmpty(value) || std::ranges::find(kUnused, key) != std::end(kUnused)) continue;
      Fail(
          "{}: {} is not supported: merge the adapter into its base model (PEFT's merge_and_unload), or train it "
          "without",
          path_, key.substr(0, 100));
    }
  }

 private:
  const std::string& path_;
  const std::shared_ptr<PatternTime> time_;
  OrderedJson json_;
  std::set<std::string, std::less<>> read_;
};

AdapterConfig::AdapterConfig(const std::string& text, const std::string& path, std::shared_ptr<PatternTime> time) {
  Reader reader(text, path, std::move(time));
  const auto require = [&](const char* key, const char* wanted) {
    const OrderedJson* value = reader.Find(key);
    if (value != nullptr && *value != wanted)
      Fail("{}: {} is {}, and only \"{}\" is supported", path, key, value->dump().substr(0, 100), wanted);
    return value != nullptr;
  };
  if (!require("peft_type", "LORA")) Fail("{}: peft_type is missing", path);
  require("bias", "none");
  rank_ = reader.RankOf(reader.Number("r"), "r");
  alpha_ = reader.Number("lora_alpha");
  by_root_ = reader.Flag("use_rslora");
  if (const OrderedJson* init = reader.Find("init_lora_weights"); init != nullptr && *init != true) {
    const std::string way = reader.TextOf(*init, "init_lora_weights");
    if (std::ranges::find(kHarmlessInits, way) == std::end(kHarmlessInits))
      Fail(
          "{}: init_lora_weights \"{}\" changes the base model: save the adapter with "
          "path_initial_model_for_weight_conversion",
          path, way.substr(0, 100));
  }
  const OrderedJson* target = reader.Find("target_modules");
  parameters_ = reader.NamesOf("target_parameters");
  replaced_ = reader.NamesOf("modules_to_save");
  tokens_ = reader.Tokens("trainable_token_indices");
  ties_head_ = reader.Flag("ensure_weight_tying");
  if (target == nullptr && parameters_.empty()) Fail("{}: target_modules is missing", path);
  all_linear_ = target != nullptr && *target == "all-linear";
  if (!all_linear_) reader.Modules("target_modules", targets_, target_pattern_);
  reader.Modules("exclude_modules", excluded_, exclude_pattern_);
  if (const OrderedJson* layers = reader.Find("layers_to_transform")) {
    layers_.emplace();
    for (const OrderedJson& layer : layers->is_array() ? *layers : OrderedJson::array({*layers}))
      layers_->insert(reader.LayerOf(layer));
  }
  if (const OrderedJson* patterns = reader.Find("layers_pattern")) {
    for (const OrderedJson& pattern : patterns->is_array() ? *patterns : OrderedJson::array({*patterns}))
      layer_patterns_.push_back(reader.PatternOf(
          fmt::format(fmt::runtime(kLayerNumber), "(?:^|.*?\\.)(?:" + reader.TextOf(pattern, "layers_pattern") + ")"),
          "layers_pattern"));
  } else {
    layer_patterns_.push_back(
        reader.PatternOf(fmt::format(fmt::runtime(kLayerNumber), ".*?\\.[^.]*"), "layers_pattern"));
  }
  ranks_ = reader.ModuleNumbers("rank_pattern");
  for (const auto& [pattern, rank] : ranks_) reader.RankOf(rank, "rank_pattern");
  alphas_ = reader.ModuleNumbers("alpha_pattern");
  reader.RefuseUnread();
}

bool AdapterConfig::Targets(const std::string& module) const {
  if (exclude_pattern_ && exclude_pattern_->Matches(module)) return false;
  if (Ends(excluded_, module)) return false;
  if (all_linear_) return true;
  if (target_pattern_) return target_pattern_->Matches(module);
  // PEFT applies layers_to_transform only to modules that target_modules does not name in full.
  return targets_.contains(module) || (Ends(targets_, module) && InTargetedLayer(module));
}

bool AdapterConfig::Ends(const Names& names, const std::string& module) {
  return std::ranges::any_of(names, [&](const std::string& name) { return Ends(name, module); });
}

bool AdapterConfig::InTargetedLayer(const std::string& module) const {
  if (!layers_) return true;
  for (const NamePattern& pattern : layer_patterns_) {
    if (const auto layer = pattern.NumberIn(module)) return layers_->contains(*layer);
  }
  return false;
}

int64_t AdapterConfig::RankOf(const std::string& module) const {
  return static_cast<int64_t>(NumberOf(ranks_, module).value_or(static_cast<double>(rank_)));
}

double AdapterConfig::ScaleOf(const std::string& module) const {
  const auto rank = static_cast<double>(RankOf(module));
  return NumberOf(alphas_, module).value_or(alpha_) / (by_root_ ? std::sqrt(rank) : rank);
}

std::optional<double> AdapterConfig::NumberOf(const Exceptions& exceptions, const std::string& module) {
  for (const auto& [pattern, number] : exceptions) {
    if (pattern.Matches(module)) return number;
  }
  return std::nullopt;
}

}  // namespace quire
