#include "coordinator/api/requests/responses/custom_format.h"

#include <fmt/format.h>

#include <string>

#include "comm/base/error.h"
#include "comm/grammar/grammar_source.h"
#include "coordinator/api/requests/responses/lark_pattern.h"

namespace quire {

bool AddCustomFormat(const JsonObject& format, OrderedJson& input) {
  const std::string type = format.Text("type");
  if (type == "text") {
    format.KnowOnly({"type"});
    return false;
  }
  if (type != "grammar") format.Refuse("type", "must be text or grammar");
  format.KnowOnly({"type", "syntax", "definition"});
  const std::string syntax = format.Text("syntax"), definition = format.Text("definition");
  if (syntax != "lark" && syntax != "regex") format.Refuse("syntax", "must be lark or regex");
  if (definition.size() > kMaxGrammarBytes)
    format.Refuse("definition", fmt::format("takes at most {} bytes", kMaxGrammarBytes));
  std::string pattern = definition;
  if (syntax == "lark") {
    try {
      pattern = PatternOfLark(definition);
    } catch (const Error& error) {
      format.Refuse("definition", error.what());
    }
    input["description"] = "A text of this lark grammar:\n" + definition;
  }
  input["pattern"] = fmt::format("^(?:{})$", pattern);
  return true;
}

}  // namespace quire
