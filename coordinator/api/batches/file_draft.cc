#include "coordinator/api/batches/file_draft.h"

#include <fmt/format.h>

#include "comm/base/error.h"
#include "coordinator/api/batches/store_directory.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

std::string DraftName(const std::string& id) { return id + std::string(kUnfinishedEnd); }

}  // namespace

FileDraft::FileDraft(const StoreDirectory& directory, std::string client, std::string id, int64_t most,
                     std::atomic<int64_t>& taken)
    : directory_(directory),
      client_(std::move(client)),
      id_(std::move(id)),
      most_(most),
      taken_(taken),
      file_(directory.Create(DraftName(id_))) {}

FileDraft::~FileDraft() {
  taken_ -= bytes_;
  if (kept_) return;
  try {
    directory_.Remove(DraftName(id_));
  } catch (const Error&) {
    // The next start removes it.
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
  taken_ += static_cast<int64_t>(bytes.size());
}

void FileDraft::Keep() {
  SyncContent(file_.get(), directory_.path() + "/" + DraftName(id_));
  directory_.Rename(DraftName(id_), id_);
  kept_ = true;
}

}  // namespace quire
