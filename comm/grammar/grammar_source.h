#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace quire {

/// The form that an answer's text must have, as the client wrote it. The state of the matcher depends only on this
/// source and on the tokens generated so far, so any rank can continue the sequence after a rank was lost.
struct GrammarSource {
  enum Kind : uint8_t {
    kNone = 0,       // any text
    kJson,           // one JSON value; `text` is empty
    kJsonSchema,     // text: a schema
    kRegex,          // text: a regular expression that the whole answer matches
    kEbnf,           // text: rules "name ::= ..."; the answer must match the rule "root"
    kStructuralTag,  // text: xgrammar's JSON description of free text with tags in it
  };
  Kind kind = kNone;
  std::string text;

  explicit operator bool() const { return kind != kNone; }
  bool operator==(const GrammarSource&) const = default;
};

/// A hash of a grammar's source. Caches find grammars by their hashes, so that they need not compare texts.
using GrammarDigest = std::array<uint8_t, 16>;
GrammarDigest DigestOf(const GrammarSource& source);

/// The longest text of a grammar, in bytes, that a message may carry.
inline constexpr size_t kMaxGrammarBytes = 64 << 10;

}  // namespace quire
