#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/base/types.h"
#include "comm/model/name_pattern.h"

namespace quire {

/// The settings of a PEFT LoRA adapter, from its adapter_config.json. A module is a matrix of the base model. Its name
/// is the one in HF transformers, such as model.layers.0.self_attn.q_proj.
class AdapterConfig {
 public:
  /// Reads the file's text. Throws Error, which begins with `path` and names the key, for an unsupported or invalid
  /// value and for an unknown key with a value. All regular expressions take their processor time from `time`; the
  /// functions below throw Error when no time is left.
  AdapterConfig(const std::string& text, const std::string& path,
                std::shared_ptr<PatternTime> time = std::make_shared<PatternTime>());

  /// Returns true when the adapter targets the module, so that its file should have matrices for it.
  bool Targets(const std::string& module) const;
  /// True when the adapter targets all linear modules, whatever their names are.
  bool targets_all() const { return all_linear_; }
  /// True when the adapter is meant to change the parameter (target_parameters). A parameter is a weight that forms no
  /// module, such as model.layers.0.mlp.experts.down_proj.
  bool TargetsParameter(const std::string& parameter) const { return Ends(parameters_, parameter); }
  const std::set<std::string, std::less<>>& parameters() const { return parameters_; }
  /// True when the adapter replaces the module's weights by its own (modules_to_save).
  bool Replaces(const std::string& module) const { return Ends(replaced_, module); }
  /// True when the adapter's changes of the embedding also apply to a head that shares the embedding's weights.
  bool ties_head() const { return ties_head_; }
  /// Maps a module's name, or the last parts of the name, to the tokens whose rows the adapter replaces
  /// (trainable_token_indices), in the order of the rows in the file. The empty name means the embedding.
  const std::map<std::string, std::vector<TokenId>>& tokens() const { return tokens_; }
  /// Returns the rank of the LoRA matrices of a module. RankOf and ScaleOf also take names of parameters.
  int64_t RankOf(const std::string& module) const;
  /// Returns the factor of the product of the module's two matrices, for a rank above 0.
  double ScaleOf(const std::string& module) const;

  /// True when `end` equals the whole name or its last parts.
  static bool Ends(const std::string& end, const std::string& module) {
    return module == end || module.ends_with("." + end);
  }

 private:
  /// Names of modules. The set contains a module if it has the module's whole name or the last parts of that name.
  using Names = std::set<std::string, std::less<>>;
  /// Ranks or alphas of single modules, in the order of the file. The first pattern that matches a module decides.
  using Exceptions = std::vector<std::pair<NamePattern, double>>;
  class Reader;

  static bool Ends(const Names& names, const std::string& module);
  bool InTargetedLayer(const std::string& module) const;
  /// Returns the number of the first pattern that matches; nullopt when none does.
  static std::optional<double> NumberOf(const Exceptions& exceptions, const std::string& module);

  int64_t rank_ = 0;
  double alpha_ = 0;
  bool by_root_ = false;  // use_rslora: ScaleOf divides by the square root of the rank
  bool all_linear_ = false;
  bool ties_head_ = false;
  std::optional<NamePattern> target_pattern_, exclude_pattern_;
  Names targets_, excluded_, parameters_, replaced_;
  std::map<std::string, std::vector<TokenId>> tokens_;
  std::optional<std::set<int64_t>> layers_;  // nothing: all layers
  std::vector<NamePattern> layer_patterns_;
  Exceptions ranks_, alphas_;
};

}  // namespace quire
