#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "comm/grammar/grammar_source.h"
#include "comm/grammar/vocabulary.h"

namespace quire {

/// A grammar made ready for one vocabulary. Immutable; safe to share between threads.
class CompiledGrammar;

/// Memory that it takes.
size_t BytesOf(const CompiledGrammar& grammar);

/// Makes grammars ready, and keeps those that were used last. Safe to use from several threads.
class GrammarCompiler {
 public:
  /// vocab_size: of the model, which may have more tokens than its tokenizer.
  GrammarCompiler(const Vocabulary& vocabulary, int vocab_size);
  ~GrammarCompiler();

  /// Throws Error, which begins with no name of a field, for what is no grammar, for what cannot be kept to exactly,
  /// and for what no answer can fulfil. Takes time in proportion to the vocabulary and to what the grammar unfolds to.
  std::shared_ptr<const CompiledGrammar> Compile(const GrammarSource& source);

  /// What is kept of it; null: nothing. Waits for no compilation.
  std::shared_ptr<const CompiledGrammar> Find(const GrammarDigest& digest);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Which tokens may come next. Belongs to one sequence, and to one thread. What it does for its sequence is bounded, by
/// counts and not by time, so that all ranks come to the same end (parsing_budget.h): at once, for every token, and in
/// what it keeps. A grammar whose texts can be read in many ways goes beyond that: it is overworked from then on, and
/// holds nothing any more.
class GrammarMatcher {
 public:
  /// What one may have at once. Each token adds to it.
  struct Bounds {
    int64_t states = 200'000;  // that it keeps, of some 40 bytes: ten times what the heaviest schema tried took
    int64_t units = 200'000;   // of work (parsing_budget.h), some 2 ms
  };

  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar, const Bounds& bounds);
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
      : GrammarMatcher(std::move(grammar), Bounds()) {}
  ~GrammarMatcher();

  /// Brings it to where these tokens lead from the beginning of an answer: goes on from where it is if they continue
  /// what it has, and begins anew otherwise. False when the grammar does not let them come, or when it is overworked.
  bool Follow(std::span<const TokenId> generated);

  /// Tokens that led to where it is.
  size_t num_followed() const;

  /// Entries that Allow fills.
  size_t num_words() const;
  /// Sets the bits of all tokens that may come next, bit i % 32 of allowed[i / 32] for token i, and no others; false
  /// when none may, or when it is overworked, and what the bits are then is of no use. After the token that ended the
  /// answer everything may come: nobody looks at what is drawn there.
  bool Allow(std::span<uint32_t> allowed);

  bool overworked() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace quire
