#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "comm/grammar/grammar_memory.h"
#include "comm/grammar/grammar_source.h"
#include "comm/grammar/vocabulary.h"

namespace quire {

/// A grammar compiled for one vocabulary. It never changes, so several threads may share it.
class CompiledGrammar;

/// Returns the number of bytes of memory that the compiled grammar takes.
size_t BytesOf(const CompiledGrammar& grammar);

/// Compiles grammars and caches those that were used last. Several threads may use one compiler.
class GrammarCompiler {
 public:
  /// `vocab_size`: number of logits of the model, which may exceed the number of tokens of `vocabulary`. Cached
  /// grammars take at most `cache_bytes` bytes.
  GrammarCompiler(const Vocabulary& vocabulary, int vocab_size, int64_t cache_bytes = GrammarMemory().cached);
  ~GrammarCompiler();

  /// Compiles a grammar. Throws Error, whose text names no field, for an invalid grammar, for one that cannot be
  /// followed exactly, and for one that no answer can fulfil. Time grows with the vocabulary and with the grammar's
  /// expanded size.
  std::shared_ptr<const CompiledGrammar> Compile(const GrammarSource& source);

  /// Returns the cached compilation; null when there is none. Never waits for a compilation.
  std::shared_ptr<const CompiledGrammar> Find(const GrammarDigest& digest);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Tells which tokens may come next in one sequence. A matcher belongs to one thread. A matcher's work and memory are
/// bounded, in total and for each token. The bounds count units and do not measure time, so that all ranks decide alike
/// (parsing_budget.h). A grammar with very ambiguous texts exceeds the bounds; the matcher is then overworked: it frees
/// its state and follows no more tokens.
class GrammarMatcher {
 public:
  static constexpr int64_t kBytesPerState = 40;  // about the memory that a parser takes for one state

  /// The bounds of one matcher. Each token that the matcher follows raises the bound `states`, and adds work units to
  /// the matcher's reserve.
  struct Bounds {
    int64_t states = 200'000;  // parser states; ten times the most that any measured schema took
    int64_t units = 200'000;   // the most work units in reserve (parsing_budget.h), some 2 ms of work
  };

  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar, const Bounds& bounds);
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
      : GrammarMatcher(std::move(grammar), Bounds()) {}
  ~GrammarMatcher();
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;

  /// Returns a copy of the matcher in its current state.
  GrammarMatcher Fork() const;
  /// True when `generated` begins with the tokens that led to the current state.
  bool LeadsTo(std::span<const TokenId> generated) const;

  /// Moves the matcher to the state after `generated`, the tokens of an answer from its beginning. Continues from the
  /// current state when `generated` begins with the tokens that led to it, and starts again otherwise. Returns false
  /// when the grammar refuses the tokens or when the matcher is overworked.
  bool Follow(std::span<const TokenId> generated);

  /// Returns the number of tokens that led to the current state.
  size_t num_followed() const;

  /// Returns the number of 32-bit words that Allow fills, with one bit for each token.
  size_t num_words() const;
  /// Sets the bits of exactly those tokens that may come next: bit i % 32 of allowed[i / 32] for token i. Returns false
  /// when no token may come or the matcher is overworked; the bits are then meaningless. After the token that ended the
  /// answer all bits are set, because no token that is sampled there is used.
  bool Allow(std::span<uint32_t> allowed);

  bool overworked() const;

 private:
  struct Parts;
  explicit GrammarMatcher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace quire
