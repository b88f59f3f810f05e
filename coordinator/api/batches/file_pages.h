#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/openai/data_handler.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// The endpoints of /v1/files. Only the I/O thread uses this class; the store is used on the disk's thread.
class FilePages {
 public:
  /// The references must outlive this object; stop the pool before destroying this object.
  FilePages(BatchStore& store, WorkPool& disk) : store_(store), disk_(disk) {}

  std::vector<Routes<DataHandler>::Route> MakeRoutes();

  /// Prepares an upload from the request's head, so that the body will be read piece by piece. Throws ApiError for a
  /// body that is not a form.
  void BeginUpload(HttpRequest& head);

 private:
  struct Upload;  // an upload in progress
  struct Taker;   // receives an upload's pieces
  boost::asio::awaitable<void> TakePiece(std::shared_ptr<Upload> upload, std::string piece);
  boost::asio::awaitable<void> Create(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<void> List(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<void> Get(HttpRequest& request, HttpResponder& responder);
  boost::asio::awaitable<void> SendContent(HttpRequest& request, const std::string& id, HttpResponder& responder);
  boost::asio::awaitable<void> Delete(HttpRequest& request, HttpResponder& responder);

  BatchStore& store_;
  WorkPool& disk_;
};

}  // namespace quire
