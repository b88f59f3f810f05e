#pragma once

#include <string>
#include <string_view>

#include "comm/base/json_fwd.h"
#include "comm/grammar/grammar_source.h"
#include "coordinator/api/requests/schema_check.h"

namespace quire {

/// What a request's fields ask the text of its answer to be, and which field that was; no field: nothing.
struct StructuredOutput {
  GrammarSource grammar;
  std::string field;
};

/// Reads response_format, structured_outputs and vLLM's guided_json, guided_regex, guided_choice and guided_grammar.
/// Throws ApiError for what is wrong, for schemas that cannot be kept to exactly, and for more than one of them.
StructuredOutput ReadStructuredOutput(const OrderedJson& body);

/// Whether a body may have one of those fields, judged by its text alone: never false for one that has. A name can be
/// spelled without its letters by escapes only, so what has neither the letters nor a backslash has no such field.
bool MayAskForForm(std::string_view body);

/// A schema as a grammar; `field` is named in errors. What the promise lets pass over is a line in the log.
GrammarSource SchemaGrammar(const OrderedJson& schema, const std::string& field, SchemaPromise promise);

}  // namespace quire
