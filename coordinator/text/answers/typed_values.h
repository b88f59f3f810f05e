#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct PlainSchema;
struct Tool;

/// Caches the types that schemas give to parameters, for the parameters that answers of one request have named. The
/// class is thread-safe. Reading all types is limited to kWork units of schema work (comm/schema/schema_work.h), and
/// reading one parameter's type to half of the units that are left. A parameter beyond this limit is treated as if it
/// had no schema. The cache stores types that together took at most kMostKept units, about 5 MB. Other types are read
/// anew each time, because a model may invent any number of names.
class ParameterTypes {
 public:
  static constexpr int64_t kWork = 500'000, kMostKept = 50'000;

  using Alternatives = std::vector<PlainSchema>;
  /// Returns the alternatives that a tool's schema gives for the parameter.
  std::shared_ptr<const Alternatives> Of(const Tool& tool, const std::string& parameter);
  int64_t spent() const;
  size_t num_kept() const;

 private:
  mutable std::mutex mutex_;
  int64_t left_ = kWork, kept_ = 0;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Alternatives>> known_;
};

/// Converts an argument that a model wrote without JSON's quotation marks into JSON that the tool's schema accepts.
/// Follows references, alternatives and combinations in the schema. Text stays a string where the schema accepts
/// strings; whitespace next to tags belongs to the string only if every string is accepted. If the schema accepts no
/// reading, returns a value of an accepted type. Without a schema, or if checking takes too much work, returns the text
/// if it is valid JSON, otherwise a string.
std::string TypedValue(const Tool& tool, const std::string& parameter, std::string_view text);

}  // namespace quire
