#include "coordinator/api/batches/file_pages.h"

#include <charconv>
#include <utility>

#include "coordinator/api/batches/on_disk.h"
#include "coordinator/api/batches/record_list.h"
#include "coordinator/api/batches/upload_form.h"
#include "coordinator/api/requests/query_fields.h"

// g++ 12 miscompiles some co_await expressions, so the coroutines in this file avoid such expressions
// (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kFilesPath = "/v1/files/", kContentEnd = "/content";
constexpr int64_t kPieceBytes = 256 << 10;  // bytes of a body or an answer that are processed in one go
constexpr int64_t kPiecesHeld = 4;          // copies of a piece that exist at the same time
constexpr size_t kMostListed = 10'000;      // files on a page

/// Returns the seconds after which the form asks to delete the file; 0: the form has no such field.
int64_t KeepSeconds(std::map<std::string, std::string> fields) {
  const std::string anchor = fields["expires_after[anchor]"], text = fields["expires_after[seconds]"];
  if (anchor.empty() && text.empty()) return 0;
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (anchor != "created_at" || !whole || seconds < kLeastKeptSeconds || seconds > kMostKeptSeconds)
    throw ApiError(400, "must have the anchor created_at and 3600 to 2592000 seconds", "expires_after");
  return seconds;
}

void CheckFields(const std::map<std::string, std::string>& fields) {
  for (const auto& [name, value] : fields) {
    if (name != "purpose" && name != "expires_after[anchor]" && name != "expires_after[seconds]")
      throw ApiError(400, "the form may have the parts file, purpose and expires_after", name.substr(0, 100));
  }
  const auto purpose = fields.find("purpose");
  if (purpose == fields.end() || purpose->second != "batch")
    throw ApiError(400, "must be \"batch\": files are kept for batches here", "purpose");
}

std::string IdIn(const HttpRequest& request) { return request.path.substr(kFilesPath.size()); }

}  // namespace

/// One upload that is being received. Used by one thread at a time, because the pieces of a request arrive one after
/// another.
struct FilePages::Upload {
  Upload(FilePages& p, const HttpRequest& head)
      : pages(p),
        client(head.client),
        share(head.share),
        form(head.Header("content-type"), [this](std::string_view content) { TakeContent(content); }) {}
  /// Lets the disk's thread destroy the draft, which removes the file of an unfinished upload.
  ~Upload() {
    if (draft != nullptr) pages.disk_.Add(share, 0, [draft = std::move(draft)](const std::stop_token&) {});
  }

  void TakeContent(std::string_view content) {
    if (draft == nullptr) draft = pages.store_.BeginFile(client);
    pages.store_.AppendTo(*draft, content);
  }
  FileRecord Finish() {
    if (error) std::rethrow_exception(error);
    form.End();
    CheckFields(form.fields());
    const int64_t seconds = KeepSeconds(form.fields());
    if (draft == nullptr) draft = pages.store_.BeginFile(client);
    return pages.store_.FinishFile(*draft, form.filename().empty() ? "file" : form.filename(), seconds);
  }

  FilePages& pages;
  const std::string client, share;
  std::shared_ptr<FileDraft> draft;  // null until the first content arrives
  UploadForm form;
  std::exception_ptr error;  // the first error; the following bytes of the body are discarded
};

struct FilePages::Taker {
  asio::awaitable<void> operator()(std::string piece) const {
    return upload->pages.TakePiece(upload, std::move(piece));
  }
  std::shared_ptr<Upload> upload;
};

void FilePages::BeginUpload(HttpRequest& head) {
  head.take_body = Taker{std::make_shared<Upload>(*this, head)};
  head.body_bytes = kPiecesHeld * kPieceBytes;
}

asio::awaitable<void> FilePages::TakePiece(std::shared_ptr<Upload> upload, std::string piece) {
  if (upload->error) co_return;
  try {
    std::function<bool()> work = [upload, piece = std::move(piece)] {
      upload->form.Push(piece);
      return true;
    };
    [[maybe_unused]] const bool done = co_await OnDisk<bool>(disk_, upload->share, std::move(work));
  } catch (...) {
    upload->error = std::current_exception();
  }
}

std::vector<Routes<DataHandler>::Route> FilePages::MakeRoutes() {
  return {{"POST", "/v1/files", AnsweredBy(this, &FilePages::Create)},
          {"GET", "/v1/files", AnsweredBy(this, &FilePages::List)},
          {"GET", "/v1/files/*", AnsweredBy(this, &FilePages::Get)},
          {"DELETE", "/v1/files/*", AnsweredBy(this, &FilePages::Delete)}};
}

