#pragma once

#include "comm/schema/schema_reader.h"

namespace quire {

/// Whether the schema accepts the value, as far as a reader's plain schemas say what it asks. Members of the reader's
/// root are what references lead to.
bool Accepts(const SchemaReader& reader, const OrderedJson& schema, const OrderedJson& value);
bool Accepts(const SchemaReader& reader, const PlainSchema& schema, const OrderedJson& value);

/// Whether it is certain that no value is accepted by both; false: nobody knows.
bool Exclude(const SchemaReader& reader, const OrderedJson& a, const OrderedJson& b);

}  // namespace quire
