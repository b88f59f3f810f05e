#pragma once

#include <optional>
#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/text/answers/answer_format.h"

namespace quire {

/// How a format has one call that is written as JSON: `open`{`name`: ..., `arguments`: ...}`close`, with `between` from
/// one to the next; all of them between `begin` and `end`. advice: what else a model must be told of the form.
struct JsonCallForm {
  std::string begin, open, arguments, close, between, end, advice, name = "name";
};
/// Nothing for formats whose calls are no JSON objects with a name.
std::optional<JsonCallForm> JsonCallFormOf(ToolFormat format);

/// For models whose template shows no tools: what to tell such a model of them, and of how to call them. For formats
/// that have a JsonCallForm. tools: a list of OpenAI's objects.
std::string ToolPrompt(const JsonCallForm& form, const OrderedJson& tools);

/// The calls of an earlier answer as the model would have written them. calls: in OpenAI's form, arguments as text.
std::string CallsText(const JsonCallForm& form, const OrderedJson& calls);

/// The same for any format; nothing for formats whose calls are not written here: neither JSON nor Python between
/// marks.
std::optional<std::string> CallsText(ToolFormat format, const OrderedJson& calls);

/// The result of a call as words of a user's turn. name: the function's; empty where it is not known.
std::string ResultText(const std::string& name, const std::string& result);

}  // namespace quire
