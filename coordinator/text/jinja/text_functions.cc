#include "coordinator/text/jinja/text_functions.h"

#include <algorithm>

#include "comm/error.h"
#include "coordinator/text/utf8.h"

namespace quire::jinja {

namespace {

constexpr const char* kBlanks = " \t\n\r\f\v";

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char Cased(char c, bool upper) {
  if (upper && c >= 'a' && c <= 'z') return static_cast<char>(c - 32);
  if (!upper && c >= 'A' && c <= 'Z') return static_cast<char>(c + 32);
  return c;
}

/// Without a separator: words between runs of blanks, none of them empty.
List SplitWords(const MarkedText& text, int64_t max_splits) {
  List parts;
  for (size_t at = text.text.find_first_not_of(kBlanks); at != std::string::npos;) {
    size_t end = text.text.find_first_of(kBlanks, at);
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) end = std::string::npos;
    if (parts.size() == kMaxItems) Fail("split makes too long a list");
    parts.emplace_back(text.Substring(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : text.text.find_first_not_of(kBlanks, end);
  }
  return parts;
}

}  // namespace

MarkedText Strip(const MarkedText& text, Side side, const std::string* characters) {
  const std::string set = characters != nullptr ? *characters : kBlanks;
  size_t begin = 0, end = text.text.size();
  if (side != Side::kRight) begin = std::min(text.text.find_first_not_of(set), end);
  if (side != Side::kLeft) {
    const size_t last = text.text.find_last_not_of(set);
    end = std::max(begin, last == std::string::npos ? 0 : last + 1);
  }
  return text.Substring(begin, end - begin);
}

List Split(const MarkedText& text, const std::string* separator, int64_t max_splits, bool from_right) {
  if (separator == nullptr || separator->empty()) return SplitWords(text, max_splits);
  std::vector<size_t> cuts;
  for (size_t at = text.text.find(*separator); at != std::string::npos;
       at = text.text.find(*separator, at + separator->size())) {
    cuts.push_back(at);
  }
  if (max_splits >= 0 && cuts.size() > static_cast<size_t>(max_splits)) {
    const auto keep = static_cast<ptrdiff_t>(max_splits);
    if (from_right) {
      cuts.erase(cuts.begin(), cuts.end() - keep);
    } else {
      cuts.resize(static_cast<size_t>(keep));
    }
  }
  if (cuts.size() >= kMaxItems) Fail("split makes too long a list");
  List parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parts.emplace_back(text.Substring(begin, cut - begin));
    begin = cut + separator->size();
  }
  parts.emplace_back(text.Substring(begin));
  return parts;
}

MarkedText Replace(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t max_count) {
  if (from.empty()) return text;
  MarkedText out;
  size_t begin = 0;
  for (int64_t count = 0; max_count < 0 || count < max_count; ++count) {
    const size_t at = text.text.find(from, begin);
    if (at == std::string::npos) break;
    out += text.Substring(begin, at - begin);
    out += to;
    begin = at + from.size();
    if (out.text.size() > kMaxMade) Fail("replace makes too long a text");
  }
  out += text.Substring(begin);
  return out;
}

MarkedText Join(const List& items, const MarkedText& separator) {
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += separator;
    out += items[i].ToText();
    if (out.text.size() > kMaxMade) Fail("join makes too long a text");
  }
  return out;
}

MarkedText ToCase(const MarkedText& text, bool upper) {
  MarkedText out = text;
  for (char& c : out.text) c = Cased(c, upper);
  return out;
}

MarkedText Capitalize(const MarkedText& text) {
  MarkedText out = ToCase(text, false);
  if (!out.text.empty()) out.text[0] = Cased(out.text[0], true);
  return out;
}

MarkedText Title(const MarkedText& text, bool as_filter) {
  MarkedText out = text;
  bool inside = false;
  for (char& c : out.text) {
    c = Cased(c, !inside);
    inside = as_filter ? std::string_view("- \t\n\r\f\v({[<").find(c) == std::string_view::npos : IsLetter(c);
  }
  return out;
}

MarkedText Indent(const MarkedText& text, const std::string& prefix, bool first_line) {
  const MarkedText mark(prefix, MarkedText::kTrusted);
  MarkedText out;
  const std::string newline = "\n";
  const List lines = Split(text, &newline, -1, false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += MarkedText("\n", MarkedText::kTrusted);
    if ((i > 0 || first_line) && !lines[i].AsText()->text.empty()) out += mark;
    out += *lines[i].AsText();
  }
  return out;
}

List Characters(const MarkedText& text) {
  List out;
  for (size_t at = 0; at < text.text.size();) {
    const size_t length = NextUtf8(std::string_view(text.text).substr(at)).length;
    if (out.size() == kMaxItems) Fail("a text has too many characters to be made a list");
    out.emplace_back(text.Substring(at, length));
    at += length;
  }
  return out;
}

}  // namespace quire::jinja
