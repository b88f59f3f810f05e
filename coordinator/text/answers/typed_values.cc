#include "coordinator/text/answers/typed_values.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "comm/schema/schema_reader.h"
#include "comm/schema/schema_values.h"
#include "comm/schema/schema_work.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/python_arguments.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

constexpr int64_t kValueWork = 50'000;  // schema work to check one value: some milliseconds

/// One parameter's type, as the schema describes it.
class ParameterType {
 public:
  ParameterType(const OrderedJson& whole, std::shared_ptr<const ParameterTypes::Alternatives> alternatives)
      : reader_(whole), alternatives_(std::move(alternatives)) {}

  /// True when the schema accepts every value, or none. Then only the text decides on the type.
  bool SaysNothing() const {
    constexpr unsigned kValues = kArrayType | kObjectType | kBooleanType | kIntegerType;
    return alternatives_->empty() ||
           Any([](const PlainSchema& one) { return one.TakesAllTexts() && (one.types & kValues) == kValues; });
  }
  bool TakesAllTexts() const {
    return Any([](const PlainSchema& one) { return one.TakesAllTexts(); });
  }
  bool Accepts(const OrderedJson& value) const {
    return Any([&](const PlainSchema& one) { return quire::Accepts(reader_, one, value); });
  }
  /// True when the schema accepts some value of this type.
  bool Knows(JsonType type) const {
    return Any([&](const PlainSchema& one) {
      if (!one.Has(type)) return false;
      return !one.values || std::ranges::any_of(*one.values, [&](const auto& value) { return TypeOf(value) == type; });
    });
  }

 private:
  template <class Test>
  bool Any(const Test& test) const {
    return std::ranges::any_of(*alternatives_, test);
  }

  SchemaReader reader_;
  std::shared_ptr<const ParameterTypes::Alternatives> alternatives_;
};

std::string FromAnything(const std::string& bare, std::string_view text) {
  return Json::accept(bare) ? bare : JsonString(text);
}

/// Converts a value other than a string into JSON, from the model's spelling; accepts Python literals, and words in
/// upper case such as TRUE. Returns nullopt when the text is not such a value.
std::optional<std::string> NoText(const std::string& bare) {
  constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"true", "true"}, {"false", "false"}, {"none", "null"}, {"null", "null"}};
  const auto same_letter = [](char a, char b) { return (a | 0x20) == b; };
  for (const auto& [word, json] : kWords) {
    if (std::ranges::equal(bare, word, same_letter)) return json;
  }
  if (Json::accept(bare)) return bare;
  const bool structured = !bare.empty() && std::string_view("[{(").find(bare.front()) != std::string_view::npos;
  constexpr std::string_view kBegin = "{\"v\": ";
  auto literal = structured ? ReadPythonArguments("v=" + bare) : std::nullopt;
  if (!literal || !literal->starts_with(kBegin)) return std::nullopt;
  std::string value = literal->substr(kBegin.size(), literal->size() - kBegin.size() - 1);
  if (!Json::accept(value)) return std::nullopt;  // JSON readers have limits that Python's numbers lack
  return value;
}

std::string OfType(const ParameterType& type, const std::string& bare, std::string_view text) {
  const auto accepts = [&](const std::string& json) { return type.Accepts(ParseExactJson(json)); };
  const std::optional<std::string> other = NoText(bare);
  // "null" means JSON's null, unless it is one of the accepted strings.
  if (bare == "null" && type.Knows(kNullType) && (type.TakesAllTexts() || !type.Accepts("null"))) return bare;
  if (type.TakesAllTexts()) return JsonString(text);
  for (const std::string& json : {JsonString(bare), JsonString(text)}) {
    if (accepts(json)) return json;
  }
  if (other && accepts(*other)) return *other;
  // The schema accepts no reading of the text, so the result is at least a value of an accepted type.
  if (type.Knows(kStringType)) return JsonString(bare);
  return other.value_or(JsonString(text));
}

}  // namespace

std::shared_ptr<const ParameterTypes::Alternatives> ParameterTypes::Of(const Tool& tool, const std::string& parameter) {
  constexpr int64_t kUnitsOfAName = 8;  // units charged for a parameter name in the cache
  const std::lock_guard lock(mutex_);
  const auto known = known_.find({tool.name, parameter});
  if (known != known_.end()) return known->second;
  auto found = std::make_shared<Alternatives>();
  const SchemaWork work(left_ / 2);
  try {
    const SchemaReader reader(tool.parameters);
    for (const PlainSchema& one : reader.Alternatives(tool.parameters)) {
      if (!one.Has(kObjectType)) continue;
      std::ranges::move(reader.Alternatives(one.ForName(parameter)), std::back_inserter(*found));
    }
    for (PlainSchema& one : *found) {
      if (one.length.bounded()) one.texts = one.Texts();
      one.length = Counts();
    }
  } catch (const Error&) {  // the schema is invalid or too expensive: no restriction
    found->clear();
  }
  left_ -= work.spent();
  const int64_t kept = kUnitsOfAName + (found->empty() ? 0 : work.spent());
  if (kept_ + kept > kMostKept) return found;
  kept_ += kept;
  known_.emplace(std::pair(tool.name, parameter), found);
  return found;
}

size_t ParameterTypes::num_kept() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

int64_t ParameterTypes::spent() const {
  const std::lock_guard lock(mutex_);
  return kWork - left_;
}

std::string TypedValue(const Tool& tool, const std::string& parameter, std::string_view text) {
  const std::string bare(Trimmed(text));
  if (!tool.parameters.is_object()) return FromAnything(bare, text);
  const std::shared_ptr<ParameterTypes> types = tool.types ? tool.types : std::make_shared<ParameterTypes>();
  try {
    const ParameterType type(tool.parameters, types->Of(tool, parameter));
    const SchemaWork work(kValueWork);
    return type.SaysNothing() ? FromAnything(bare, text) : OfType(type, bare, text);
  } catch (const Error&) {  // checking the value takes too much work
    return FromAnything(bare, text);
  }
}

}  // namespace quire
