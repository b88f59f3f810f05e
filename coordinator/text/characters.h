#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

/// True for characters with Unicode's property White_Space.
bool IsSpace(char32_t character);
/// True for Unicode's word characters: letters, marks, decimal digits, letter-like numbers, connectors and joiners.
bool IsWordCharacter(char32_t character);
/// True for combining marks.
bool IsMark(char32_t character);
bool IsLetter(char32_t character);
/// True for characters of Unicode's category Lu (upper-case letters) or Ll (lower-case letters).
bool IsUpperCase(char32_t character);
bool IsLowerCase(char32_t character);
/// True for decimal digits of any script.
bool IsDecimalDigit(char32_t character);
/// True for whitespace of Python's str.split(): White_Space and the four ASCII separators.
bool IsBlank(char32_t character);
/// True for the characters that Python's str.isprintable() accepts.
bool IsPrintable(char32_t character);

/// Appends the character in lower case, which may be two characters.
void AppendLower(char32_t character, std::string& out);
enum class LetterCase { kUpper, kLower, kTitle };
/// Appends the character in another case, as Python's str methods do, but without rules that depend on neighbouring
/// characters. Ligatures such as U+FB01 stay unchanged.
void AppendInCase(char32_t character, LetterCase letter_case, std::string& out);

/// Returns the byte length of the first extended grapheme cluster of a text (valid UTF-8, not empty).
size_t FirstGrapheme(std::string_view text);

/// Returns the byte position where the character before `at` (> 0) begins.
size_t PreviousCharacter(std::string_view text, size_t at);
/// Returns the character that begins at byte `at` of the text; `at` must be less than the text's size.
char32_t CharacterAt(std::string_view text, size_t at);

}  // namespace quire
