#define PCRE2_CODE_UNIT_WIDTH 8
#include "coordinator/text/tokenizer/splitter.h"

#include <pcre2.h>

#include <cctype>

#include "comm/base/error.h"
#include "comm/base/thread_time.h"
#include "coordinator/text/tokenizer/encode_bounds.h"

namespace quire {

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
const char* const kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kPunctuationPattern =
    R"([$+<=>^`|~\x{166d}\x{111c9}]|(?![)"
    R"(\x{61d}\x{9fd}\x{a76}\x{c77}\x{c84}\x{1b4e}-\x{1b4f}\x{1b7d}-\x{1b7f}\x{2e43}-\x{2e4f})"
    R"(\x{2e52}-\x{2e5d}\x{2e60}-\x{2e63}\x{10d6e}\x{10ead}\x{10ed0}\x{10f55}-\x{10f59}\x{10f86}-\x{10f89})"
    R"(\x{113d4}-\x{113d5}\x{113d7}-\x{113d8}\x{1144b}-\x{1144f}\x{1145a}-\x{1145b}\x{1145d})"
    R"(\x{11660}-\x{1166c}\x{116b9}\x{1183b}\x{11944}-\x{11946}\x{119e2}\x{11a3f}-\x{11a46})"
    R"(\x{11a9a}-\x{11a9c}\x{11a9e}-\x{11aa2}\x{11b00}-\x{11b09}\x{11be1}\x{11c41}-\x{11c45})"
    R"(\x{11c70}-\x{11c71}\x{11ef7}-\x{11ef8}\x{11f43}-\x{11f4f}\x{11fff}\x{12ff1}-\x{12ff2})"
    R"(\x{16d6d}-\x{16d6f}\x{16e97}-\x{16e9a}\x{16fe2}\x{1e5ff}\x{1e95e}-\x{1e95f})"
    R"(])\p{P})";
const char* const kWordsPattern =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\s]+)";

namespace {

constexpr size_t kMaxPatternBytes = 16 << 10;
constexpr uint32_t kMatchLimit = 10'000'000;                 // backtracking steps per search
constexpr uint32_t kHeapKibibytes = 64 << 10;                // memory of one search with an interpreted pattern
constexpr size_t kStackBytes = 64 << 20;                     // stack of one search with a JIT-compiled pattern
constexpr auto kLeastTime = std::chrono::seconds(2);         // processor time of the thread, at least
constexpr auto kTimePerByte = std::chrono::microseconds(4);  // added to kLeastTime; a text of 2 MiB has ten seconds
constexpr int kCalloutsBetweenLooks = 256;
constexpr size_t kBytesBetweenLooks = 64 << 10;
constexpr size_t kLinearLiteralBytes = 64;

/// A pattern for PCRE2, with the original position of each of its bytes.
struct Rewritten {
  std::string text;
  std::vector<size_t> origin;

  void Add(std::string_view bytes, size_t from) {
    text += bytes;
    origin.resize(text.size(), from);
  }
};

/// Replaces \s and \S: the models' tokenizers use Unicode's White_Space, to which PCRE2's \s adds U+180E.
Rewritten WithUnicodeSpaces(const std::string& pattern) {
  Rewritten out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool escape = pattern[i] == '\\' && i + 1 < pattern.size();
    if (!escape) {
      out.Add({&pattern[i], 1}, i);
      continue;
    }
    const char next = pattern[i + 1];
    // With \K a match could begin anywhere, even after its end, and pieces would overlap.
    if (next == 'K') Fail("at character {}: \\K is not supported", i);
    if (next == 's') {
      out.Add("\\p{White_Space}", i);
    } else if (next == 'S') {
      out.Add("\\P{White_Space}", i);
    } else {
      out.Add({&pattern[i], 2}, i);
    }
    ++i;
  }
  return out;
}

/// True for patterns that are known to take linear time in any text. Such patterns run without checks of the time,
/// which makes them three times as fast.
bool IsKnown(const std::string& pattern) {
  for (const char* known : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kPunctuationPattern, kWordsPattern, R"(\p{N})",
                            R"(\p{N}+)", R"(\s)", " {2,}"}) {
    if (pattern == known) return true;
  }
  return false;
}

bool IsPunctuation(char c) { return static_cast<unsigned char>(c) < 0x80 && std::ispunct(c) != 0; }

