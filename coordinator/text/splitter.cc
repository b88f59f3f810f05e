#define PCRE2_CODE_UNIT_WIDTH 8
#include "coordinator/text/splitter.h"

#include <pcre2.h>

#include "comm/error.h"

namespace quire {

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

/// The tokenizers that models are trained with mean Unicode's White_Space by \s; PCRE2's \s adds U+180E.
std::string WithUnicodeSpaces(const std::string& pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool escape = pattern[i] == '\\' && i + 1 < pattern.size();
    if (!escape) {
      out += pattern[i];
      continue;
    }
    const char next = pattern[++i];
    if (next == 's') {
      out += "\\p{White_Space}";
    } else if (next == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += '\\';
      out += next;
    }
  }
  return out;
}

}  // namespace

struct Splitter::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() { pcre2_code_free(code); }
};

Splitter::Splitter(const std::string& original) : pattern_(std::make_unique<Pattern>()) {
  const std::string pattern = WithUnicodeSpaces(original);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pattern_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (pattern_->code == nullptr) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof(message));
    Fail("tokenizer: pattern does not compile at character {}: {}", offset, reinterpret_cast<const char*>(message));
  }
  pcre2_jit_compile(pattern_->code, PCRE2_JIT_COMPLETE);  // without it matching is slower, not different
}

Splitter::~Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;

void Splitter::Split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(pattern_->code, nullptr), pcre2_match_data_free);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t at = 0;    // where the next search begins
  size_t done = 0;  // up to where pieces are cut
  while (at < text.size()) {
    const int found = pcre2_match(pattern_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) Fail("tokenizer: the text is too intricate to split (matcher error {})", found);
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    if (range[0] == range[1]) {  // an empty match cuts nothing
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
      continue;
    }
    if (range[0] > done) pieces.push_back(text.substr(done, range[0] - done));
    pieces.push_back(text.substr(range[0], range[1] - range[0]));
    at = done = range[1];
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
}

}  // namespace quire
