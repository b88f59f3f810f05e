#define PCRE2_CODE_UNIT_WIDTH 8
#include "comm/model/name_pattern.h"

#include <pcre2.h>

#include <utility>

#include "comm/base/error.h"
#include "comm/base/parse_number.h"
#include "comm/base/thread_time.h"

namespace quire {

namespace {
constexpr size_t kMaxPatternBytes = 4096;
constexpr uint32_t kMatchLimit = 200'000;   // backtracking steps for one name, a few milliseconds
constexpr uint32_t kHeapKibibytes = 16384;  // memory for matching one name
constexpr const char* kNumberGroup = "number";
}  // namespace

struct NamePattern::Code {
  std::string what;
  std::shared_ptr<PatternTime> time;
  pcre2_code* compiled = nullptr;
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* match = nullptr;

  ~Code() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_code_free(compiled);
  }
};

NamePattern::NamePattern(const std::string& pattern, const std::string& what, std::shared_ptr<PatternTime> time)
    : code_(std::make_unique<Code>()) {
  if (pattern.size() > kMaxPatternBytes) Fail("{}: a regular expression of {} bytes", what, pattern.size());
  code_->what = what;
  code_->time = std::move(time);
  int error = 0;
  PCRE2_SIZE place = 0;
  code_->compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
  if (code_->compiled == nullptr) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    Fail("{}: \"{}\" is no regular expression: at character {}: {}", what, pattern.substr(0, 100), place,
         reinterpret_cast<const char*>(text));
  }
  code_->match = pcre2_match_data_create_from_pattern(code_->compiled, nullptr);
  pcre2_set_match_limit(code_->context, kMatchLimit);
  pcre2_set_heap_limit(code_->context, kHeapKibibytes);
}

NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;

bool NamePattern::Matches(std::string_view name) const {
  const auto begin = ThreadTime();
  const int found = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                                code_->match, code_->context);
  code_->time->left -= ThreadTime() - begin;
  if (found < PCRE2_ERROR_NOMATCH || code_->time->left.count() < 0)
    Fail("{}: its regular expression takes too much work", code_->what);
  return found >= 0;
}

std::optional<int64_t> NamePattern::NumberIn(std::string_view name) const {
  const int group = pcre2_substring_number_from_name(code_->compiled, reinterpret_cast<PCRE2_SPTR>(kNumberGroup));
  if (!Matches(name) || group < 0) return std::nullopt;
  const PCRE2_SIZE* places = pcre2_get_ovector_pointer(code_->match);
  const PCRE2_SIZE begin = places[2 * group], end = places[2 * group + 1];
  return begin == PCRE2_UNSET ? std::nullopt : ParseNumber<int64_t>(std::string(name.substr(begin, end - begin)));
}

}  // namespace quire
