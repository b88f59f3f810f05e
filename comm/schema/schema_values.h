#pragma once

#include "comm/schema/schema_reader.h"

namespace quire {

/// True when the schema accepts the value, as far as the reader's plain schemas express the constraints. References are
/// resolved in the reader's root.
bool Accepts(const SchemaReader& reader, const OrderedJson& schema, const OrderedJson& value);
bool Accepts(const SchemaReader& reader, const PlainSchema& schema, const OrderedJson& value);

/// True when it is certain that no value is accepted by both schemas. False proves nothing.
bool Exclude(const SchemaReader& reader, const OrderedJson& a, const OrderedJson& b);

}  // namespace quire
