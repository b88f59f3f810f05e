#include "coordinator/text/jinja/text_functions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <set>

#include "comm/base/error.h"
#include "coordinator/text/characters.h"
#include "coordinator/text/utf8.h"

namespace quire::jinja {

namespace {

/// Returns `count` bytes of a text, from `begin` on, as a new value.
Value Part(const MarkedText& text, size_t begin, size_t count, Budget& budget) {
  budget.MakeText(count);
  return Value(text.Substring(begin, count));
}

/// Byte ranges of parts of a text.
using Spans = std::vector<std::pair<size_t, size_t>>;

/// Finds the words that blanks separate. If max_splits >= 0, splits at most max_splits times, from the left or from the
/// right; the text that is left is one range.
Spans WordsOf(std::string_view text, int64_t max_splits, bool from_right, Budget& budget) {
  budget.Walk(text.size());
  Spans words;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(at));
    const bool blank = step.valid && IsBlank(step.character);
    if (!blank && !inside) {
      budget.MakeItems(1);
      words.emplace_back(at, at);
    }
    inside = !blank;
    at += step.length;
    if (inside) words.back().second = at;
  }
  if (max_splits < 0 || words.size() <= static_cast<size_t>(max_splits)) return words;
  const auto most = static_cast<size_t>(max_splits);
  if (from_right) {
    words.erase(words.begin(), words.end() - 1 - static_cast<ptrdiff_t>(most));
    words.front().first = 0;
  } else {
    words.resize(most + 1);
    words.back().second = text.size();
  }
  return words;
}

/// Returns where each character begins, in bytes, and where the text ends.
std::vector<size_t> Boundaries(std::string_view text, Budget& budget) {
  const CharacterIndex characters(text, budget);
  budget.MakeItems(static_cast<size_t>(characters.size()) + 1);
  std::vector<size_t> places;
  for (int64_t i = 0; i <= characters.size(); ++i) places.push_back(characters.Begin(i));
  return places;
}

/// True for characters at which Python's str.splitlines() ends a line.
bool EndsLine(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/// Returns the byte offsets of `what`, from left to right without overlaps.
std::vector<size_t> Places(const std::string& text, const std::string& what, Budget& budget) {
  std::vector<size_t> places;
  for (size_t at = Find(text, what, 0, budget); at != std::string::npos;
       at = Find(text, what, at + what.size(), budget)) {
    places.push_back(at);
  }
  return places;
}

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
  std::set<char32_t> set;
  budget.Walk(text.text.size() + (characters != nullptr ? 4 * characters->size() : 0));
  for (std::string_view rest = characters != nullptr ? *characters : ""; !rest.empty();) {
    const Utf8Step step = NextUtf8(rest);
    set.insert(step.character);
    rest.remove_prefix(step.length);
  }
  const auto strips = [&](const Utf8Step& step) {
    return step.valid && (characters != nullptr ? set.contains(step.character) : IsBlank(step.character));
  };
  const std::string_view bytes = text.text;
  size_t begin = 0, end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const Utf8Step step = NextUtf8(bytes.substr(begin));
    if (!strips(step)) break;
    begin += step.length;
  }
  while (side != Side::kLeft && end > begin) {
    const size_t last = PreviousCharacter(bytes, end);
    if (!strips(NextUtf8(bytes.substr(last, end - last)))) break;
    end = last;
  }
  budget.MakeText(end - begin);
  return text.Substring(begin, end - begin);
}

size_t Find(std::string_view text, std::string_view what, size_t from, Budget& budget) {
  if (from > text.size()) return std::string_view::npos;
  // memmem is linear in the text, while std::string's search compares at every position. Only the bytes up to the
  // match's end are charged.
  const void* found = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
  const size_t at =
      found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  budget.Walk((found == nullptr ? text.size() : at + what.size()) - from);
  return at;
}

List Split(const MarkedText& text, const std::string* separator, int64_t max_splits, bool from_right, Budget& budget) {
  if (separator == nullptr) {
    const Spans words = WordsOf(text.text, max_splits, from_right, budget);
    List parts;
    for (const auto& [begin, end] : words) parts.push_back(Part(text, begin, end - begin, budget));
    return parts;
  }
  if (separator->empty()) Fail("split: an empty separator");
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

List Lines(const MarkedText& text, bool keep_ends, Budget& budget) {
  budget.Walk(text.text.size());
  const std::string_view bytes = text.text;
  Spans lines;               // including line ends
  std::vector<size_t> ends;  // offsets at which line ends begin
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Step step = NextUtf8(bytes.substr(at));
    const size_t end = at;
    at += step.length;
    if (!step.valid || !EndsLine(step.character)) continue;
    budget.MakeItems(1);
    if (step.character == '\r' && bytes.substr(at).starts_with('\n')) ++at;
    lines.emplace_back(begin, at);
    ends.push_back(end);
    begin = at;
  }
  if (begin < bytes.size()) {
    lines.emplace_back(begin, bytes.size());
    ends.push_back(bytes.size());
  }
  budget.MakeItems(1);
  List out;
  for (size_t i = 0; i < lines.size(); ++i)
    out.push_back(Part(text, lines[i].first, (keep_ends ? lines[i].second : ends[i]) - lines[i].first, budget));
  return out;
}

int64_t Count(const MarkedText& text, const std::string& what, Budget& budget) {
  if (what.empty()) return CharacterIndex(text.text, budget).size() + 1;
  return static_cast<int64_t>(Places(text.text, what, budget).size());
}

MarkedText Replace(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t max_count,
                   Budget& budget) {
  std::vector<size_t> places = from.empty() ? Boundaries(text.text, budget) : Places(text.text, from, budget);
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

MarkedText Escaped(const MarkedText& text, Budget& budget) {
  static constexpr std::string_view kSpecial = "&<>'\"";
  static constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  budget.Walk(text.text.size());
  budget.MakeText(text.text.size());
  MarkedText out;
  for (size_t at = 0; at < text.text.size();) {
    const size_t special = std::min(text.text.find_first_of(kSpecial, at), text.text.size());
    out += text.Substring(at, special - at);
    at = special + 1;
    if (special == text.text.size()) break;
    out += MarkedText(kEntities[kSpecial.find(text.text[special])], text.marks[special]);
    budget.CheckText(out.text.size());
  }
  return out;
}

MarkedText Indent(const MarkedText& text, const std::string& prefix, bool first_line, bool blank_lines,
                  Budget& budget) {
  const MarkedText mark(prefix, MarkedText::kTrusted), newline("\n", MarkedText::kTrusted);
  MarkedText whole = text;
  whole += newline;  // a line break at the text's end stays
  MarkedText out = first_line ? mark : MarkedText();
  const List lines = Lines(whole, false, budget);
  for (size_t i = 0; i < lines.size(); ++i) {
    const MarkedText& line = *lines[i].AsText();
    budget.MakeText(newline.text.size() + prefix.size() + line.text.size());
    if (i > 0) out += newline;
    if (i > 0 && (blank_lines || !line.text.empty())) out += mark;
    out += line;
    budget.CheckText(out.text.size());
  }
  return out;
}

int64_t NumWords(const MarkedText& text, Budget& budget) {
  budget.Walk(text.text.size());
  int64_t words = 0;
  bool inside = false;
  for (std::string_view rest = text.text; !rest.empty();) {
    const Utf8Step step = NextUtf8(rest);
    const bool letter =
        step.valid && (IsLetter(step.character) || IsDecimalDigit(step.character) || step.character == '_');
    words += letter && !inside;
    inside = letter;
    rest.remove_prefix(step.length);
  }
  return words;
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
