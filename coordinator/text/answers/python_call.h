#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

class TagBuilder;

/// Returns the reason why calls in the format `pythonic` cannot enforce this object schema, as the end of a sentence
/// that begins with "it"; empty when they can.
std::string WhyNoPythonCall(const OrderedJson& schema);

/// Returns a structural tag format for one call: name(key=value, ...), with keys in the schema's order, and values in
/// JSON except for True and False. schema: an object schema for which WhyNoPythonCall is empty; null: any arguments.
OrderedJson PythonCall(const TagBuilder& build, const std::string& name, const OrderedJson& schema);

/// Returns the grammar of one call of Gemma 4: name{key:value,...}. Strings that the schema does not constrain have
/// <|"|> as quotation marks; other values are JSON.
OrderedJson GemmaCall(const TagBuilder& build, const std::string& name, const OrderedJson& schema);

}  // namespace quire
