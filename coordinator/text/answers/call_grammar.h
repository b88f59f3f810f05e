#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "comm/base/types.h"
#include "comm/grammar/grammar_source.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// The constraints on an answer that may contain calls.
struct CallConstraint {
  const AnswerShape& shape;
  /// The schema of each tool's arguments, in the order of the tools; null: any JSON object.
  const std::vector<OrderedJson>& schemas;
  /// Texts of the format that are control tokens of this model; grammars refer to them by id.
  const std::map<std::string, TokenId>& control_tokens;
  /// The grammar for an answer without calls; none: any text.
  const GrammarSource& words;
};

/// Returns the grammar of an answer that may have calls, or must have one if the request's tool choice says so. In
/// every text that the grammar accepts, the arguments of all calls that the answer's parser finds satisfy their
/// schemas.
GrammarSource CallGrammar(const CallConstraint& constraint);

/// Returns the grammar of an answer that may begin with thoughts and then follows `words`. If the prompt or the answer
/// opens thoughts, they must end first.
GrammarSource AfterThoughts(const AnswerShape& shape, const std::map<std::string, TokenId>& control_tokens,
                            const GrammarSource& words);

}  // namespace quire
