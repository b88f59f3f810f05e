#include "coordinator/api/batches/kept_records.h"

#include <spdlog/spdlog.h>

#include "comm/base/error.h"
#include "coordinator/api/batches/store_names.h"

namespace quire {

namespace {

constexpr size_t kRecordBytes = 1 << 20;  // most bytes of a record's file

template <class RecordOf>
RecordOf RecordFrom(const std::string& text, const std::string& what) {
  if (text.size() > kRecordBytes) Fail("{}: larger than {} bytes", what, kRecordBytes);
  return RecordOf::FromJson(ParseJson(text, what, {.max_depth = 8, .max_nodes = 10'000}));
}

template <class RecordOf>
std::string CheckedText(const RecordOf& record) {
  std::string text = DumpJson(record.ToJson());
  (void)RecordFrom<RecordOf>(text, record.id);
  return text;
}

template <class RecordOf>
void Load(const StoreDirectory& directory, const std::string& name, std::map<std::string, RecordOf>& records) {
  const std::string what = directory.path() + "/" + name, id = IdOfName(name);
  RecordOf record = RecordFrom<RecordOf>(directory.ReadWhole(name, kRecordBytes), what);
  if (record.id != id) Fail("{}: it is the record of {}", what, record.id.substr(0, 100));
  records[id] = std::move(record);
}

void LoadOrSetAside(const StoreDirectory& directory, const std::string& name, KeptRecords& kept) {
  try {
    if (name.starts_with(kFilePrefix)) return Load(directory, name, kept.files);
    return Load(directory, name, kept.batches);
  } catch (const std::exception& error) {
    const std::string aside = name + std::string(kDamagedEnd);
    directory.Rename(name, aside);
    kept.set_aside.insert(IdOfName(name));
    spdlog::warn(
        "{}; this file is not as the server left it: it is now called {}, and what else begins with its name is kept; "
        "mend it and rename it, or remove all of that",
        error.what(), aside);
  }
}

}  // namespace

KeptRecords LoadRecords(const StoreDirectory& directory) {
  KeptRecords kept;
  for (const std::string& name : directory.Names()) {
    if (!name.starts_with(kFilePrefix) && !name.starts_with(kBatchPrefix)) continue;
    if (name.ends_with(kUnfinishedEnd)) {
      directory.Remove(name);
    } else if (name.ends_with(kDamagedEnd)) {
      kept.set_aside.insert(IdOfName(name));
    } else if (name.ends_with(kRecordEnd)) {
      LoadOrSetAside(directory, name, kept);
    }
  }
  return kept;
}

std::string TextOf(const FileRecord& record) { return CheckedText(record); }
std::string TextOf(const BatchRecord& record) { return CheckedText(record); }

}  // namespace quire
