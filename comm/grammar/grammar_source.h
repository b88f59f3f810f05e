#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace quire {

/// What the text of an answer must be, as its client wrote it. The state of matching it is a function of this and of
/// the tokens generated so far: whoever has both can go on, on any rank, after any loss.
struct GrammarSource {
  enum Kind : uint8_t {
    kNone = 0,       // anything goes
    kJson,           // one JSON value; no text
    kJsonSchema,     // text: a schema
    kRegex,          // text: a regular expression that the whole answer matches
    kEbnf,           // text: rules "name ::= ..."; the answer is a "root"
    kStructuralTag,  // text: xgrammar's JSON description of free text with tags in it
  };
  Kind kind = kNone;
  std::string text;

  explicit operator bool() const { return kind != kNone; }
  bool operator==(const GrammarSource&) const = default;
};

/// What stands for a source among thousands that are looked through at every turn.
using GrammarDigest = std::array<uint8_t, 16>;
GrammarDigest DigestOf(const GrammarSource& source);

/// Longest text that travels.
inline constexpr size_t kMaxGrammarBytes = 64 << 10;

}  // namespace quire
