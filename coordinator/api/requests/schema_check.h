#pragma once

#include <string>
#include <vector>

#include "comm/base/json_fwd.h"
#include "comm/schema/schema_reader.h"

namespace quire {

/// What the client is promised when its answers have a JSON schema.
enum class SchemaPromise {
  kExact,    // the schema accepts every answer; otherwise the request is refused
  kAsFarAs,  // the grammar enforces what it can; the client must check the other keywords
};

/// The result of checking a schema under a promise. The texts are sentences for clients.
struct SchemaCheck {
  std::string problem;                              // why the promise cannot be fulfilled; empty: it is fulfilled
  std::string passed;                               // keywords that are not enforced; empty: none
  std::vector<SchemaRemarks::Remark> remarks = {};  // one for each of the first keywords that are not enforced
};
SchemaCheck CheckSchema(const OrderedJson& schema, SchemaPromise promise);

/// Returns the reason why the promise cannot be fulfilled for this schema: the keyword and its path; empty when it can
/// be fulfilled. Keywords that constrain nothing are ignored. The work is bounded (comm/schema/schema_work.h).
std::string WhyNotKept(const OrderedJson& schema, SchemaPromise promise = SchemaPromise::kExact);

/// Returns the keywords that are not enforced under this promise, with their paths and reasons: the first 8 keywords,
/// and the number of the others; empty when all keywords are enforced. Keywords that never constrain a value (title,
/// description, default ...) are not listed.
std::string PassedOver(const OrderedJson& schema, SchemaPromise promise);

}  // namespace quire
