#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/schema/text_automaton.h"

namespace quire {

/// Rules of a grammar in xgrammar's EBNF, as they come. A body is a text of that language.
class RuleText {
 public:
  /// A name for a rule that is set later.
  std::string New();
  /// Throws Error where the rules come to too much.
  void Set(const std::string& name, const std::string& body);
  /// The name of a rule with this body: the same body is the same rule.
  std::string Add(const std::string& body);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int count_ = 0;
  std::map<std::string, std::string> by_body_;
};

/// A text as it stands, in quotes.
std::string LiteralOf(std::string_view text);
/// One code point of the ranges, of which there is one at least.
std::string ClassOf(const CodeRanges& ranges);
/// One of the bodies; none: what nothing matches.
std::string OneOf(const std::vector<std::string>& bodies);

/// How texts are spelled.
enum class Spelling {
  kRaw,        // as they are
  kJson,       // as JSON's strings, behind the first quotation mark and with the last
  kJsonInTag,  // the same without a raw <, so that no tag closes inside
};

/// The name of a rule for the texts of an automaton, which is not empty.
std::string TextRule(RuleText& rules, const TextAutomaton& texts, Spelling spelling);

}  // namespace quire