/// True for short literal texts. The search for a long text could fail late at every position, which takes quadratic
/// time.
bool IsLiteral(const std::string& pattern) {
  if (pattern.size() > kLinearLiteralBytes) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!IsPunctuation(pattern[i])) continue;
    if (pattern[i] != '\\' || i + 1 == pattern.size() || !IsPunctuation(pattern[i + 1])) return false;
    ++i;
  }
  return true;
}

}  // namespace

struct SplitBudget::State {
  std::chrono::nanoseconds time, end;
  std::stop_token stop;
  int callouts = 0;
  size_t bytes_since_look = 0;  // bytes since the last look at the clock
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;  // created by the first search that exceeds PCRE2's default stack

  State(std::chrono::nanoseconds t, std::stop_token s) : time(t), end(ThreadTime() + t), stop(std::move(s)) {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapKibibytes);
    pcre2_set_callout(context, &State::OnItem, this);
  }
  ~State() {
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Called by PCRE2 between two items of a pattern, each of which takes linear time. Ends the search when time is up
  /// or a stop was requested.
  static int OnItem(pcre2_callout_block*, void* data) {
    auto& state = *static_cast<State*>(data);
    if (++state.callouts % kCalloutsBetweenLooks != 0) return 0;
    return state.stop.stop_requested() || ThreadTime() > state.end ? PCRE2_ERROR_CALLOUT : 0;
  }

  [[noreturn]] void FailTooSlow() const {
    Fail("tokenizer: the text takes more than {:.1f} s to split", std::chrono::duration<double>(time).count());
  }

  /// Creates the larger stack for searches. Returns false when the larger stack exists already or cannot be created.
  bool GrowStack() {
    if (stack != nullptr) return false;
    stack = pcre2_jit_stack_create(32 << 10, kStackBytes, nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
    return stack != nullptr;
  }
};

SplitBudget::SplitBudget(size_t text_bytes, std::optional<std::chrono::nanoseconds> time, std::stop_token stop)
    : state_(std::make_unique<State>(time ? *time : kLeastTime + text_bytes * kTimePerByte, std::move(stop))) {}
SplitBudget::~SplitBudget() = default;

void SplitBudget::Check(size_t bytes) {
  CheckStop(state_->stop);
  state_->bytes_since_look += bytes;
  if (state_->bytes_since_look < kBytesBetweenLooks) return;
  state_->bytes_since_look = 0;
  if (ThreadTime() > state_->end) state_->FailTooSlow();
}

struct Splitter::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() { pcre2_code_free(code); }
};

std::string LiteralPattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (IsPunctuation(c)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Splitter::Splitter(const std::string& original)
    : pattern_(std::make_unique<Pattern>()), is_linear_(IsKnown(original) || IsLiteral(original)) {
  if (original.size() > kMaxPatternBytes) Fail("{} bytes, at most {} are allowed", original.size(), kMaxPatternBytes);
  const Rewritten pattern = WithUnicodeSpaces(original);
  const uint32_t watch = is_linear_ ? 0 : PCRE2_AUTO_CALLOUT;
  int error = 0;
  PCRE2_SIZE offset = 0;
  pattern_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.text.data()), pattern.text.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | watch, &error, &offset, nullptr);
  if (pattern_->code == nullptr) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof(message));
    const size_t place = offset < pattern.origin.size() ? pattern.origin[offset] : original.size();
    Fail("at character {}: {}", place, reinterpret_cast<const char*>(message));
  }
  pcre2_jit_compile(pattern_->code, PCRE2_JIT_COMPLETE);  // matching is slower without JIT, but not different
}

Splitter::~Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;

void Splitter::Find(std::string_view text, std::vector<Match>& matches, SplitBudget& budget) const {
  SplitBudget::State& state = *budget.state_;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(pattern_->code, nullptr), pcre2_match_data_free);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t at = 0;    // start of the next search
  size_t done = 0;  // end of the last match
  while (at < text.size()) {
    const int found =
        pcre2_match(pattern_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.get(), state.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && state.GrowStack()) continue;
    if (found == PCRE2_ERROR_CALLOUT) {
      CheckStop(state.stop);
      state.FailTooSlow();
    }
    if (found < 0) Fail("tokenizer: the text is too intricate to split (matcher error {})", found);
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    if (range[0] < done || range[1] < range[0] || range[1] < at || range[1] > text.size())
      Fail("tokenizer: a pattern matches bytes {} to {} after byte {}", range[0], range[1], done);
    if (range[0] == range[1]) {  // ignore empty matches
      at = range[1];
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
      continue;
    }
    matches.push_back({range[0], range[1]});
    at = done = range[1];
  }
}

}  // namespace quire
