#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/schema/text_automaton.h"

namespace quire {

/// Collects the rules of a grammar in xgrammar's EBNF. A body is the right-hand side of a rule in that language.
class RuleText {
 public:
  /// Returns a new name for a rule that is set later.
  std::string New();
  /// Sets the body of a rule. Throws Error when the rules become too large.
  void Set(const std::string& name, const std::string& body);
  /// Returns the name of a rule with this body. Equal bodies share one rule.
  std::string Add(const std::string& body);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int count_ = 0;
  std::map<std::string, std::string> by_body_;
};

/// Returns a literal in quotes that matches this text.
std::string LiteralOf(std::string_view text);
/// Returns a character class for one code point of the ranges. `ranges` must not be empty.
std::string ClassOf(const CodeRanges& ranges);
/// Returns the bodies as alternatives. Without bodies, returns a class that matches nothing.
std::string OneOf(const std::vector<std::string>& bodies);

/// The spelling of strings in an answer.
enum class Spelling {
  kRaw,        // unchanged
  kJson,       // a JSON string without its opening quotation mark, but with the closing one
  kJsonInTag,  // a JSON string without a raw <, so that no tag closes inside the text
};

/// Returns the name of a rule for the texts of an automaton. The automaton must accept at least one text.
std::string TextRule(RuleText& rules, const TextAutomaton& texts, Spelling spelling);

}  // namespace quire
