#include "coordinator/cli/flag_values.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "comm/base/error.h"
#include "comm/topology/topology.h"
#include "coordinator/text/answers/answer_format.h"

namespace quire {

namespace {

using Values = std::vector<std::string>;

template <ChosenByWord E>
Values ChoicesAsTexts() {
  const std::vector<std::string_view> names = NamesOf<E>();
  return {names.begin(), names.end()};
}

/// Returns "auto" and the names in `list`, which commas separate.
Values AutoAnd(const std::string& list) {
  Values values = {"auto", ""};
  for (const char c : list) {
    if (c == ',')
      values.emplace_back();
    else if (c != ' ')
      values.back() += c;
  }
  return values;
}

Values ToolFormats() { return AutoAnd(ToolFormatNames()); }
Values ReasoningFormats() { return AutoAnd(ReasoningFormatNames()); }

struct FlagWithValues {
  std::string_view flag;
  Values (*values)();
};

constexpr FlagWithValues kFlagsWithValues[] = {
    {"--backend", ChoicesAsTexts<BackendKind>},
    {"--dtype", ChoicesAsTexts<ModelDtype>},
    {"--quantization", ChoicesAsTexts<Quantization>},
    {"--activations", ChoicesAsTexts<ActivationType>},
    {"--attention-backend", ChoicesAsTexts<AttentionBackend>},
    {"--kv-cache-dtype", ChoicesAsTexts<KvCacheDtype>},
    {"--preemption-mode", ChoicesAsTexts<PreemptionMode>},
    {"--load-format", ChoicesAsTexts<LoadFormat>},
    {"--load", ChoicesAsTexts<LoadMoment>},
    {"--pooling", ChoicesAsTexts<PoolingMode>},
    {"--scoring", ChoicesAsTexts<ScoringMode>},
    {"--generation-config", ChoicesAsTexts<GenerationConfigMode>},
    {"--access-log", ChoicesAsTexts<AccessLog>},
    {"--log-level", ChoicesAsTexts<LogLevel>},
    {"--log-format", ChoicesAsTexts<LogFormat>},
    {"--tool-call-parser", ToolFormats},
    {"--reasoning-parser", ReasoningFormats},
};

struct KeysUnderHeading {
  std::string_view begin;  // the group has the keys that begin with this text
  const char* heading;
};

constexpr KeysUnderHeading kHeadings[] = {
    {"model.", "Model"},      {"adapters", "Model"},     {"lora.", "Model"},
    {"cache.", "KV cache"},   {"scheduler.", "Scheduling"},
    {"server.", "Serving"},   {"admin.", "Serving"},     {"speculation", "Scheduling"}, {"logs.", "Watching"},
    {"metrics.", "Watching"}, {"kv_events", "Watching"}, {"traces.", "Watching"},       {"journal", "Watching"}};

}  // namespace

std::vector<std::string> ValuesOfFlag(std::string_view flag) {
  const auto found = std::ranges::find(kFlagsWithValues, flag, &FlagWithValues::flag);
  return found == std::end(kFlagsWithValues) ? Values() : found->values();
}

YamlNode ValueAsItIs(const std::string& text, const std::string&) { return {.scalar = text, .quoted = true}; }

YamlNode ValueInGibibytes(const std::string& text, const std::string& flag) {
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  return ValueAsItIs(plain ? text + "GiB" : text, flag);
}

YamlNode ValueOfTokens(const std::string& text, const std::string& flag) {
  const size_t digits = text.find_first_not_of("0123456789");
  size_t end = digits;
  if (digits != std::string::npos && text[digits] == '.') end = text.find_first_not_of("0123456789", digits + 1);
  if (end == 0 || end == std::string::npos || end + 1 != text.size()) return ValueAsItIs(text, flag);
  constexpr std::pair<char, double> kUnits[] = {{'k', 1e3}, {'K', 1024}, {'m', 1e6}, {'M', 1024 * 1024}};
  for (const auto& [letter, factor] : kUnits) {
    if (text[end] != letter) continue;
    const double tokens = std::stod(text.substr(0, end)) * factor;
    if (tokens < 1e15) return ValueAsItIs(std::to_string(static_cast<int64_t>(tokens)), flag);
  }
  return ValueAsItIs(text, flag);
}

YamlNode ValueOfWords(const std::string& text, const std::string& flag) {
  if (text.starts_with('[')) return ParseYaml(text, flag);
  YamlNode list{.kind = YamlNode::Kind::kSequence};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    list.items.push_back(ValueAsItIs(text.substr(begin, end - begin), flag));
    begin = end + 1;
  }
  return list;
}

YamlNode ValueOfNames(const std::string& text, const std::string& flag) {
  return text.starts_with('[') ? ParseYaml(text, flag) : ValueAsItIs(text, flag);
}

YamlNode ValueOfAdapters(const std::string& text, const std::string& flag) {
  YamlNode list{.kind = YamlNode::Kind::kSequence};
  YamlNode given = text.starts_with('[') ? ParseYaml(text, flag) : list;
  if (!text.starts_with('[')) given.items.push_back(ValueAsItIs(text, flag));
  for (const YamlNode& item : given.items) {
    const std::string& adapter = item.scalar;
    const size_t sign = adapter.find('=');
    if (item.kind != YamlNode::Kind::kScalar || adapter.starts_with('{')) {
      list.items.push_back(item.kind != YamlNode::Kind::kScalar ? item : ParseYaml(adapter, flag));
    } else if (sign == std::string::npos) {
      Fail("{}: \"{}\" is no adapter; give NAME=PATH", flag, adapter);
    } else {
      list.items.push_back({.kind = YamlNode::Kind::kMapping,
                            .entries = {{"name", ValueAsItIs(adapter.substr(0, sign), flag)},
                                        {"path", ValueAsItIs(adapter.substr(sign + 1), flag)}}});
    }
  }
  return list;
}

std::string HelpGroupOf(std::string_view key) {
  const auto found =
      std::ranges::find_if(kHeadings, [&](const KeysUnderHeading& keys) { return key.starts_with(keys.begin); });
  return found == std::end(kHeadings) ? "Computing" : found->heading;
}

}  // namespace quire
