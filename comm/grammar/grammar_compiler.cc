#include "comm/grammar/grammar_compiler.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/utf8.h"
#include "comm/grammar/parsing_budget.h"
#include "comm/grammar/tag_schemas.h"
#include "comm/grammar/token_bytes.h"
#include "comm/schema/schema_rules.h"
#include "comm/schema/text_pattern.h"

namespace quire {

namespace {

constexpr size_t kMostKept = 128;         // number of cached grammars
constexpr size_t kMostBytes = 16u << 20;  // bytes of one grammar: a schema of twenty properties has 1 to 3 MiB

// A matcher has a reserve of work units (parsing_budget.h), at most Bounds::units. Each token adds this many units to
// the reserve. Schemas usually take some hundred units for a token; at worst, where several text formats meet, they
// take 8,000 units (measured with a vocabulary of 49,152 tokens). A mask for 64 ambiguous characters takes 10^8 units.
constexpr int64_t kUnitsPerToken = 25'000;
// The most work units that following tokens may take, without the units for masks: a base, and more for each token. A
// sequence that is added again follows all its tokens within one step, and many sequences may be added again in the
// same step. Following 100,000 tokens must not take longer than 0.2 s. Schemas take 6 units for a token on average and
// 150 at most.
constexpr int64_t kFollowingUnits = 20'000;
constexpr int64_t kFollowingUnitsPerToken = 200;
// The number of parser states by which each followed token raises the bound Bounds::states. JSON takes 4 states for a
// byte, a free text 1.
constexpr int64_t kStatesPerToken = 64;

/// Returns xgrammar's first warning on this thread since the text was last cleared; empty when there was none.
/// LogMessageImpl below sets it. xgrammar warns when it drops a part of a grammar; a grammar with a dropped part is
/// refused.
std::string& Warning() {
  static thread_local std::string warning;
  return warning;
}

}  // namespace

class CompiledGrammar {
 public:
  CompiledGrammar(xgrammar::CompiledGrammar grammar, std::shared_ptr<const TokenBytes> bytes, int vocab)
      : compiled(std::move(grammar)), tokens(std::move(bytes)), vocab_size(vocab) {}
  xgrammar::CompiledGrammar compiled;
  std::shared_ptr<const TokenBytes> tokens;
  int vocab_size;
};

struct GrammarCompiler::Parts {
  struct Kept {
    GrammarDigest digest;
    std::shared_ptr<const CompiledGrammar> grammar;
    size_t bytes;
  };

  Parts(const Vocabulary& vocabulary, int size, size_t cache_bytes)
      : most_kept_bytes(cache_bytes),
        has_stop(!vocabulary.stop_tokens.empty()),
        vocab_size(size),
        tokens(std::make_shared<const TokenBytes>(vocabulary)),
        compiler(xgrammar::TokenizerInfo(tokens->of, xgrammar::VocabType::RAW, size, vocabulary.stop_tokens), 1,
                 false) {}

  std::shared_ptr<const CompiledGrammar> Find(const GrammarDigest& digest) {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find(kept, digest, &Kept::digest);
    if (found == kept.end()) return nullptr;
    kept.splice(kept.begin(), kept, found);
    return found->grammar;
  }

  void Keep(const GrammarDigest& digest, std::shared_ptr<const CompiledGrammar> grammar, size_t bytes) {
    const std::lock_guard lock(mutex);
    kept.push_front({digest, std::move(grammar), bytes});
    kept_bytes += bytes;
    for (; kept.size() > kMostKept || kept_bytes > most_kept_bytes; kept.pop_back()) kept_bytes -= kept.back().bytes;
  }

  xgrammar::CompiledGrammar Compile(const GrammarSource& source) {
    switch (source.kind) {
      case GrammarSource::kJson:
        return compiler.CompileGrammar(RulesOf(OrderedJson(true), ValueStyle::kJson));
      case GrammarSource::kJsonSchema:
        return compiler.CompileGrammar(RulesOf(ParseSchema(source.text), ValueStyle::kJson));
      case GrammarSource::kRegex:
        return compiler.CompileRegex(WithoutDots(source.text));
      case GrammarSource::kEbnf:
        return compiler.CompileGrammar(source.text);
      case GrammarSource::kStructuralTag:
        return compiler.CompileStructuralTag(WithRules(source.text));
      case GrammarSource::kNone:
        break;
    }
    Fail("a grammar of unknown kind {}", static_cast<int>(source.kind));
  }

