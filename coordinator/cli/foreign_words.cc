#include "coordinator/cli/foreign_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/cli/foreign_flags.h"

namespace quire {

namespace {

using Words = std::vector<std::string>;

constexpr char kServedNames[] = "--served-model-name";
constexpr char kAdapterFlag[] = "--lora-modules";
constexpr char kModel[] = "--model";

bool IsNumber(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789.-") == std::string::npos;
}

/// True for a word that begins with a dash, except for a dash alone and a negative number.
bool LooksLikeFlag(const std::string& word) { return word.size() > 1 && word[0] == '-' && !IsNumber(word); }

bool IsSwitchValue(const std::string& word) {
  return IsAmong("on off auto true false", word) || (IsNumber(word) && !word.empty());
}

Words SplitAtBlanks(std::string_view text) {
  Words words = {""};
  for (const char c : text) {
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

std::string CommandName(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : CommandName(*parent) + " " + app.get_name();
}

bool HasFlag(const CLI::App& app, const std::string& name) { return app.get_option_no_throw(name) != nullptr; }

/// Returns the kind of a command. Commands that start servers have flags for the scheduler.
FlagPlace PlaceOf(const CLI::App& app) {
  return HasFlag(app, "--max-num-seqs") ? FlagPlace::kServers : FlagPlace::kClients;
}

/// Returns the foreign flag with this name that the command knows; null when there is none. A foreign flag that is
/// another spelling of a flag of Quire counts only if the command has the latter.
const ForeignFlag* FindForeign(const CLI::App& app, std::string_view name) {
  const FlagPlace place = PlaceOf(app);
  const auto found = std::ranges::find_if(
      ForeignFlags(), [&](const ForeignFlag& flag) { return flag.place == place && IsAmong(flag.names, name); });
  if (found == ForeignFlags().end()) return nullptr;
  return found->fate != FlagFate::kOurs || HasFlag(app, SplitAtBlanks(found->to)[0]) ? &*found : nullptr;
}

const ForeignValue* FindValue(const std::string& name, const std::string& value) {
  const auto found = std::ranges::find_if(
      ForeignValues(), [&](const ForeignValue& row) { return IsAmong(row.flags, name) && IsAmong(row.values, value); });
  return found == ForeignValues().end() ? nullptr : &*found;
}

/// Translates the words that follow the name of one command.
class Translation {
 public:
  Translation(const CLI::App& app, const Words& typed, size_t begin) : app_(app), typed_(typed), at_(begin) {}

  void Run(OwnWords& own) {
    while (at_ < typed_.size()) {
      const std::string& word = typed_[at_++];
      if (word == "--" || app_.get_prefix_command()) {
        for (--at_; at_ < typed_.size(); ++at_) own.words.push_back(typed_[at_]);
      } else if (LooksLikeFlag(word)) {
        TakeFlag(word, own);
      } else {
        names_model_ = true;
        own.words.push_back(word);
      }
    }
    PutServedNames(own);
  }

 private:
  void TakeFlag(const std::string& word, OwnWords& own) {
    const size_t sign = word.find('=');
    std::string name = word.substr(0, sign);
    std::optional<std::string> value;
    if (sign != std::string::npos) value = word.substr(sign + 1);
    if (name.starts_with("--") && !HasFlag(app_, name)) std::ranges::replace(name, '_', '-');
    if (HasFlag(app_, name)) return TakeOwn(name, value, own);
    if (!FindForeign(app_, name)) SplitAttached(name, value);
    if (const ForeignFlag* flag = FindForeign(app_, name)) return TakeForeign(*flag, name, value, own);
    RefuseServersFlag(name);
    // An unknown long flag is left to the parser: the parser's error names the flag. This function refuses an unknown
    // short flag, because the parser could read it as a group of one-letter flags.
    if (!name.starts_with("--") && !IsOwnWithValue(name)) RefuseShort(name);
    own.words.push_back(word);
  }

  /// Splits a short flag with its value attached: -c4096 becomes -c and 4096.
  void SplitAttached(std::string& name, std::optional<std::string>& value) const {
    const size_t digits = name.find_first_of("0123456789");
    if (name.starts_with("--") || value || digits == std::string::npos || digits < 2) return;
    if (!IsNumber(name.substr(digits)) || !FindForeign(app_, name.substr(0, digits))) return;
    value = name.substr(digits);
    name.erase(digits);
  }

  /// True for a short flag of the command itself with its value attached, such as -oFILE.
  bool IsOwnWithValue(const std::string& name) const {
    const CLI::Option* option = app_.get_option_no_throw(name.substr(0, 2));
    return option != nullptr && option->get_items_expected_max() > 0;
  }

  /// Refuses a flag of `quire serve` if no command was typed. Users of llama-server, which has no commands, may type
  /// the flag alone.
  void RefuseServersFlag(const std::string& name) const {
    if (app_.get_parent() != nullptr) return;
    const auto serve = app_.get_subcommands([](const CLI::App* a) { return a->get_name() == "serve"; });
    if (serve.empty() || (!HasFlag(*serve[0], name) && FindForeign(*serve[0], name) == nullptr)) return;
    Fail("{0} has no flag {1}; {0} serve has: {0} serve {1} ... (quire serve --help lists the flags)", app_.get_name(),
         name);
  }

  [[noreturn]] void RefuseShort(const std::string& name) const {
    const std::string longer = "-" + name, command = CommandName(app_);
    const std::string question = HasFlag(app_, longer) ? fmt::format("; did you mean {}?", longer) : "";
    Fail("{0} has no flag {1}{2} ({0} --help lists the flags)", command, name, question);
  }

  void TakeOwn(const std::string& name, std::optional<std::string> value, OwnWords& own) {
    if (name == kModel) names_model_ = true;
    if (name == kServedNames && !value) return GatherServedNames(own);
    if (name == kAdapterFlag) return GatherAdapters(value, own);
    const CLI::Option& option = *app_.get_option_no_throw(name);
    const int most = option.get_items_expected_max();
    const int count =
        option.get_allow_extra_args() ? most : std::min(most, std::max(1, option.get_items_expected_min()));
    if (!value && most > 0 && HasValue()) value = typed_[at_++];
    if (!value) return own.words.push_back(name);
    if (TakeValue(name, *value, own)) return;
    PutFlag(name, *value, most > 0, own);
    for (int more = 1; more < count && HasValue(); ++more) own.words.push_back(typed_[at_++]);
  }

  void TakeForeign(const ForeignFlag& flag, const std::string& name, std::optional<std::string> value, OwnWords& own) {
    const bool may_follow = flag.takes != FlagTakes::kNothing && !value && at_ < typed_.size();
    if (may_follow && HasValue() && (flag.takes != FlagTakes::kSwitch || IsSwitchValue(typed_[at_])))
      value = typed_[at_++];
    if (value && TakeValue(name, *value, own)) return;
    if (flag.fate == FlagFate::kRefused) Fail("{}: {} is refused: {}", CommandName(app_), name, flag.to);
    if (!value && (flag.takes == FlagTakes::kWord)) Fail("{}: {} needs a value", CommandName(app_), name);
    if (flag.fate == FlagFate::kNotNeeded) return Note(name, flag.to, own);
    Words ours = SplitAtBlanks(flag.to);
    if (ours[0] == kModel) names_model_ = true;
    if (!value) {
      std::ranges::move(ours, std::back_inserter(own.words));
    } else if (!TakeValue(ours[0], *value, own)) {
      PutFlag(ours[0], *value, true, own);
    }
  }

  /// Treats a value as its row in kForeignValues says. Returns false if the value has no row.
  bool TakeValue(const std::string& name, const std::string& value, OwnWords& own) const {
    if (PlaceOf(app_) != FlagPlace::kServers) return false;
    const ForeignValue* row = FindValue(name, value);
    if (row == nullptr) return false;
    const std::string shown = name + " " + value;
    if (row->fate == FlagFate::kRefused) Fail("{}: {} is refused: {}", CommandName(app_), shown, row->to);
    if (row->fate == FlagFate::kNotNeeded) {
      Note(shown, row->to, own);
    } else {
      for (std::string& word : SplitAtBlanks(row->to)) own.words.push_back(std::move(word));
    }
    return true;
  }

  /// Adds a flag and its value. Puts "=" between a long flag and a value that is empty or begins with a dash, or that
  /// belongs to a flag without values: the parser requires this.
  static void PutFlag(const std::string& name, const std::string& value, bool takes_value, OwnWords& own) {
    if (name.starts_with("--") && (value.empty() || value.starts_with('-') || !takes_value)) {
      own.words.push_back(name + "=" + value);
    } else {
      own.words.push_back(name);
      own.words.push_back(value);
    }
  }

  static void Note(const std::string& shown, std::string_view why, OwnWords& own) {
    own.notes.push_back(fmt::format("{} is not needed: {}", shown, why));
  }

  bool HasValue() const { return at_ < typed_.size() && !LooksLikeFlag(typed_[at_]); }

  void GatherServedNames(OwnWords& own) {
    while (HasValue()) names_.push_back(typed_[at_++]);
    if (names_.empty()) own.words.push_back(kServedNames);
  }

  /// Takes one adapter or several. If a word after them names no adapter, the word is the model.
  void GatherAdapters(const std::optional<std::string>& value, OwnWords& own) {
    const size_t before = adapters_.size();
    if (value) adapters_.push_back(*value);
    while (!value && HasValue() && (adapters_.size() == before || typed_[at_].find_first_of("={") != std::string::npos))
      adapters_.push_back(typed_[at_++]);
    if (adapters_.size() == before) own.words.push_back(kAdapterFlag);  // the parser's error says what is missing
  }

  /// Passes the served names and the adapters on. If the command line names no model elsewhere, the last of several
  /// served names is the model.
  void PutServedNames(OwnWords& own) {
    std::string model;
    if (names_.size() > 1 && !names_model_) {
      model = names_.back();
      names_.pop_back();
    }
    if (names_.size() == 1) PutFlag(kServedNames, names_[0], true, own);
    if (names_.size() > 1) PutFlag(kServedNames, Json(names_).dump(), true, own);
    if (!model.empty()) own.words.push_back(model);
    if (!adapters_.empty()) PutFlag(kAdapterFlag, Json(adapters_).dump(), true, own);
  }

  const CLI::App& app_;
  const Words& typed_;
  size_t at_;
  Words names_;     // words after --served-model-name
  Words adapters_;  // words after --lora-modules
  bool names_model_ = false;
};

/// Returns the remedy for a command of another engine, or "" if the word is no such command.
std::string RemedyFor(const std::string& word) {
  for (const ForeignCommand& command : ForeignCommands()) {
    if (IsAmong(command.names, word)) return std::string(command.remedy);
  }
  return "";
}

}  // namespace

OwnWords InOwnWords(const CLI::App& app, const std::vector<std::string>& typed) {
  OwnWords own;
  const CLI::App* command = &app;
  size_t at = 0;
  for (; at < typed.size() && !LooksLikeFlag(typed[at]); ++at) {
    const auto inside = command->get_subcommands([](const CLI::App*) { return true; });
    const auto next = std::ranges::find(inside, typed[at], [](const CLI::App* a) { return a->get_name(); });
    if (next == inside.end()) {
      const std::string remedy = command == &app ? RemedyFor(typed[at]) : "";
      if (!remedy.empty()) Fail("{} has no command \"{}\": {}", app.get_name(), typed[at], remedy);
      break;
    }
    command = *next;
    own.words.push_back(typed[at]);
  }
  Translation(*command, typed, at).Run(own);
  return own;
}

}  // namespace quire
