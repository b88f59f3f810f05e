#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Regular expressions for answers without calls, in formats in which the answer's beginning decides whether it is a
// call.

/// Whitespace allowed at an answer's beginning.
inline constexpr const char* kBlanksBefore = "[ \\t\\r\\n]{0,4}";

/// Returns a regular expression that matches the shortest beginning with which a text differs from each of `words`. No
/// word may be the beginning of another word. The matched texts do not begin with a byte of `never_first`. The byte by
/// which a text differs from a word is not in `never`.
std::string BesideWords(const std::vector<std::string>& words, std::string_view never_first, std::string_view never);

/// Returns a regular expression for any text that does not contain `mark`. The first byte of `mark` must not occur in
/// it again.
std::string TextWithoutMark(std::string_view mark);

/// Returns a regular expression for the beginning of an answer that is no call in the format `llama3_json`: the answer
/// does not begin with a brace, or the first key of its object is no key of a call, or the object names none of the
/// tools. marks: further texts that must not begin the answer. never: bytes that must not occur.
std::string WordsBesideJsonCalls(const std::vector<std::string>& tools, std::vector<std::string> marks,
                                 std::string_view never);

/// Returns what WordsBesideJsonCalls returns, but for the format `pythonic`: the answer is no list, or its list does
/// not begin with a call of a tool.
std::string WordsBesidePythonCalls(const std::vector<std::string>& tools, std::vector<std::string> marks);

}  // namespace quire
