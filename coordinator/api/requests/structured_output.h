#pragma once

#include <string>
#include <string_view>

#include "comm/base/json_fwd.h"
#include "comm/grammar/grammar_source.h"
#include "coordinator/api/requests/schema_check.h"

namespace quire {

/// The form that a request wants its answer's text to have, and the field that says so; empty: none.
struct StructuredOutput {
  GrammarSource grammar;
  std::string field;
};

/// Reads response_format, structured_outputs and vLLM's guided_json, guided_regex, guided_choice and guided_grammar.
/// Throws ApiError for bad values, for schemas that cannot be enforced as promised, and for more than one such field.
StructuredOutput ReadStructuredOutput(const OrderedJson& body);

/// True when a body may have one of these fields, judged by its bytes. Every body with such a field gives true: a name
/// that is not spelled in plain letters has escapes, so the body has a backslash.
bool MayAskForForm(std::string_view body);

/// The grammar of a schema; errors name `field`. Keywords that the promise does not enforce are logged.
GrammarSource SchemaGrammar(const OrderedJson& schema, const std::string& field, SchemaPromise promise);

}  // namespace quire
