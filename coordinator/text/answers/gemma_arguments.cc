#include "coordinator/text/answers/gemma_arguments.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "comm/base/json.h"
#include "coordinator/text/answers/cut_value.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/python_number.h"
#include "coordinator/text/answers/typed_values.h"

namespace quire {

namespace {

constexpr std::string_view kQuote = "<|\"|>";
constexpr size_t kMostKeyBytes = 256, kMostWordBytes = 4096;

std::string_view WithoutBlanks(std::string_view text) {
  const size_t first = text.find_first_not_of(kJsonSpace);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kJsonSpace) + 1 - first);
}

bool MayBegin(std::string_view text, std::string_view mark) {
  return text.size() < mark.size() && mark.starts_with(text);
}

/// Returns the JSON of a word without quotation marks inside a list or an object.
std::string Literal(std::string_view word) {
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  const bool negative = word.starts_with('-');
  const auto number = PythonNumber(word.substr(negative ? 1 : 0));
  return number ? (negative ? "-" : "") + *number : JsonString(word);
}

/// Counts the byte that led to this status in `taken`, and returns the status. For kError the byte is not counted,
/// because it belongs to the text after the call.
GemmaArguments::Status Taking(GemmaArguments::Status status, size_t& taken) {
  if (status != GemmaArguments::Status::kError) ++taken;
  return status;
}

}  // namespace

GemmaArguments::Status GemmaArguments::Read(std::string_view text, size_t& taken, std::string& out) {
  for (;;) {
    size_t step = 0;
    const size_t before = out.size();
    const Expects expected = expects_;
    const Status status = Step(text, step, out);
    text.remove_prefix(step);
    taken += step;
    const bool moved = step > 0 || out.size() > before || expects_ != expected;
    if (status != Status::kMore || !moved) return status;
  }
}

GemmaArguments::Status GemmaArguments::Step(std::string_view text, size_t& taken, std::string& out) {
  if (expects_ == Expects::kString) return InString(text, taken, out);
  if (expects_ == Expects::kQuoted) return InQuotes(text, taken, out);
  const size_t first = text.find_first_not_of(kJsonSpace);
  if (first == std::string_view::npos) return Status::kMore;
  taken = first;
  const std::string_view rest = text.substr(first);
  const char c = rest.front();
  switch (expects_) {
    case Expects::kObject:
      return c == '{' ? Taking(Open(c, out), taken) : Status::kError;
    case Expects::kKeyOrEnd:
    case Expects::kKey:
      return c == '}' ? Taking(Close(c, out), taken) : Key(rest, taken, out);
    case Expects::kValueOrEnd:
      return c == ']' ? Taking(Close(c, out), taken) : Value(rest, taken, out);
    case Expects::kCommaOrEnd:
      if (c != ',') return Taking(Close(c, out), taken);
      ++taken;
      expects_ = open_.back() == '{' ? Expects::kKey : Expects::kValue;
      out += ", ";
      return Status::kMore;
    default:
      return Value(rest, taken, out);
  }
}

/// Reads a key and its colon.
GemmaArguments::Status GemmaArguments::Key(std::string_view text, size_t& taken, std::string& out) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return text.size() > kMostKeyBytes ? Status::kError : Status::kMore;
  std::string_view key = WithoutBlanks(text.substr(0, colon));
  for (const std::string_view quote : {kQuote, std::string_view("\"")}) {
    if (key.size() < 2 * quote.size() || !key.starts_with(quote) || !key.ends_with(quote)) continue;
    key.remove_prefix(quote.size());
    key.remove_suffix(quote.size());
    break;
  }
  if (key.empty() || key.size() > kMostKeyBytes || key.find_first_of("{}[],\"") != std::string_view::npos)
    return Status::kError;
  taken += colon + 1;
  out += JsonString(key) + ": ";
  if (is_argument()) key_ = key;
  expects_ = Expects::kValue;
  return Status::kMore;
}

