#include "coordinator/text/answers/typed_values.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "comm/schema/schema_reader.h"
#include "comm/schema/schema_values.h"
#include "comm/schema/schema_work.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

constexpr int kMaxDepth = 32;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

/// What a schema says of one parameter, with references into all of it.
class ParameterType {
 public:
  ParameterType(const OrderedJson& whole, const std::string& parameter) : reader_(whole) {
    for (const PlainSchema& one : reader_.Alternatives(whole)) {
      if (!one.Has(kObjectType)) continue;
      for (PlainSchema& part : reader_.Alternatives(one.ForName(parameter))) alternatives_.push_back(std::move(part));
    }
  }

  /// It accepts whatever there is, or nothing at all: the text alone tells.
  bool SaysNothing() const {
    constexpr unsigned kValues = kArrayType | kObjectType | kBooleanType | kIntegerType;
    return alternatives_.empty() ||
           Any([](const PlainSchema& one) { return one.TakesAllTexts() && (one.types & kValues) == kValues; });
  }
  bool TakesAllTexts() const {
    return Any([](const PlainSchema& one) { return one.TakesAllTexts(); });
  }
  bool Accepts(const OrderedJson& value) const {
    return Any([&](const PlainSchema& one) { return quire::Accepts(reader_, one, value); });
  }
  /// Some value of the type is accepted.
  bool Knows(JsonType type) const {
    return Any([&](const PlainSchema& one) {
      if (!one.Has(type)) return false;
      return !one.values || std::ranges::any_of(*one.values, [&](const auto& value) { return TypeOf(value) == type; });
    });
  }

 private:
  template <class Test>
  bool Any(const Test& test) const {
    return std::ranges::any_of(alternatives_, test);
  }

  SchemaReader reader_;
  std::vector<PlainSchema> alternatives_;
};

std::string FromAnything(const std::string& bare, std::string_view text) {
  return Json::accept(bare) ? bare : JsonString(text);
}

/// The JSON of a value that is no text: what a model writes, which may be a literal of Python's. Nothing: it is none.
std::optional<std::string> NoText(const std::string& bare) {
  if (bare == "True" || bare == "False") return bare == "True" ? "true" : "false";
  if (bare == "None") return "null";
  if (Json::accept(bare)) return bare;
  const bool structured = !bare.empty() && std::string_view("[{(").find(bare.front()) != std::string_view::npos;
  constexpr std::string_view kBegin = "{\"v\": ";
  auto literal = structured ? PythonArguments("v=" + bare) : std::nullopt;
  if (!literal || !literal->starts_with(kBegin)) return std::nullopt;
  return literal->substr(kBegin.size(), literal->size() - kBegin.size() - 1);
}

std::string OfType(const ParameterType& type, const std::string& bare, std::string_view text) {
  const auto accepts = [&](const std::string& json) { return type.Accepts(ParseExactJson(json)); };
  const std::optional<std::string> other = NoText(bare);
  // What is null in JSON is meant so, unless the texts that there are have it among them.
  if (bare == "null" && type.Knows(kNullType) && (type.TakesAllTexts() || !type.Accepts("null"))) return bare;
  if (type.TakesAllTexts()) return JsonString(text);
  for (const std::string& json : {JsonString(bare), JsonString(text)}) {
    if (accepts(json)) return json;
  }
  if (other && accepts(*other)) return *other;
  // It is none of the values that are accepted. At least its type is.
  if (type.Knows(kStringType)) return JsonString(bare);
  return other.value_or(JsonString(text));
}

