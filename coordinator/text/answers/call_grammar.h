#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "comm/base/types.h"
#include "comm/grammar/grammar_source.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// What an answer has to keep to, beside what its client asked for.
struct CallConstraint {
  const AnswerShape& shape;
  /// By tool: the schema that its arguments have to be accepted by; null: any JSON object.
  const std::vector<OrderedJson>& schemas;
  /// Texts of the format that are control tokens of this model: grammars know those by their ids.
  const std::map<std::string, TokenId>& control_tokens;
  /// What the answer is when it calls nothing; none: anything.
  const GrammarSource& words;
};

/// The grammar of an answer that calls what shape.tools says: its choice decides whether it must. Every text that the
/// grammar lets through is one of whose calls the schemas hold, whatever the answer's parser takes for a call.
GrammarSource CallGrammar(const CallConstraint& constraint);

/// A grammar for the answer of a model that may think first: thoughts that the prompt has opened, or that the answer
/// opens, come to their end before.
GrammarSource AfterThoughts(const AnswerShape& shape, const std::map<std::string, TokenId>& control_tokens,
                            const GrammarSource& words);

}  // namespace quire
