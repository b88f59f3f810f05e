#include "coordinator/api/requests/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/schema/schema_reader.h"
#include "comm/schema/schema_work.h"

namespace quire {

namespace {

constexpr size_t kMostListed = 8;

SchemaRemarks RemarksOf(const OrderedJson& schema) {
  SchemaRemarks remarks;
  try {
    const SchemaWork work(kSchemaWork);
    SchemaReader(schema, &remarks).Look(schema, "");
  } catch (const Error& error) {
    remarks.wrong.push_back({"", error.what()});
  }
  return remarks;
}

std::string Sentence(const SchemaRemarks::Remark& remark) {
  return fmt::format("{} {}", remark.place.empty() ? "the schema" : remark.place, remark.why);
}

}  // namespace

SchemaCheck CheckSchema(const OrderedJson& schema, SchemaPromise promise) {
  const SchemaRemarks remarks = RemarksOf(schema);
  if (!remarks.wrong.empty()) return {Sentence(remarks.wrong.front()), ""};
  if (promise == SchemaPromise::kExact && !remarks.unkept.empty()) return {Sentence(remarks.unkept.front()), ""};
  std::vector<SchemaRemarks::Remark> passed = remarks.unknown;
  passed.insert(passed.end(), remarks.unkept.begin(), remarks.unkept.end());
  SchemaCheck out;
  out.remarks.assign(passed.begin(), passed.begin() + std::min(passed.size(), kMostListed));
  for (size_t i = 0; i < passed.size() && i < kMostListed; ++i)
    out.passed += (i == 0 ? "" : "; ") + Sentence(passed[i]);
  if (passed.size() > kMostListed) out.passed += fmt::format("; and {} more", passed.size() - kMostListed);
  return out;
}

std::string WhyNotKept(const OrderedJson& schema, SchemaPromise promise) {
  return CheckSchema(schema, promise).problem;
}

std::string PassedOver(const OrderedJson& schema, SchemaPromise promise) { return CheckSchema(schema, promise).passed; }

}  // namespace quire
