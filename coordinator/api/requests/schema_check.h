#pragma once

#include <string>

#include "comm/base/json_fwd.h"

namespace quire {

/// What a client is promised of answers under its schema.
enum class SchemaPromise {
  kExact,    // the schema accepts every answer: what could break that is refused
  kAsFarAs,  // answers keep to what a grammar can see to; the client checks the rest
};

/// What the check of a schema under a promise finds, as sentences.
struct SchemaCheck {
  std::string problem;  // why the promise cannot be held; empty: it can
  std::string passed;   // what is passed over; empty: nothing
};
SchemaCheck CheckSchema(const OrderedJson& schema, SchemaPromise promise);

/// Why the promise cannot be held for this JSON schema: the keyword, and where it stands; empty when it can. Words that
/// ask nothing of a value are passed over. Work is bounded (comm/schema/schema_work.h).
std::string WhyNotKept(const OrderedJson& schema, SchemaPromise promise = SchemaPromise::kExact);

/// What is passed over in a schema under that promise: keywords with their places, and why; empty: nothing. Words that
/// everybody knows to ask nothing (title, description, default ...) are not listed.
std::string PassedOver(const OrderedJson& schema, SchemaPromise promise);

}  // namespace quire
