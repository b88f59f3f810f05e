#pragma once

#include <optional>
#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/text/answers/answer_format.h"

namespace quire {

/// The texts of a format whose calls are JSON objects: `open`{`name`: ..., `arguments`: ...}`close` for each call,
/// `between` between two calls, `begin` and `end` around all calls. advice: further instructions for the model.
struct JsonCallForm {
  std::string begin, open, arguments, close, between, end, advice, name = "name";
};
/// Returns the texts of a format; nullopt for formats whose calls are not JSON objects with a name.
std::optional<JsonCallForm> JsonCallFormOf(ToolFormat format);

/// Returns the text that describes the tools and the format of calls to the model, for templates that show no tools.
/// tools: a list of OpenAI's tool objects.
std::string ToolPrompt(const JsonCallForm& form, const OrderedJson& tools);

/// Returns the calls of an earlier answer in the model's format. calls: in OpenAI's form, with arguments as text.
std::string CallsText(const JsonCallForm& form, const OrderedJson& calls);

/// Returns the text of calls in any format; nullopt for formats whose calls are neither JSON nor Python between marks:
/// this program cannot write them.
std::optional<std::string> CallsText(ToolFormat format, const OrderedJson& calls);

/// Returns the result of a call as the text of a user message. name: the function's name; empty if unknown.
std::string ResultText(const std::string& name, const std::string& result);

}  // namespace quire
