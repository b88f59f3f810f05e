#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/batches/on_disk.h"
#include "coordinator/batches/batch_line.h"

namespace quire {

/// The text of a long answer to a batch's request, on the disk. The destructor has the disk's thread remove the text.
/// The references must outlive this object.
class SpilledAnswer : public std::enable_shared_from_this<SpilledAnswer> {
 public:
  SpilledAnswer(BatchStore& store, WorkPool& disk, std::string client)
      : store_(store), disk_(disk), client_(std::move(client)) {}
  ~SpilledAnswer() {
    if (draft_ != nullptr) disk_.Add(client_, 0, [draft = std::move(draft_)](const std::stop_token&) {});
  }
  SpilledAnswer(const SpilledAnswer&) = delete;
  SpilledAnswer& operator=(const SpilledAnswer&) = delete;

  /// Appends text, without its line ends. Returns false when the disk failed; the log has the error. Call it on the I/O
  /// thread.
  boost::asio::awaitable<bool> Take(std::string text) {
    std::function<bool()> append = [self = shared_from_this(), text = std::move(text)]() mutable {
      if (self->draft_ == nullptr) self->draft_ = self->store_.BeginSpill(self->client_);
      self->draft_->Append(OnOneLine(std::move(text)));
      return true;
    };
    const std::optional<bool> done = co_await TryOnDisk<bool>(disk_, client_, std::move(append));
    co_return done.has_value();
  }

  /// Returns the file with the text; null when the answer was short and no text was written.
  const std::shared_ptr<FileDraft>& draft() const { return draft_; }

 private:
  BatchStore& store_;
  WorkPool& disk_;
  const std::string client_;
  std::shared_ptr<FileDraft> draft_;
};

}  // namespace quire
