#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/model/name_pattern.h"

namespace quire {

/// The settings of a PEFT LoRA adapter: its adapter_config.json. A module is a matrix of the base model by its name in
/// HF transformers, such as model.layers.0.self_attn.q_proj.
class AdapterConfig {
 public:
  /// Reads the file's text. Throws Error, which begins with `path` and names the key, for a value that is not supported
  /// or not valid, and for keys that are not known and have a value. All regular expressions take their time
  /// from `time`; the functions below throw Error when no time is left.
  AdapterConfig(const std::string& text, const std::string& path,
                std::shared_ptr<PatternTime> time = std::make_shared<PatternTime>());

  /// Returns true when the adapter must have matrices for the module.
  bool Targets(const std::string& module) const;
  /// True when the adapter targets all linear modules, whatever their names are.
  bool targets_all() const { return all_linear_; }
  int64_t RankOf(const std::string& module) const;
  /// Returns the factor of the product of the module's two matrices, for a rank above 0.
  double ScaleOf(const std::string& module) const;

 private:
  /// Names of modules. A module is meant when its whole name, or the last parts of its name, are in the set.
  using Names = std::set<std::string, std::less<>>;
  /// Numbers that hold for single modules, in the order of the file: the first pattern that matches a module decides.
  using Exceptions = std::vector<std::pair<NamePattern, double>>;
  class Reader;

  bool InTargetedLayer(const std::string& module) const;
  /// Returns the number of the first pattern that matches; nullopt when none does.
  static std::optional<double> NumberOf(const Exceptions& exceptions, const std::string& module);

  int64_t rank_ = 0;
  double alpha_ = 0;
  bool by_root_ = false;  // use_rslora: divides by the root of the rank
  bool all_linear_ = false;
  std::optional<NamePattern> target_pattern_, exclude_pattern_;
  Names targets_, excluded_;
  std::optional<std::set<int64_t>> layers_;  // nothing: all
  std::vector<NamePattern> layer_patterns_;
  Exceptions ranks_, alphas_;
};

}  // namespace quire
