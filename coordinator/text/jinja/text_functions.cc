#include "coordinator/text/jinja/text_functions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "comm/base/error.h"
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

/// A part of a text as a value of its own.
Value Part(const MarkedText& text, size_t begin, size_t count, Budget& budget) {
  budget.MakeText(count);
  return Value(text.Substring(begin, count));
}

/// Without a separator: words between runs of blanks, none of them empty.
List SplitWords(const MarkedText& text, int64_t max_splits, Budget& budget) {
  budget.Walk(text.text.size());
  std::vector<std::pair<size_t, size_t>> words;  // begin and length
  for (size_t at = text.text.find_first_not_of(kBlanks); at != std::string::npos;) {
    const bool rest = max_splits >= 0 && static_cast<int64_t>(words.size()) == max_splits;
    const size_t end = rest ? text.text.size() : std::min(text.text.find_first_of(kBlanks, at), text.text.size());
    words.emplace_back(at, end - at);
    at = text.text.find_first_not_of(kBlanks, end);
  }
  budget.MakeItems(words.size());
  List parts;
  for (const auto& [begin, length] : words) parts.push_back(Part(text, begin, length, budget));
  return parts;
}

/// Where `what` begins, from left to right without overlaps.
std::vector<size_t> Places(const std::string& text, const std::string& what, Budget& budget) {
  std::vector<size_t> places;
  for (size_t at = Find(text, what, 0, budget); at != std::string::npos;
       at = Find(text, what, at + what.size(), budget)) {
    places.push_back(at);
  }
  return places;
}

/// What the places of a format stand for: the next argument, the one of a number, or the one of a name.
class FormatArguments {
 public:
  FormatArguments(const List& positional, const NamedArguments& named) : positional_(positional), named_(named) {}

  const Value& Of(const std::string& place) {
    constexpr const char* kDigits = "0123456789";
    const bool counted = place.empty(), numbered = !counted && place.find_first_not_of(kDigits) == std::string::npos;
    counts_ |= counted;
    numbers_ |= numbered;
    if (counts_ && numbers_) Fail("format: places with a number and without one");
    if (counted || numbered) {
      const size_t number = counted ? next_++ : place.size() > 4 ? SIZE_MAX : std::stoul(place);
      if (number >= positional_.size()) Fail("format: no argument for {{{}}}", place.substr(0, 20));
      return positional_[number];
    }
    const auto found = std::ranges::find(named_, place, &NamedArguments::value_type::first);
    if (found == named_.end()) Fail("format: {{{}}} has no argument or is not supported", place.substr(0, 100));
    return found->second;
  }

 private:
  const List& positional_;
  const NamedArguments& named_;
  size_t next_ = 0;
  bool counts_ = false, numbers_ = false;
};

}  // namespace

CharacterIndex::CharacterIndex(std::string_view bytes, Budget& budget) {
  budget.Scan(bytes.size());
  size_ = static_cast<int64_t>(bytes.size());
  if (std::all_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return;
  budget.Walk(bytes.size());
  budget.MakeText(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += NextUtf8(bytes.substr(at)).length)
    starts_.push_back(static_cast<uint32_t>(at));
  size_ = static_cast<int64_t>(starts_.size());
  starts_.push_back(static_cast<uint32_t>(bytes.size()));
}

MarkedText Strip(const MarkedText& text, Side side, const std::string* characters, Budget& budget) {
  const std::string_view set = characters != nullptr ? std::string_view(*characters) : kBlanks;
  budget.Walk(text.text.size() + set.size());
  std::array<bool, 256> strips{};
  for (const char c : set) strips[static_cast<unsigned char>(c)] = true;
  const auto stripped = [&](size_t i) { return strips[static_cast<unsigned char>(text.text[i])]; };
  size_t begin = 0, end = text.text.size();
  if (side != Side::kRight) {
    while (begin < end && stripped(begin)) ++begin;
  }
  if (side != Side::kLeft) {
    while (end > begin && stripped(end - 1)) --end;
  }
  budget.MakeText(end - begin);
  return text.Substring(begin, end - begin);
}

size_t Find(std::string_view text, std::string_view what, size_t from, Budget& budget) {
  if (from > text.size()) return std::string_view::npos;
  // The C library's search stays linear where std::string's tries every place; only what it passes over is charged.
  const void* found = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
  const size_t at =
      found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  budget.Walk((found == nullptr ? text.size() : at + what.size()) - from);
  return at;
}

List Split(const MarkedText& text, const std::string* separator, int64_t max_splits, bool from_right, Budget& budget) {
  if (separator == nullptr || separator->empty()) return SplitWords(text, max_splits, budget);
  std::vector<size_t> cuts = Places(text.text, *separator, budget);
  if (max_splits >= 0 && cuts.size() > static_cast<size_t>(max_splits)) {
    const auto keep = static_cast<ptrdiff_t>(max_splits);
    if (from_right) {
      cuts.erase(cuts.begin(), cuts.end() - keep);
    } else {
      cuts.resize(static_cast<size_t>(keep));
    }
  }
  budget.MakeItems(cuts.size() + 1);
  List parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parts.push_back(Part(text, begin, cut - begin, budget));
    begin = cut + separator->size();
  }
  parts.push_back(Part(text, begin, text.text.size() - begin, budget));
  return parts;
}

