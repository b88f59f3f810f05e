#pragma once

#include <string>

#include "comm/schema/plain_schema.h"
#include "comm/schema/schema_reader.h"

namespace quire {

/// The largest count of characters, items or members that a grammar enforces. Larger counts make its masks too slow.
inline constexpr size_t kMostCounted = 128;

/// Reads the keywords of one schema, except references, alternatives and combinations. `where` is the schema's place,
/// empty for the root. `remarks` may be null.
PlainSchema ReadKeywords(const OrderedJson& schema, const std::string& where, SchemaRemarks* remarks);

}  // namespace quire
