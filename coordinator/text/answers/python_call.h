#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

class TagBuilder;

/// Returns the reason why calls in the form `pythonic` cannot enforce this object schema, as the rest of a sentence
/// that begins with "it"; empty: they can.
std::string WhyNoPythonCall(const OrderedJson& schema);

/// Returns a structural tag format for one call: name(key=value, ...), with keys in the schema's order and values in
/// JSON, except True and False. schema: an object schema for which WhyNoPythonCall is empty; null: any arguments.
OrderedJson PythonCall(const TagBuilder& build, const std::string& name, const OrderedJson& schema);

/// Returns the grammar of a call in the form of Gemma 4: name{key:value,...}. Texts that the schema leaves free stand
/// between <|"|>; other values are JSON.
OrderedJson GemmaCall(const TagBuilder& build, const std::string& name, const OrderedJson& schema);

}  // namespace quire