  size_t most_kept_bytes;
  bool has_stop;
  int vocab_size;
  std::shared_ptr<const TokenBytes> tokens;
  xgrammar::GrammarCompiler compiler;  // compiles on the calling thread, and caches nothing
  std::mutex mutex;                    // guards the cached grammars
  std::list<Kept> kept;                // most recently used first
  size_t kept_bytes = 0;
};

GrammarCompiler::GrammarCompiler(const Vocabulary& vocabulary, int vocab_size, int64_t cache_bytes)
    : parts_(std::make_unique<Parts>(vocabulary, vocab_size, static_cast<size_t>(cache_bytes))) {}
GrammarCompiler::~GrammarCompiler() = default;

struct GrammarMatcher::Parts {
  Parts(std::shared_ptr<const CompiledGrammar> g, const Bounds& b) : grammar(std::move(g)), bounds(b) { Begin(); }
  Parts(const Parts& other)
      : grammar(other.grammar),
        bounds(other.bounds),
        units(other.units),
        following_units(other.following_units),
        followed(other.followed) {
    if (other.matcher) matcher.emplace(other.matcher->Fork());
  }

  /// Starts at the beginning of an answer. Creating the parser already computes which texts may come first; if that
  /// exceeds the bounds, the parser is dropped.
  void Begin() {
    followed.clear();
    following_units = 0;
    units = bounds.units;
    const ParsingBudget budget(units);
    try {
      matcher.emplace(grammar->compiled);
      units = budget.left();
    } catch (const std::exception&) {
      matcher.reset();
    }
  }

  /// Calls xgrammar within this matcher's remaining units. Returns false, and drops the parser for good, when the units
  /// do not suffice, when xgrammar throws, or when the parser keeps too many states.
  template <typename Call>
  bool Within(const Call& call) {
    if (!matcher) return false;
    ParsingBudget budget(units);
    try {
      call();
    } catch (const std::exception&) {
      matcher.reset();
      return false;
    }
    units = budget.left();
    const auto length = static_cast<int64_t>(followed.size()) + 1;
    if (budget.kept() > bounds.states + kStatesPerToken * length) matcher.reset();
    return matcher.has_value();
  }

  /// Sets the bit of each token that xgrammar allows next. Sets all bits when xgrammar allows every token or when the
  /// answer has ended.
  void Fill(std::span<uint32_t> bits) {
    int64_t shape[] = {static_cast<int64_t>(bits.size())};
    DLTensor tensor{bits.data(), {kDLCPU, 0}, 1, xgrammar::GetBitmaskDLType(), shape, nullptr, 0};
    const bool limits = !matcher->IsTerminated() && matcher->FillNextTokenBitmask(&tensor);
    if (!limits) std::ranges::fill(bits, ~0u);
  }

  /// Clears the bits of tokens that would continue a character with bytes that are not valid UTF-8.
  void ForbidBrokenCharacters(std::span<uint32_t> bits) const {
    const unsigned char last = grammar->tokens->LastOf(followed);
    if (MayFollow(last, 0x80) && MayFollow(last, 0xbf)) return;
    for (const TokenId token : grammar->tokens->continuing) {
      const auto first = static_cast<unsigned char>(grammar->tokens->of[static_cast<size_t>(token)][0]);
      if (!MayFollow(last, first)) bits[static_cast<size_t>(token) / 32] &= ~(1u << token % 32);
    }
  }

  bool Accept(TokenId token) {
    units = std::min(bounds.units, units + kUnitsPerToken);
    const int64_t before = units;
    bool accepted = false;
    const bool within = Within([&] { accepted = matcher->IsTerminated() || matcher->AcceptToken(token); });
    if (!within || !accepted) return false;
    followed.push_back(token);
    following_units += before - units;
    const auto length = static_cast<int64_t>(followed.size());
    if (following_units > kFollowingUnits + kFollowingUnitsPerToken * length) matcher.reset();
    return matcher.has_value();
  }

