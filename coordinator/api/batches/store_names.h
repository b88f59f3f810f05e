#pragma once

#include <string>
#include <string_view>

namespace quire {

// Names in a BatchStore's directory: FILE (content), FILE.json, BATCH.json, BATCH.output and BATCH.errors (results of a
// batch that is not over). FILE and BATCH are ids.
inline constexpr std::string_view kFilePrefix = "file-", kBatchPrefix = "batch_";
inline constexpr std::string_view kRecordEnd = ".json", kOutputEnd = ".output", kErrorsEnd = ".errors";

/// A new random id, which does not reveal the number of other ids.
std::string NewStoredId(std::string_view prefix);

}  // namespace quire
