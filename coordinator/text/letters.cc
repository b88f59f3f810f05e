#include "coordinator/text/letters.h"

#include <utf8proc.h>

#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr char32_t kSharpS = U'\u00df';  // the one letter of daily use that becomes two

utf8proc_category_t CategoryOf(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

}  // namespace

bool IsLetter(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsUpperCase(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LU; }
bool IsLowerCase(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LL; }
bool IsDecimalDigit(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }

bool IsBlank(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
  if (c == 0x85) return true;
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool IsPrintable(char32_t c) {
  if (c < 0x80) return c >= ' ' && c != 0x7f;
  switch (CategoryOf(c)) {
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

void AppendInCase(char32_t c, LetterCase letter_case, std::string& out) {
  const auto one = static_cast<utf8proc_int32_t>(c);
  if (c == kSharpS && letter_case != LetterCase::kLower) {
    out += letter_case == LetterCase::kUpper ? "SS" : "Ss";
    return;
  }
  switch (letter_case) {
    case LetterCase::kUpper:
      return AppendUtf8(static_cast<char32_t>(utf8proc_toupper(one)), out);
    case LetterCase::kLower:
      return AppendUtf8(static_cast<char32_t>(utf8proc_tolower(one)), out);
    case LetterCase::kTitle:
      return AppendUtf8(static_cast<char32_t>(utf8proc_totitle(one)), out);
  }
}

}  // namespace quire
