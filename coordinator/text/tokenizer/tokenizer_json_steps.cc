#include "coordinator/text/tokenizer/tokenizer_json_steps.h"

#include <sodium.h>

#include <array>
#include <optional>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

using pre_tokenize::Split;

/// Calls `read` for each step of a "Sequence" (its member `list` has the steps), or for the node itself if the node is
/// a single step.
template <class Read>
void ForEachStep(const Json& node, const char* list, const Read& read) {
  if (TypeOf(node) != "Sequence") return read(node);
  for (const Json& part : node.at(list)) ForEachStep(part, list, read);
}

std::string FromBase64(const std::string& text, const std::string& path) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  size_t length = 0;
  const int status = sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                                       text.size(), nullptr, &length, nullptr, sodium_base64_VARIANT_ORIGINAL);
  if (status != 0) Fail("{}: the precompiled_charsmap is no base64", path);
  bytes.resize(length);
  return bytes;
}

/// The text or the regular expression that a step searches.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Pattern ReadPattern(const Json& pattern) {
  if (pattern.contains("String")) return {pattern["String"].get<std::string>(), false};
  return {pattern.at("Regex").get<std::string>(), true};
}

/// Appends the steps of BertNormalizer, in its order.
void ReadBertNormalizer(const Json& node, std::vector<NormalizerStep>& steps) {
  const bool lower = node.value("lowercase", true);
  const Json& strip = Part(node, "strip_accents");
  if (node.value("clean_text", true)) steps.emplace_back(normalize::BertClean{});
  if (node.value("handle_chinese_chars", true)) steps.emplace_back(normalize::BertIdeographs{});
  if (strip.is_null() ? lower : strip.get<bool>()) {
    steps.emplace_back(UnicodeForm::kNfd);
    steps.emplace_back(normalize::BertStrip{});
  }
  if (lower) steps.emplace_back(normalize::Lowercase{});
}

void ReadNormalizerStep(const Json& node, const std::string& path, std::vector<NormalizerStep>& steps) {
  const std::string type = TypeOf(node);
  if (type == "NFC") {
    steps.emplace_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    steps.emplace_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    steps.emplace_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    steps.emplace_back(UnicodeForm::kNfkd);
  } else if (type == "Lowercase") {
    steps.emplace_back(normalize::Lowercase{});
  } else if (type == "StripAccents") {
    steps.emplace_back(normalize::StripMarks{});
  } else if (type == "Strip") {
    steps.emplace_back(normalize::Trim{node.value("strip_left", true), node.value("strip_right", true)});
  } else if (type == "BertNormalizer") {
    ReadBertNormalizer(node, steps);
  } else if (type == "Nmt") {
    steps.emplace_back(normalize::CleanControls{});
  } else if (type == "Prepend") {
    steps.emplace_back(normalize::Prepend{node.at("prepend").get<std::string>()});
  } else if (type == "Replace") {
    const Pattern pattern = ReadPattern(node.at("pattern"));
    steps.emplace_back(normalize::Replace{pattern.text, pattern.is_regex, node.at("content").get<std::string>()});
  } else if (type == "Precompiled") {
    steps.emplace_back(normalize::Precompiled{FromBase64(node.at("precompiled_charsmap").get<std::string>(), path)});
  } else if (!node.is_null()) {
    Fail(
        "{}: normalizer {} is not supported; supported: BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, Nmt, "
        "Precompiled, Prepend, Replace, Strip, StripAccents",
        path, type);
  }
}

Split::Behavior ReadBehavior(const std::string& name, const std::string& path) {
  using enum Split::Behavior;
  constexpr std::array<std::pair<const char*, Split::Behavior>, 5> kAll = {{{"Isolated", kIsolated},
                                                                            {"Removed", kRemoved},
                                                                            {"MergedWithPrevious", kMergedWithPrevious},
                                                                            {"MergedWithNext", kMergedWithNext},
                                                                            {"Contiguous", kContiguous}}};
  for (const auto& [known, behavior] : kAll) {
    if (name == known) return behavior;
  }
  Fail("{}: behavior {} of a pre-tokenizer is not supported", path, name);
}

