#pragma once

#include <string>
#include <string_view>

#include "comm/base/json_fwd.h"
#include "comm/grammar/grammar_source.h"
#include "coordinator/api/requests/schema_check.h"

namespace quire {

/// The form that a request wants its answer's text to have, and the name of the request's field that asks for the form.
/// The name is empty when no field asks for a form.
struct StructuredOutput {
  GrammarSource grammar;
  std::string field;
};

/// Reads response_format, structured_outputs and vLLM's guided_json, guided_regex, guided_choice and guided_grammar.
/// Throws ApiError for bad values, for schemas that cannot be enforced as promised, and for more than one such field.
StructuredOutput ReadStructuredOutput(const OrderedJson& body);

/// False only for a body without a field that ReadStructuredOutput reads. The function only searches the body's bytes
/// for names of these fields, and for a backslash, because names may be written with escapes. So it may also return
/// true for other bodies.
bool MayAskForForm(std::string_view body);

/// Returns the grammar of a schema, and logs keywords that the promise does not enforce. Throws ApiError, which names
/// `field`, when the promise cannot be fulfilled.
GrammarSource SchemaGrammar(const OrderedJson& schema, const std::string& field, SchemaPromise promise);

}  // namespace quire