int64_t Count(const MarkedText& text, const std::string& what, Budget& budget) {
  if (what.empty()) return 0;
  return static_cast<int64_t>(Places(text.text, what, budget).size());
}

MarkedText Replace(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t max_count,
                   Budget& budget) {
  if (from.empty()) return text;
  std::vector<size_t> places = Places(text.text, from, budget);
  if (max_count >= 0 && places.size() > static_cast<size_t>(max_count)) places.resize(static_cast<size_t>(max_count));
  MarkedText out;
  size_t begin = 0;
  budget.MakeText(text.text.size());
  for (const size_t at : places) {
    budget.MakeText(to.text.size());
    out += text.Substring(begin, at - begin);
    out += to;
    budget.CheckText(out.text.size());
    begin = at + from.size();
  }
  out += text.Substring(begin);
  budget.CheckText(out.text.size());
  return out;
}

MarkedText Join(const List& items, const MarkedText& separator, Budget& budget) {
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    const TextPointer item = items[i].ToText(budget);
    budget.MakeText(separator.text.size() + item->text.size());
    if (i > 0) out += separator;
    out += *item;
    budget.CheckText(out.text.size());
  }
  return out;
}

MarkedText ToCase(const MarkedText& text, bool upper, Budget& budget) {
  budget.Walk(text.text.size());
  budget.MakeText(text.text.size());
  MarkedText out = text;
  for (char& c : out.text) c = Cased(c, upper);
  return out;
}

MarkedText Capitalize(const MarkedText& text, Budget& budget) {
  MarkedText out = ToCase(text, false, budget);
  if (!out.text.empty()) out.text[0] = Cased(out.text[0], true);
  return out;
}

MarkedText Title(const MarkedText& text, bool as_filter, Budget& budget) {
  budget.Walk(text.text.size());
  budget.MakeText(text.text.size());
  MarkedText out = text;
  bool inside = false;
  for (char& c : out.text) {
    c = Cased(c, !inside);
    inside = as_filter ? std::string_view("- \t\n\r\f\v({[<").find(c) == std::string_view::npos : IsLetter(c);
  }
  return out;
}

MarkedText Indent(const MarkedText& text, const std::string& prefix, bool first_line, Budget& budget) {
  const MarkedText mark(prefix, MarkedText::kTrusted), newline("\n", MarkedText::kTrusted);
  MarkedText out;
  const List lines = Split(text, &newline.text, -1, false, budget);
  for (size_t i = 0; i < lines.size(); ++i) {
    const MarkedText& line = *lines[i].AsText();
    budget.MakeText(newline.text.size() + prefix.size() + line.text.size());
    if (i > 0) out += newline;
    if ((i > 0 || first_line) && !line.text.empty()) out += mark;
    out += line;
    budget.CheckText(out.text.size());
  }
  return out;
}

MarkedText Format(const MarkedText& text, const List& positional, const NamedArguments& named, Budget& budget) {
  const std::string& format = text.text;
  FormatArguments arguments(positional, named);
  budget.Walk(format.size());
  budget.MakeText(format.size());
  MarkedText out;
  for (size_t at = 0; at < format.size();) {
    const size_t brace = std::min(format.find_first_of("{}", at), format.size());
    out += text.Substring(at, brace - at);
    if (brace == format.size()) break;
    if (format.substr(brace, 2) == std::string(2, format[brace])) {
      out += text.Substring(brace, 1);
      at = brace + 2;
      continue;
    }
    const size_t end = format[brace] == '{' ? format.find('}', brace) : std::string::npos;
    if (end == std::string::npos) Fail("format: a single {} stands for nothing", format[brace]);
    const TextPointer value = arguments.Of(format.substr(brace + 1, end - brace - 1)).ToText(budget);
    budget.MakeText(value->text.size());
    out += *value;
    budget.CheckText(out.text.size());
    at = end + 1;
  }
  return out;
}

List Characters(const MarkedText& text, Budget& budget) {
  const CharacterIndex characters(text.text, budget);
  budget.MakeItems(static_cast<size_t>(characters.size()));
  List out;
  for (int64_t i = 0; i < characters.size(); ++i)
    out.push_back(Part(text, characters.Begin(i), characters.Begin(i + 1) - characters.Begin(i), budget));
  return out;
}

}  // namespace quire::jinja
