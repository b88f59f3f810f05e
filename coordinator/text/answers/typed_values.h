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

/// What schemas say of the parameters that answers of one request have named so far, by tools. Safe for many threads.
/// All are read together within kWork units of schema work (comm/schema/schema_work.h), each within half of what is
/// left; of a parameter that takes more the schema says nothing. What took kMostKept units to read is kept, some 5 MB
/// at the most; types of more names, which a model may make up without end, are read anew each time.
class ParameterTypes {
 public:
  static constexpr int64_t kWork = 500'000, kMostKept = 50'000;

  using Alternatives = std::vector<PlainSchema>;
  /// Read once for each parameter of a tool's, as far as types are kept.
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
