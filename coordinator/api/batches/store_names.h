#pragma once

#include <string>
#include <string_view>

#include "coordinator/api/batches/records.h"

namespace quire {

// Names in a BatchStore's directory: FILE (content), FILE.json, BATCH.json, BATCH.output and BATCH.errors (results of a
// batch that is not over), FILE.json.damaged and BATCH.json.damaged (records that a start could not read), names with
// kUnfinishedEnd (files that are being written), and lock. FILE and BATCH are ids.
inline constexpr std::string_view kFilePrefix = "file-", kBatchPrefix = "batch_";
inline constexpr std::string_view kRecordEnd = ".json", kOutputEnd = ".output", kErrorsEnd = ".errors";
inline constexpr std::string_view kDamagedEnd = ".damaged";

/// Returns the id with which a file name in the directory begins.
inline std::string IdOfName(const std::string& name) { return name.substr(0, name.find('.')); }

/// Returns a new id: `prefix` and random digits, which do not reveal the number of other ids.
std::string NewStoredId(std::string_view prefix);

/// Return the names of the files to which a batch's results are added.
inline std::string OutputOf(const BatchRecord& batch) { return batch.id + std::string(kOutputEnd); }
inline std::string ErrorsOf(const BatchRecord& batch) { return batch.id + std::string(kErrorsEnd); }

}  // namespace quire
