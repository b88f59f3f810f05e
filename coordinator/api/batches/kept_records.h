#pragma once

#include <map>
#include <set>
#include <string>

#include "coordinator/api/batches/records.h"
#include "coordinator/api/batches/store_directory.h"

namespace quire {

/// The records in a BatchStore's directory.
struct KeptRecords {
  std::map<std::string, FileRecord> files;     // files by their ids
  std::map<std::string, BatchRecord> batches;  // batches by their ids
  std::set<std::string> set_aside;             // ids whose records could not be read
};

/// Reads every record, and removes unfinished files. A record that cannot be read is renamed, with a warning; other
/// files with its id stay. Throws Error when the disk fails.
KeptRecords LoadRecords(const StoreDirectory& directory);

/// Returns the text of a record as it is stored. Throws Error for a record that LoadRecords could not read.
std::string TextOf(const FileRecord& record);
std::string TextOf(const BatchRecord& record);

}  // namespace quire
