#include "coordinator/text/answers/answer_words.h"

#include <algorithm>
#include <map>

#include "coordinator/text/answers/json_scanner.h"

namespace quire {

namespace {

constexpr const char* kBlanksInside = "[ \\t\\r\\n]{0,20}";

std::string Escaped(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const bool special = std::string_view("\\^$.|?*+()[]{}-").find(c) != std::string_view::npos;
  return (special ? "\\" : "") + std::string(1, c);
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += Escaped(c);
  return out;
}

std::string AllBut(std::string_view bytes) { return "[^" + Escaped(bytes) + "]"; }

std::vector<std::string> Ended(const std::vector<std::string>& words, char end) {
  std::vector<std::string> ended;
  for (const std::string& word : words) ended.push_back(word + end);
  return ended;
}

}  // namespace

std::string BesideWords(const std::vector<std::string>& words, std::string_view never_first, std::string_view never) {
  std::map<char, std::vector<std::string>> rests;  // keyed by the words' first bytes; empty list: a word ends there
  for (const std::string& word : words) {
    std::vector<std::string>& of_byte = rests[word.front()];
    if (word.size() > 1) of_byte.push_back(word.substr(1));
  }
  std::string other(never_first), longer;
  for (const auto& [byte, rest] : rests) {
    if (other.find(byte) == std::string::npos) other += byte;
    if (!rest.empty()) longer += "|" + Escaped(byte) + BesideWords(rest, never, never);
  }
  return "(?:" + AllBut(other) + longer + ")";
}

std::string TextWithoutMark(std::string_view mark) {
  const std::string first(mark.substr(0, 1)), others = AllBut(first) + "*";
  // Each alternative matches an incomplete mark: `length` bytes of the mark (the first byte is matched before the
  // alternatives), and then a byte that does not continue the mark, the end of the text, or another incomplete mark.
  std::string beginnings;
  for (size_t length = 1; length < mark.size(); ++length) {
    const std::string leaves = AllBut(first + mark[length]);
    beginnings += (length > 1 ? "|" : "") + Escaped(mark.substr(1, length - 1)) + "(?:" + leaves + others + ")?";
  }
  return others + "(?:" + Escaped(first) + "(?:" + beginnings + "))*";
}

std::string WordsBesideJsonCalls(const std::vector<std::string>& tools, std::vector<std::string> marks,
                                 std::string_view never) {
  static const std::vector<std::string> kKeys = {"name", "arguments", "parameters", "id", "type", "index"};
  const std::string blanks(kJsonSpace), unwanted(never);
  marks.emplace_back("{");
  const std::string no_object = kBlanksBefore + BesideWords(marks, blanks + unwanted, never);
  const std::string no_key = AllBut("\"" + blanks + unwanted);
  const std::string other_key = "\"" + BesideWords(Ended(kKeys, '"'), never, never);
  // Excludes the backslash, because an escape sequence could spell a tool's name in another way.
  const std::string no_escape = "\\" + unwanted;
  const std::string other_tool = "\"name\": \"" + BesideWords(Ended(tools, '"'), no_escape, no_escape);
  return no_object + "|" + kBlanksBefore + "\\{(?:" + kBlanksInside + "(?:" + no_key + "|" + other_key + ")|" +
         other_tool + ")";
}

std::string WordsBesidePythonCalls(const std::vector<std::string>& tools, std::vector<std::string> marks) {
  marks.emplace_back("[");
  return kBlanksBefore + BesideWords(marks, kJsonSpace, "") + "|" + kBlanksBefore + "\\[" + kBlanksInside +
         BesideWords(Ended(tools, '('), kJsonSpace, "");
}

}  // namespace quire
