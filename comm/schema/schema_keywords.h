#pragma once

#include <string>

#include "comm/schema/plain_schema.h"
#include "comm/schema/schema_reader.h"

namespace quire {

/// The largest count of characters, items or members that a grammar enforces. Larger counts make its masks too slow.
inline constexpr size_t kMostCounted = 128;

/// Returns the value of a schema's keyword, or null when the schema does not have the keyword. Some programs write null
/// for a keyword that they leave out, so a keyword with the value null counts as left out. Only `const` may be null.
const OrderedJson* FindKeyword(const OrderedJson& schema, const char* keyword);

/// Reads the keywords of one schema, except references, alternatives and combinations. `where` is the schema's path
/// ("properties.a"), empty for the root. Null `remarks`: no remarks are recorded.
PlainSchema ReadKeywords(const OrderedJson& schema, const std::string& where, SchemaRemarks* remarks);

}  // namespace quire
