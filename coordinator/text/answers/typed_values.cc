#include "coordinator/text/answers/typed_values.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "comm/base/json.h"
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

/// What the schema says of a parameter; null: nothing.
const OrderedJson* SchemaOf(const Tool& tool, const std::string& parameter) {
  if (!tool.parameters.is_object()) return nullptr;
  const auto properties = tool.parameters.find("properties");
  if (properties == tool.parameters.end() || !properties->is_object()) return nullptr;
  const auto schema = properties->find(parameter);
  return schema == properties->end() || !schema->is_object() ? nullptr : &*schema;
}

/// The schema does not take every text: blanks next to tags are not the value's.
bool Restricts(const OrderedJson& schema) {
  return std::ranges::any_of(std::array{"enum", "const", "minLength", "maxLength", "pattern", "format"},
                             [&](const char* name) { return schema.contains(name); });
}

bool Allows(const OrderedJson& type, const char* name) {
  if (type.is_string()) return type == name;
  if (!type.is_array()) return false;
  for (const OrderedJson& one : type) {
    if (one == name) return true;
  }
  return false;
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
  const OrderedJson* schema = SchemaOf(tool, parameter);
  const OrderedJson* type = schema != nullptr && schema->contains("type") ? &(*schema)["type"] : nullptr;
  const std::string bare(Trimmed(text));
  if (schema != nullptr && Restricts(*schema)) text = bare;
  if (type != nullptr && Allows(*type, "string")) {
    const bool is_null = bare == "null" && Allows(*type, "null");
    return is_null ? bare : JsonString(text);
  }
  if (type != nullptr && Allows(*type, "boolean") && (bare == "True" || bare == "False"))
    return bare == "True" ? "true" : "false";
  if (bare == "None" && type != nullptr) return "null";
  return Json::accept(bare) ? bare : JsonString(text);
}

std::optional<std::string> PythonArguments(std::string_view text) { return PythonReader(text).Arguments(); }

}  // namespace quire
