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

/// Caches the types that schemas give to parameters, for parameters that answers of one request have named.
/// Thread-safe. All reading together is limited to kWork units of schema work (comm/schema/schema_work.h), and the
/// reading of one parameter to half of the remaining units. A parameter that exceeds this limit is treated as if it had
/// no schema. Types are kept up to kMostKept units of reading, about 5 MB; further types are read anew each time,
/// because a model may invent any number of names.
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

/// Converts an argument that a model wrote as bare text into JSON that the tool's schema accepts, following references,
/// alternatives and combinations. Text stays a string where the schema accepts strings; blanks next to tags belong to
/// the string only if every string is accepted. If no reading is accepted, uses a value of an accepted type. Without a
/// schema, uses JSON if the text is valid JSON, otherwise a string. The same applies when checking the value takes too
/// much work.
std::string TypedValue(const Tool& tool, const std::string& parameter, std::string_view text);

}  // namespace quire
