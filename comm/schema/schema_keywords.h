#pragma once

#include <string>

#include "comm/schema/plain_schema.h"
#include "comm/schema/schema_reader.h"

namespace quire {

/// Most characters, items or members that are counted. Beyond, a grammar's masks take too long.
inline constexpr size_t kMostCounted = 128;

/// Reads the keywords of one schema that stand for themselves, without references, alternatives and combinations.
/// where: its place, empty for the whole. remarks: null: nobody listens.
PlainSchema ReadKeywords(const OrderedJson& schema, const std::string& where, SchemaRemarks* remarks);

}  // namespace quire
