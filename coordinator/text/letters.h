#pragma once

#include <string>

namespace quire {

// What Unicode says of single characters. The tables are utf8proc's.

bool IsLetter(char32_t c);
/// A letter with a case, in that case.
bool IsUpperCase(char32_t c);
bool IsLowerCase(char32_t c);
/// A digit of some script that counts from 0 to 9.
bool IsDecimalDigit(char32_t c);
/// What Python's str.split() splits at.
bool IsBlank(char32_t c);
/// What Python's repr() shows as it is.
bool IsPrintable(char32_t c);

enum class LetterCase { kUpper, kLower, kTitle };
/// The character in another case as UTF-8, as Python's str methods give it but for what depends on its neighbours and
/// for ligatures.
void AppendInCase(char32_t c, LetterCase letter_case, std::string& out);

}  // namespace quire