GemmaArguments::Status GemmaArguments::Value(std::string_view text, size_t& taken, std::string& out) {
  const char c = text.front();
  if (c == '{' || c == '[') return Taking(Open(c, out), taken);
  if (c == '"' || text.starts_with(kQuote)) {
    taken += c == '"' ? 1 : kQuote.size();
    expects_ = c == '"' ? Expects::kQuoted : Expects::kString;
    out += '"';
    return Status::kMore;
  }
  return MayBegin(text, kQuote) ? Status::kMore : Word(text, taken, out);
}

/// Reads a value without quotation marks, up to the character that ends it.
GemmaArguments::Status GemmaArguments::Word(std::string_view text, size_t& taken, std::string& out) {
  const size_t end = text.find_first_of(",}]{[");
  if (end == std::string_view::npos) return text.size() > kMostWordBytes ? Status::kError : Status::kMore;
  const std::string_view word = WithoutBlanks(text.substr(0, end));
  if (word.empty() || text[end] == '{' || text[end] == '[') return Status::kError;
  taken += end;
  out += is_argument() ? TypedValue(*tool_, key_, word) : Literal(word);
  expects_ = Expects::kCommaOrEnd;
  return Status::kMore;
}

GemmaArguments::Status GemmaArguments::InString(std::string_view text, size_t& taken, std::string& out) {
  const size_t mark = text.find(kQuote);
  size_t length = std::min(mark, text.size());
  if (mark == std::string_view::npos) {
    for (size_t keep = std::min(text.size(), kQuote.size() - 1); keep > 0; --keep) {
      if (!MayBegin(text.substr(text.size() - keep), kQuote)) continue;
      length = text.size() - keep;
      break;
    }
  }
  const std::string part = JsonString(text.substr(0, length));
  out += part.substr(1, part.size() - 2);
  taken = length;
  if (mark == std::string_view::npos) return Status::kMore;
  taken += kQuote.size();
  out += '"';
  expects_ = Expects::kCommaOrEnd;
  return Status::kMore;
}

/// Reads a string in JSON's quotation marks. An escape sequence is read as a whole.
GemmaArguments::Status GemmaArguments::InQuotes(std::string_view text, size_t& taken, std::string& out) {
  while (taken < text.size()) {
    const char c = text[taken];
    if (c == '"') {
      ++taken;
      out += '"';
      expects_ = Expects::kCommaOrEnd;
      return Status::kMore;
    }
    size_t length = 1;
    if (c == '\\') {
      if (taken + 1 == text.size()) return Status::kMore;
      length = text[taken + 1] == 'u' ? 6 : 2;
      if (taken + length > text.size()) return Status::kMore;
      const std::string escape(text.substr(taken, length));
      if (Json::parse("\"" + escape + "\"", nullptr, false).is_discarded() && length == 2) return Status::kError;
      for (size_t i = 2; i < length; ++i) {
        if (std::isxdigit(static_cast<unsigned char>(escape[i])) == 0) return Status::kError;
      }
      out += escape;
    } else {
      AppendInsideString(c, out);
    }
    taken += length;
  }
  return Status::kMore;
}

GemmaArguments::Status GemmaArguments::Open(char c, std::string& out) {
  if (open_.size() == JsonScanner::kMaxDepth) return Status::kError;
  open_ += c;
  out += c;
  expects_ = c == '{' ? Expects::kKeyOrEnd : Expects::kValueOrEnd;
  return Status::kMore;
}

GemmaArguments::Status GemmaArguments::Close(char c, std::string& out) {
  const bool closes = c == (open_.back() == '{' ? '}' : ']');
  if (!closes || expects_ == Expects::kKey || expects_ == Expects::kValue) return Status::kError;
  open_.pop_back();
  out += c;
  expects_ = Expects::kCommaOrEnd;
  return open_.empty() ? Status::kDone : Status::kMore;
}

std::string GemmaArguments::Cut(std::string_view text) const {
  const bool is_value = expects_ == Expects::kValue || expects_ == Expects::kValueOrEnd;
  const std::string_view word = WithoutBlanks(text);
  if (!is_value || word.empty() || MayBegin(word, kQuote)) return "";
  if (is_argument()) return CutValue(*tool_, key_, word);
  const bool is_number = std::isdigit(static_cast<unsigned char>(word.front())) != 0 || word.front() == '-';
  return is_number ? std::string(word) : "";
}

}  // namespace quire
