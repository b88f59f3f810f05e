#include "coordinator/api/batches/file_draft.h"

#include <fmt/format.h>

#include "comm/base/error.h"
#include "coordinator/api/batches/store_directory.h"
#include "coordinator/api/batches/store_usage.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

std::string DraftName(const std::string& id) { return id + std::string(kUnfinishedEnd); }

}  // namespace

FileDraft::FileDraft(const StoreDirectory& directory, std::string client, std::string id, int64_t most,
                     StoreUsage& usage)
    : directory_(directory),
      client_(std::move(client)),
      id_(std::move(id)),
      most_(most),
      usage_(usage),
      file_(directory.Create(DraftName(id_))) {}

FileDraft::~FileDraft() {
  if (kept_) return;
  usage_.Add(client_, -bytes_);
  try {
    directory_.Remove(DraftName(id_));
  } catch (const Error&) {
    // The next start of the server removes the unfinished file.
  }
}

void FileDraft::Append(std::string_view bytes) {
  if (bytes_ + static_cast<int64_t>(bytes.size()) > most_) {
    throw ApiError(413,
                   fmt::format("the file has more than {} bytes, for which there is room; make several files, or "
                               "delete some that are kept",
                               most_),
                   "file");
  }
  WriteFully(file_.get(), bytes, directory_.path() + "/" + DraftName(id_));
  bytes_ += static_cast<int64_t>(bytes.size());
  usage_.Add(client_, static_cast<int64_t>(bytes.size()));
}

void FileDraft::Keep() {
  SyncContent(file_.get(), directory_.path() + "/" + DraftName(id_));
  directory_.Rename(DraftName(id_), id_);
  kept_ = true;
}

std::string FileDraft::Read(int64_t offset, size_t count) const {
  return ReadAt(file_.get(), offset, count, directory_.path() + "/" + DraftName(id_));
}

}  // namespace quire
