#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

class TagBuilder;

/// Why calls in the form `pythonic` cannot be kept to this schema of an object, as a sentence that goes on "it ...";
/// empty: they can.
std::string WhyNoPythonCall(const OrderedJson& schema);

/// A structural tag's format of one call: name(key=value, ...), with the keys in the order of the schema, and values as
/// JSON writes them but True and False. schema: of an object, without a reason against it; null: any arguments.
OrderedJson PythonCall(const TagBuilder& build, const std::string& name, const OrderedJson& schema);

}  // namespace quire
