#include "coordinator/text/characters.h"

#include <utf8proc.h>

#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr char32_t kSharpS = U'\u00df';  // the only common letter that becomes two in upper case

utf8proc_category_t CategoryOf(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

}  // namespace

bool IsSpace(char32_t character) {
  const auto category = CategoryOf(character);
  return (character >= 0x09 && character <= 0x0d) || character == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/// True for \w: letters, marks, decimal digits, letter-like numbers (category Nl), connectors and joiners. Circled and
/// squared letters count, although their category is symbol.
bool IsWordCharacter(char32_t character) {
  const auto among = [&](char32_t first, char32_t last) { return character >= first && character <= last; };
  if (among(0x200c, 0x200d) || among(0x24b6, 0x24e9) || among(0x1f130, 0x1f149) || among(0x1f150, 0x1f169) ||
      among(0x1f170, 0x1f189)) {
    return true;
  }
  switch (CategoryOf(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool IsMark(char32_t character) {
  const auto category = CategoryOf(character);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

void AppendLower(char32_t character, std::string& out) {
  if (character == 0x130) {  // the only character with two lower-case characters
    out += "i\u0307";
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))), out);
}

bool IsLetter(char32_t character) {
  const auto category = CategoryOf(character);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsUpperCase(char32_t character) { return CategoryOf(character) == UTF8PROC_CATEGORY_LU; }
bool IsLowerCase(char32_t character) { return CategoryOf(character) == UTF8PROC_CATEGORY_LL; }
bool IsDecimalDigit(char32_t character) { return CategoryOf(character) == UTF8PROC_CATEGORY_ND; }
bool IsBlank(char32_t character) { return IsSpace(character) || (character >= 0x1c && character <= 0x1f); }

bool IsPrintable(char32_t character) {
  if (character == U' ') return true;
  switch (CategoryOf(character)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

void AppendInCase(char32_t character, LetterCase letter_case, std::string& out) {
  if (letter_case == LetterCase::kLower) return AppendLower(character, out);
  if (character == kSharpS) {
    out += letter_case == LetterCase::kUpper ? "SS" : "Ss";
    return;
  }
  const auto one = static_cast<utf8proc_int32_t>(character);
  const utf8proc_int32_t cased = letter_case == LetterCase::kUpper ? utf8proc_toupper(one) : utf8proc_totitle(one);
  AppendUtf8(static_cast<char32_t>(cased), out);
}

size_t FirstGrapheme(std::string_view text) {
  Utf8Step step = NextUtf8(text);
  size_t length = step.length;
  utf8proc_int32_t state = 0;
  auto previous = static_cast<utf8proc_int32_t>(step.character);
  while (length < text.size()) {
    step = NextUtf8(text.substr(length));
    const auto next = static_cast<utf8proc_int32_t>(step.character);
    if (utf8proc_grapheme_break_stateful(previous, next, &state) != 0) break;
    length += step.length;
    previous = next;
  }
  return length;
}

size_t PreviousCharacter(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

char32_t CharacterAt(std::string_view text, size_t at) { return NextUtf8(text.substr(at)).character; }

}  // namespace quire