pre_tokenize::Marks ReadMarksStep(const Json& node, const std::string& path) {
  using Front = pre_tokenize::Marks::Front;
  const Json replacement = node.value("replacement", std::string(Metaspace::kMark));
  if (replacement != Metaspace::kMark)
    Fail("{}: {} in the place of spaces is not supported", path, DumpJson(replacement));
  const std::string scheme = node.value("prepend_scheme", node.value("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    Fail("{}: prepend_scheme {} is not supported", path, scheme);
  return {scheme == "always"  ? Front::kEvery
          : scheme == "first" ? Front::kFirst
                              : Front::kNone,
          node.value("split", true)};
}

/// Returns the step if it splits at the matches of a pattern; nullopt for steps of other types.
std::optional<Split> ReadSplit(const Json& node, const std::string& path) {
  const std::string type = TypeOf(node);
  using enum Split::Behavior;
  if (type == "Digits")
    return Split{R"(\p{N})", node.value("individual_digits", false) ? kIsolated : kContiguous, false};
  if (type == "Punctuation")
    return Split{kPunctuationPattern, ReadBehavior(node.value("behavior", "Isolated"), path), false};
  if (type == "Whitespace") return Split{kWordsPattern, kRemoved, true};
  if (type == "WhitespaceSplit") return Split{R"(\s)", kRemoved, false};
  if (type == "CharDelimiterSplit")
    return Split{LiteralPattern(node.at("delimiter").get<std::string>()), kRemoved, false};
  if (type != "Split") return std::nullopt;
  const Pattern pattern = ReadPattern(node.at("pattern"));
  return Split{pattern.is_regex ? pattern.text : LiteralPattern(pattern.text),
               ReadBehavior(node.at("behavior").get<std::string>(), path), node.value("invert", false)};
}

void ReadPreTokenizerStep(const Json& node, const std::string& path, PreTokenizerSteps& out) {
  const std::string type = TypeOf(node);
  if (node.is_null()) return;
  const bool after_bytes = out.byte_level;
  if (type == "ByteLevel" || type == "Metaspace") {
    if (after_bytes) Fail("{}: pre-tokenizer {} after ByteLevel is not supported", path, type);
    if (type == "Metaspace") return void(out.steps.emplace_back(ReadMarksStep(node, path)));
    out.byte_level = true;
    if (node.value("add_prefix_space", true)) out.steps.emplace_back(pre_tokenize::PrefixSpace{});
    if (node.value("use_regex", true)) out.steps.emplace_back(Split{kGpt2Pattern});
    return;
  }
  if (type == "BertPreTokenizer" && !after_bytes) {
    out.steps.emplace_back(Split{R"(\s)", Split::Behavior::kRemoved, false});
    out.steps.emplace_back(Split{kPunctuationPattern, Split::Behavior::kIsolated, false});
    return;
  }
  const std::optional<Split> split = ReadSplit(node, path);
  if (!split) Fail("{}: pre-tokenizer {} is not supported", path, type.empty() ? "without a type" : type);
  // Steps after ByteLevel work on text in the byte alphabet.
  if (after_bytes && !std::exchange(out.in_alphabet, true)) out.steps.emplace_back(pre_tokenize::Alphabet{});
  out.steps.emplace_back(*split);
}

}  // namespace

std::string TypeOf(const Json& node) { return node.is_object() ? node.value("type", "") : ""; }

const Json& Part(const Json& json, const char* key) {
  static const Json kNull;
  return json.contains(key) ? json[key] : kNull;
}

void ReadNormalizer(const Json& node, const std::string& path, std::vector<NormalizerStep>& steps) {
  ForEachStep(node, "normalizers", [&](const Json& part) { ReadNormalizerStep(part, path, steps); });
}

PreTokenizerSteps ReadPreTokenizer(const Json& node, const std::string& path) {
  PreTokenizerSteps out;
  ForEachStep(node, "pretokenizers", [&](const Json& part) { ReadPreTokenizerStep(part, path, out); });
  return out;
}

Metaspace ReadTextDecoder(const Json& node, const std::string& path) {
  bool reads_marks = false, fused = false;
  Metaspace metaspace{.has_bytes = false};
  ForEachStep(node, "decoders", [&](const Json& part) {
    const std::string type = TypeOf(part);
    if (type == "Replace" && part.at("pattern").value("String", "") == Metaspace::kMark && part.at("content") == " ") {
      reads_marks = true;
    } else if (type == "Metaspace") {
      reads_marks = true;
      const std::string scheme =
          part.value("prepend_scheme", part.value("add_prefix_space", true) ? "always" : "never");
      if (scheme != "never") metaspace.front = Metaspace::Front::kMarksDropped;
    } else if (type == "ByteFallback") {
      metaspace.has_bytes = true;
    } else if (type == "Strip" && part.at("content") == " " && part.at("start") == 1 && part.at("stop") == 0 && fused) {
      metaspace.front = Metaspace::Front::kSpaceDropped;
    } else if (type == "Fuse") {
      fused = true;
    } else {
      Fail("{}: decoder {} is not supported here", path, type.empty() ? "null" : type);
    }
  });
  if (!reads_marks) Fail("{}: the decoder does not say what \u2581 is", path);
  return metaspace;
}

void CheckByteLevelDecoder(const Json& node, const std::string& path) {
  ForEachStep(node, "decoders", [&](const Json& part) {
    const std::string type = TypeOf(part);
    if (!part.is_null() && type != "ByteLevel" && type != "Fuse")
      Fail("{}: decoder {} of a byte-level vocabulary is not supported", path, type);
  });
}

}  // namespace quire