/// Literals of Python as JSON.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::optional<std::string> Arguments() {
    std::string out = "{";
    SkipSpace();
    while (at_ < text_.size()) {
      const std::string name = Name();
      SkipSpace();
      if (name.empty() || !Take('=')) return std::nullopt;
      out += (out.size() > 1 ? ", " : "") + JsonString(name) + ": ";
      if (!Value(out, 0)) return std::nullopt;
      SkipSpace();
      if (at_ < text_.size() && !Take(',')) return std::nullopt;
      SkipSpace();
    }
    return out + "}";
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && IsJsonSpace(text_[at_])) ++at_;
  }
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string Name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool Value(std::string& out, int depth) {
    SkipSpace();
    if (at_ == text_.size() || depth == kMaxDepth) return false;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return String(out);
    if (c == '[' || c == '(') return Items(out, c == '[' ? ']' : ')', depth);
    if (c == '{') return Members(out, depth);
    return Word(out);
  }

  bool Items(std::string& out, char close, int depth) {
    ++at_;
    out += '[';
    for (bool first = true;; first = false) {
      SkipSpace();
      if (Take(close)) break;
      if (!first) out += ", ";
      if (!Value(out, depth + 1)) return false;
      SkipSpace();
      if (Take(close)) break;
      if (!Take(',')) return false;
    }
    out += ']';
    return true;
  }

  bool Members(std::string& out, int depth) {
    ++at_;
    out += '{';
    for (bool first = true;; first = false) {
      SkipSpace();
      if (Take('}')) break;
      if (!first) out += ", ";
      if (at_ == text_.size() || (text_[at_] != '"' && text_[at_] != '\'') || !String(out)) return false;
      SkipSpace();
      if (!Take(':')) return false;
      out += ": ";
      if (!Value(out, depth + 1)) return false;
      SkipSpace();
      if (Take('}')) break;
      if (!Take(',')) return false;
    }
    out += '}';
    return true;
  }

  bool String(std::string& out) {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (c != '\\') {
        value += c;
      } else if (!Escape(value)) {
        return false;
      }
    }
    if (!Take(quote)) return false;
    out += JsonString(value);
    return true;
  }

  /// Behind a backslash. What JSON's strings have is known, too: calls that are kept to a schema have those.
  bool Escape(std::string& value) {
    if (at_ == text_.size()) return false;
    static constexpr std::string_view kEscapes = "ntrbf/\\'\"", kMeant = "\n\t\r\b\f/\\'\"";
    const char c = text_[at_++];
    if (c == 'u' && Unicode(value)) return true;
    const size_t which = kEscapes.find(c);
    if (which == std::string_view::npos) value += '\\';  // Python keeps what it does not know
    value += which == std::string_view::npos ? c : kMeant[which];
    return true;
  }

  /// Four digits, or twice as many of a pair of surrogates with what stands between them, which JSON reads.
  bool Unicode(std::string& value) {
    for (const size_t length : {size_t{10}, size_t{4}}) {
      const std::string quoted = "\"\\u" + std::string(text_.substr(at_, length)) + "\"";
      const Json character = Json::parse(quoted, nullptr, false);
      if (!character.is_string() || quoted.size() != length + 4) continue;
      const auto& bytes = character.get_ref<const std::string&>();
      if (length == 10 && bytes.size() != 4) continue;  // two characters
      value += bytes;
      at_ += length;
      return true;
    }
    return false;
  }

  bool Word(std::string& out) {
    const size_t begin = at_;
    while (at_ < text_.size() && !IsJsonSpace(text_[at_]) &&
           std::string_view(",)]}:").find(text_[at_]) == std::string_view::npos)
      ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word == "True" || word == "true") {
      out += "true";
    } else if (word == "False" || word == "false") {
      out += "false";
    } else if (word == "None" || word == "null") {
      out += "null";
    } else if (Json::accept(word)) {
      out += word;
    } else {
      return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string TypedValue(const Tool& tool, const std::string& parameter, std::string_view text) {
  const std::string bare(Trimmed(text));
  if (!tool.parameters.is_object()) return FromAnything(bare, text);
  try {
    const SchemaWork work(kSchemaWork);
    const ParameterType type(tool.parameters, parameter);
    return type.SaysNothing() ? FromAnything(bare, text) : OfType(type, bare, text);
  } catch (const Error&) {  // it is no schema, and says nothing
    return FromAnything(bare, text);
  }
}

std::optional<std::string> PythonArguments(std::string_view text) { return PythonReader(text).Arguments(); }

}  // namespace quire