  std::shared_ptr<const CompiledGrammar> grammar;
  Bounds bounds;
  std::optional<xgrammar::GrammarMatcher> matcher;  // empty once the matcher has exceeded its bounds
  int64_t units = 0;
  int64_t following_units = 0;    // units spent on following `followed`
  std::vector<TokenId> followed;  // tokens that led to the current state
};

size_t BytesOf(const CompiledGrammar& grammar) { return grammar.compiled.MemorySizeBytes(); }

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar, const Bounds& bounds)
    : parts_(std::make_unique<Parts>(std::move(grammar), bounds)) {}
GrammarMatcher::GrammarMatcher(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
GrammarMatcher::~GrammarMatcher() = default;
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;

GrammarMatcher GrammarMatcher::Fork() const { return GrammarMatcher(std::make_unique<Parts>(*parts_)); }

bool GrammarMatcher::LeadsTo(std::span<const TokenId> generated) const {
  const std::vector<TokenId>& followed = parts_->followed;
  return generated.size() >= followed.size() && std::equal(followed.begin(), followed.end(), generated.begin());
}

size_t GrammarMatcher::num_followed() const { return parts_->followed.size(); }
bool GrammarMatcher::overworked() const { return !parts_->matcher; }

bool GrammarMatcher::Follow(std::span<const TokenId> generated) {
  Parts& p = *parts_;
  if (!p.matcher) return false;
  if (!LeadsTo(generated)) {
    p.Begin();
    if (!p.matcher) return false;
  }
  return std::ranges::all_of(generated.subspan(p.followed.size()), [&](TokenId token) { return p.Accept(token); });
}

size_t GrammarMatcher::num_words() const {
  return static_cast<size_t>(xgrammar::GetBitmaskSize(parts_->grammar->vocab_size));
}

bool GrammarMatcher::Allow(std::span<uint32_t> allowed) {
  Parts& p = *parts_;
  QUIRE_CHECK(allowed.size() == num_words(), "{} entries for a vocabulary of {}", allowed.size(),
              p.grammar->vocab_size);
  if (!p.Within([&] { p.Fill(allowed); })) return false;
  p.ForbidBrokenCharacters(allowed);
  if (const int rest = p.grammar->vocab_size % 32; rest != 0) allowed.back() &= (1u << rest) - 1;
  return std::ranges::any_of(allowed, [](uint32_t word) { return word != 0; });
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::Find(const GrammarDigest& digest) {
  return parts_->Find(digest);
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::Compile(const GrammarSource& source) {
  const GrammarDigest digest = DigestOf(source);
  if (auto found = parts_->Find(digest)) return found;
  if (source.text.size() > kMaxGrammarBytes) Fail("has {} bytes, at most {}", source.text.size(), kMaxGrammarBytes);
  if (!parts_->has_stop) Fail("cannot be kept to: the model has no token that ends an answer");
  Warning().clear();
  std::shared_ptr<const CompiledGrammar> grammar;
  try {
    grammar = std::make_shared<const CompiledGrammar>(parts_->Compile(source), parts_->tokens, parts_->vocab_size);
    const size_t bytes = BytesOf(*grammar);
    if (bytes > kMostBytes) Fail("unfolds to {} MiB, at most {}", bytes >> 20, kMostBytes >> 20);
    if (!Warning().empty()) throw std::runtime_error(Warning());
    GrammarMatcher matcher(grammar);
    std::vector<uint32_t> allowed(matcher.num_words());
    if (!matcher.Allow(allowed))
      Fail("{}", matcher.overworked() ? ParsingBudget::Exceeded().what() : "allows no answer at all");
    parts_->Keep(digest, grammar, bytes + source.text.size());
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // not an Error: a lack of memory is no fault of the grammar
  } catch (const std::exception& error) {
    Fail("cannot be kept to: {}", error.what());
  }
  return grammar;
}

}  // namespace quire

namespace xgrammar {

// xgrammar's build calls these functions instead of its own log. The first throws a fatal error; the second keeps the
// first warning.
[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message.substr(0, message.find_last_not_of('\n') + 1));
}
void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  constexpr int kWarning = 2;
  if (level >= kWarning && quire::Warning().empty()) quire::Warning() = message;
}

}  // namespace xgrammar
