#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Regular expressions of answers that are words, where an answer's beginning decides whether it is calls.

/// What whitespace may stand at an answer's beginning.
inline constexpr const char* kBlanksBefore = "[ \\t\\r\\n]{0,4}";

/// The shortest texts that show that none of `words` is begun; of those no word may begin another one. No text begins
/// with a byte of `never_first`, or has one of `never` where it leaves the words.
std::string BesideWords(const std::vector<std::string>& words, std::string_view never_first, std::string_view never);

/// Any text in which `mark` does not stand. The mark's first byte stands in it once.
std::string TextWithoutMark(std::string_view mark);

/// The beginning of an answer that is no call in the form `llama3_json`: it does not begin with a brace, or with that
/// of an object whose first key is none of a call's, or whose name is none of the tools'. marks: what it must not begin
/// with either. never: a byte that it does not have.
std::string WordsBesideJsonCalls(const std::vector<std::string>& tools, std::vector<std::string> marks,
                                 std::string_view never);

/// The same of the form `pythonic`: no list, or one that does not begin with a call of a tool.
std::string WordsBesidePythonCalls(const std::vector<std::string>& tools, std::vector<std::string> marks);

}  // namespace quire