asio::awaitable<void> FilePages::Create(HttpRequest& request, HttpResponder& responder) {
  const Taker* taker = request.take_body.target<Taker>();
  if (taker == nullptr) throw ApiError(415, "files come as multipart/form-data, with the parts purpose and file");
  const std::shared_ptr<Upload> upload = taker->upload;
  request.take_body = nullptr;  // releases the upload: a connection keeps its request until its next request
  std::function<Json()> work = [upload] { return upload->Finish().ToPublic(); };
  const Json file = co_await OnDisk<Json>(disk_, request.share, std::move(work));
  HttpResponse response = JsonResponse(file);
  co_await responder.Send(std::move(response));
}

asio::awaitable<void> FilePages::List(HttpRequest& request, HttpResponder& responder) {
  const QueryFields query(request.query, {"after", "limit", "order", "purpose"});
  const PageQuery asked{.after = query.Text("after"),
                        .limit = static_cast<size_t>(query.Integer("limit", 1, kMostListed).value_or(kMostListed)),
                        .oldest_first = query.Choice("order", {"asc", "desc"}) == "asc"};
  std::function<std::string()> work = [this, client = request.client, asked, purpose = query.Text("purpose")] {
    std::vector<const FileRecord*> files = store_.FilesOf(client);
    if (!purpose.empty()) std::erase_if(files, [&](const FileRecord* file) { return file->purpose != purpose; });
    return PageOfRecords(files, asked);
  };
  std::string text = co_await OnDisk<std::string>(disk_, request.share, std::move(work));
  co_await SendCharged(request, responder, std::move(text));
}

asio::awaitable<void> FilePages::Get(HttpRequest& request, HttpResponder& responder) {
  std::string id = IdIn(request);
  if (id.ends_with(kContentEnd)) {
    id.resize(id.size() - kContentEnd.size());
    co_await SendContent(request, id, responder);
    co_return;
  }
  std::function<Json()> work = [this, client = request.client, id] { return store_.FindFile(client, id).ToPublic(); };
  const Json file = co_await OnDisk<Json>(disk_, request.share, std::move(work));
  HttpResponse response = JsonResponse(file);
  co_await responder.Send(std::move(response));
}

/// Sends a file's content piece by piece. Reads each piece only after the previous piece was sent.
asio::awaitable<void> FilePages::SendContent(HttpRequest& request, const std::string& id, HttpResponder& responder) {
  struct Opened {
    std::shared_ptr<const Descriptor> file;
    int64_t bytes;
  };
  std::function<Opened()> open = [this, client = request.client, id] {
    const FileRecord& file = store_.FindFile(client, id);
    return Opened{std::make_shared<const Descriptor>(store_.OpenFile(file)), file.bytes};
  };
  const Opened opened = co_await OnDisk<Opened>(disk_, request.share, std::move(open));
  if (request.method == "HEAD") {
    HttpResponse head{.content_type = "application/octet-stream", .length = static_cast<size_t>(opened.bytes)};
    co_await responder.Send(std::move(head));
    co_return;
  }
  if (request.memory.Resize(kPiecesHeld * kPieceBytes) != ByteBudget::Verdict::kTaken)
    throw ApiError(429, "the server's memory for requests is taken; try again later");
  std::string content_type = "application/octet-stream";
  co_await responder.BeginPieces(std::move(content_type));
  for (int64_t at = 0; at < opened.bytes && !responder.gone();) {
    std::function<std::string()> read = [file = opened.file, at, id] {
      return ReadAt(file->get(), at, kPieceBytes, "file " + id);
    };
    std::string piece = co_await OnDisk<std::string>(disk_, request.share, std::move(read));
    if (piece.empty()) throw ApiError(500, "the file is shorter than it was");
    at += static_cast<int64_t>(piece.size());
    co_await responder.Write(std::move(piece));
  }
  co_await responder.EndStream();
}

asio::awaitable<void> FilePages::Delete(HttpRequest& request, HttpResponder& responder) {
  const std::string id = IdIn(request);
  std::function<bool()> work = [this, client = request.client, id] {
    store_.DeleteFile(client, id);
    return true;
  };
  [[maybe_unused]] const bool done = co_await OnDisk<bool>(disk_, request.share, std::move(work));
  HttpResponse response = JsonResponse({{"id", id}, {"object", "file"}, {"deleted", true}});
  co_await responder.Send(std::move(response));
}

}  // namespace quire
