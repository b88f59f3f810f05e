#include "coordinator/api/batches/batch_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "comm/base/error.h"
#include "coordinator/api/batches/batch_terms.h"
#include "coordinator/api/batches/record_list.h"
#include "coordinator/batches/batch_line.h"
#include "coordinator/http/api_error.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

std::string RequestLine(const std::string& id, const std::string& url = "/v1/completions") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":")" + url + R"(","body":{"prompt":"a"}})";
}

/// A store in a directory of its own. Tests can close the store as a kill would, and open it again.
class BatchStoreTest : public testing::Test {
 protected:
  BatchStoreTest() {
    std::string name = fs::temp_directory_path() / "quire-batches-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    Open();
  }
  ~BatchStoreTest() override {
    store_.reset();
    fs::remove_all(folder_);
  }
  void Open() {
    store_.reset();
    store_ = std::make_unique<BatchStore>(dir(), limits_, [this] { return now_; });
  }
  std::string dir() const { return folder_ / "kept"; }
  BatchStore& store() { return *store_; }

  FileRecord Add(const std::string& client, const std::string& content, int64_t keep_seconds = 0) {
    const std::shared_ptr<FileDraft> draft = store().BeginFile(client);
    store().AppendTo(*draft, content);
    return store().FinishFile(*draft, "in.jsonl", keep_seconds);
  }
  std::string ContentOf(const FileRecord& file) {
    const Descriptor open = store().OpenFile(file);
    return ReadAt(open.get(), 0, 1 << 20, "file");
  }
  BatchRecord Create(const std::string& client, const std::string& content) {
    return store().CreateBatch(
        client, {"/v1/completions", Add(client, content).id, "24h", 24 * 3600, Json{{"for", "a test"}}, 0});
  }
  /// Reads a batch's whole input.
  std::unique_ptr<InputScan> Scanned(const std::string& id) {
    std::unique_ptr<InputScan> scan = store().Scan(id);
    while (!scan->Continue(1)) {
    }
    return scan;
  }
  int64_t BytesOnDisk() const {
    int64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(dir())) bytes += static_cast<int64_t>(entry.file_size());
    return bytes;
  }
  static int64_t ModeOf(const std::string& path) {
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : -1;
  }
  static int StatusOf(const std::function<void()>& action) {
    try {
      action();
    } catch (const ApiError& error) {
      return error.status;
    }
    return 200;
  }

  StoreLimits limits_;
  int64_t now_ = 1'000'000;
  fs::path folder_;
  std::unique_ptr<BatchStore> store_;
};

TEST_F(BatchStoreTest, Files_AreVisibleToTheirClientOnly_AlsoAfterARestart) {
  const FileRecord mine = Add("anna", "one\ntwo\n");
  Open();
  EXPECT_EQ(ContentOf(store().FindFile("anna", mine.id)), "one\ntwo\n");
  EXPECT_EQ(store().FilesOf("anna").size(), 1u);
  EXPECT_EQ(store().FilesOf("bert").size(), 0u);
  EXPECT_EQ(StatusOf([&] { store().FindFile("bert", mine.id); }), 404);
  EXPECT_EQ(StatusOf([&] { store().DeleteFile("bert", mine.id); }), 404);
  store().DeleteFile("anna", mine.id);
  EXPECT_EQ(StatusOf([&] { store().FindFile("anna", mine.id); }), 404);
  EXPECT_FALSE(fs::exists(dir() + "/" + mine.id));
  Open();
  EXPECT_EQ(store().FilesOf("anna").size(), 0u);
}

TEST_F(BatchStoreTest, DirectoryAndFiles_AreAccessibleToTheirOwnerOnly) {
  Create("anna", RequestLine("a") + "\n");
  EXPECT_EQ(ModeOf(dir()), 0700);
  for (const auto& entry : fs::directory_iterator(dir())) EXPECT_EQ(ModeOf(entry.path()), 0600) << entry.path();
}

TEST_F(BatchStoreTest, Open_RefusesADirectory_ThatIsLockedOrALinkOrReadableByOthers) {
  EXPECT_THROW(BatchStore(dir(), limits_, [] { return 0; }), Error) << "another server has it";
  const std::string open = folder_ / "open";
  fs::create_directory(open);
  ::chmod(open.c_str(), 0755);
  EXPECT_THROW(BatchStore(open, limits_, [] { return 0; }), Error);
  fs::create_directory_symlink(dir(), folder_ / "link");
  EXPECT_THROW(BatchStore(folder_ / "link", limits_, [] { return 0; }), Error);
}

TEST_F(BatchStoreTest, OpenFile_FollowsNoLink_InPlaceOfAFile) {
  const FileRecord file = Add("anna", "text");
  std::ofstream(folder_ / "secret") << "secret";
  fs::remove(dir() + "/" + file.id);
  fs::create_symlink(folder_ / "secret", dir() + "/" + file.id);
  EXPECT_THROW(store().OpenFile(file), Error);
}

TEST_F(BatchStoreTest, DeletedFile_TakesNoRoom_WhileAReaderStillHasItOpen) {
  const FileRecord file = Add("anna", std::string(100'000, 'x'));
  const Descriptor reader = store().OpenFile(file);
  store().DeleteFile("anna", file.id);
  struct stat info;
  ASSERT_EQ(::fstat(reader.get(), &info), 0);
  EXPECT_EQ(info.st_size, 0);
  EXPECT_EQ(ReadAt(reader.get(), 0, 10, "file"), "");
  EXPECT_EQ(store().totals().bytes, 0);
}

TEST_F(BatchStoreTest, UnfinishedFiles_AreRemoved_AtAStartAndWhenTheClientLeaves) {
  {
    const auto draft = store().BeginFile("anna");
    store().AppendTo(*draft, "half");
    std::ofstream(dir() + "/file-0123.tmp") << "left over by a kill";
    std::ofstream(dir() + "/file-4567") << "content without a record";
  }
  Open();
  for (const auto& entry : fs::directory_iterator(dir())) EXPECT_EQ(entry.path().filename(), "lock");
}

TEST_F(BatchStoreTest, Files_AreRefused_BeyondTheLimits) {
  limits_.bytes = 100'000;
  limits_.file_bytes = 60'000;
  limits_.files = 4;
  Open();
  EXPECT_EQ(StatusOf([&] { Add("", std::string(60'001, 'x')); }), 413);
  Add("", std::string(60'000, 'x'));
  EXPECT_EQ(StatusOf([&] { Add("", std::string(40'001, 'x')); }), 400);
  Add("", std::string(static_cast<size_t>(100'000 - store().totals().bytes - 1000), 'x'));
  Add("", "y");
  EXPECT_EQ(StatusOf([&] { Add("", std::string(1000, 'x')); }), 400) << "no room at all";
  while (!store().FilesOf("").empty()) store().DeleteFile("", std::string(store().FilesOf("").front()->id));
  EXPECT_EQ(store().totals().bytes, 0);
  Add("anna", std::string(49'000, 'x'));
  EXPECT_EQ(StatusOf([&] { Add("anna", std::string(1000, 'x')); }), 400) << "a key has half of the bytes";
  Add("bert", "y");
  Add("bert", "y");
  EXPECT_EQ(StatusOf([&] { Add("bert", "y"); }), 400) << "and half of the files";
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
}

TEST_F(BatchStoreTest, UnfinishedUploads_CountTowardsTheByteLimit) {
  limits_.bytes = 100;
  Open();
  const auto one = store().BeginFile(""), two = store().BeginFile("");
  store().AppendTo(*one, std::string(60, 'x'));
  EXPECT_EQ(StatusOf([&] { store().AppendTo(*two, std::string(41, 'x')); }), 400);
  store().AppendTo(*two, std::string(40, 'x'));
}

TEST_F(BatchStoreTest, Usage_CountsUnfinishedUploads_AgainstTheHalfThatAKeyMayUse) {
  limits_.bytes = 100'000;
  Open();
  auto one = store().BeginFile("anna");
  const auto two = store().BeginFile("anna");
  store().AppendTo(*one, std::string(30'000, 'x'));
  EXPECT_EQ(StatusOf([&] { store().AppendTo(*two, std::string(20'001, 'x')); }), 400);
  store().AppendTo(*two, std::string(20'000, 'x'));
  EXPECT_EQ(StatusOf([&] { (void)store().BeginFile("anna"); }), 400);
  EXPECT_FALSE(store().HasRoom("anna"));
  EXPECT_TRUE(store().HasRoom("bert"));
  Add("bert", std::string(40'000, 'x'));
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  one = nullptr;
  EXPECT_TRUE(store().HasRoom("anna"));
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
}

TEST_F(BatchStoreTest, Usage_CountsResults_AgainstTheHalfThatAKeyMayUse) {
  limits_.bytes = 100'000;
  Open();
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n" + RequestLine("b") + "\n");
  (void)store().Validated(batch.id, *Scanned(batch.id));
  const std::string answer = '"' + std::string(60'000, 'x') + '"';
  store().Record(batch.id, true, {BatchAnswerLine("batch_req_1", "a", 200, "req", answer)});
  EXPECT_FALSE(store().HasRoom("anna"));
  EXPECT_TRUE(store().HasRoom("bert"));
  EXPECT_EQ(StatusOf([&] { Add("anna", "y"); }), 400);
  EXPECT_EQ(StatusOf([&] { Create("anna", "y"); }), 400);
  Create("bert", RequestLine("a") + "\n");
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  store().Finish(batch.id, BatchStatus::kCancelled);
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  Open();
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  EXPECT_FALSE(store().HasRoom("anna")) << "results count after a start, too";
  store().DeleteFile("anna", store().FindBatch("anna", batch.id).output_file_id);
  EXPECT_TRUE(store().HasRoom("anna"));
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
}

TEST_F(BatchStoreTest, Usage_CountsEveryRecord_UntilTheRecordIsForgotten) {
  const BatchRecord batch = Create("anna", "x\n");
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  (void)store().Validated(batch.id, *Scanned(batch.id));
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  now_ += 2 * limits_.keep_seconds;
  store().Prune();
  EXPECT_EQ(store().totals().bytes, 0);
  limits_.bytes = 1000;
  Open();
  const FileRecord file = Add("", "x");
  const BatchTerms terms{"/v1/completions", file.id, "24h", 24 * 3600, Json{{"a", std::string(512, 'x')}}, 0};
  EXPECT_EQ(StatusOf([&] { store().CreateBatch("", terms); }), 400) << "records count to the bytes";
}

TEST_F(BatchStoreTest, Result_HoldsSpilledText_BetweenBeginAndEndOfTheLine) {
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n");
  (void)store().Validated(batch.id, *Scanned(batch.id));
  std::shared_ptr<FileDraft> spilled = store().BeginSpill("anna");
  const std::string text(700'000, 'x');
  spilled->Append("\"");
  spilled->Append(text);
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  store().Record(batch.id, true,
                 {BatchAnswerBegin("batch_req_1", "a", 200, "req"), spilled, "\"" + std::string(kBatchAnswerEnd)});
  spilled = nullptr;
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  store().Finish(batch.id, BatchStatus::kCompleted);
  const std::string line = ContentOf(store().FindFile("anna", store().FindBatch("anna", batch.id).output_file_id));
  EXPECT_EQ(line, BatchAnswerLine("batch_req_1", "a", 200, "req", '"' + text + '"') + "\n");
}

TEST_F(BatchStoreTest, FilesAndBatches_AreDeleted_WhenTheyExpire) {
  const FileRecord brief = Add("anna", "text", 3600);
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n");
  now_ += 3600;
  store().Prune();
  EXPECT_EQ(StatusOf([&] { store().FindFile("anna", brief.id); }), 404);
  now_ += limits_.keep_seconds;
  store().Prune();
  EXPECT_EQ(store().FindFile("anna", batch.input_file_id).id, batch.input_file_id) << "a batch still reads it";
  store().Finish(batch.id, BatchStatus::kExpired);
  now_ += limits_.keep_seconds;
  store().Prune();
  EXPECT_EQ(StatusOf([&] { store().FindBatch("anna", batch.id); }), 404);
  EXPECT_EQ(store().FilesOf("anna").size(), 0u);
}

TEST_F(BatchStoreTest, InputFaults_AreReported_WithTheirLines) {
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n\n{oops\n" + RequestLine("a") + "\n" +
                                               RequestLine("b", "/v1/embeddings") + "\n{\"custom_id\":\"c\"}\n" +
                                               R"({"custom_id":"d","url":"/v1/completions","body":{"stream":true}})");
  const BatchRecord failed = store().Validated(batch.id, *Scanned(batch.id));
  EXPECT_EQ(failed.status, BatchStatus::kFailed);
  std::vector<std::pair<int64_t, std::string>> told;
  for (const BatchFault& fault : failed.faults) told.emplace_back(fault.line, fault.code);
  const std::vector<std::pair<int64_t, std::string>> wanted = {{3, "invalid_json_line"},
                                                               {4, "duplicate_custom_id"},
                                                               {5, "mismatched_endpoint"},
                                                               {6, "missing_required_parameter"},
                                                               {7, "invalid_value"}};
  EXPECT_EQ(told, wanted);
  EXPECT_EQ(failed.ToPublic()["errors"]["data"][0]["line"], 3);
  Open();
  EXPECT_EQ(store().FindBatch("anna", batch.id).faults.size(), wanted.size());
}

TEST_F(BatchStoreTest, Batch_Fails_WhenItsInputIsEmptyOrTooLong) {
  limits_.requests = 2;
  limits_.line_bytes = 100;
  Open();
  const auto code = [&](const std::string& content) {
    const BatchRecord batch = Create("", content);
    const BatchRecord read = store().Validated(batch.id, *Scanned(batch.id));
    return read.faults.empty() ? "" : read.faults.front().code;
  };
  EXPECT_EQ(code(""), "empty_file");
  EXPECT_EQ(code("\n \n"), "empty_file");
  EXPECT_EQ(code(RequestLine("a") + "\n" + RequestLine("b") + "\n" + RequestLine("c")), "too_many_tasks");
  EXPECT_EQ(code(std::string(101, ' ') + "\n" + RequestLine("a")), "line_too_long");
  EXPECT_EQ(code(RequestLine("a") + "\r\n" + RequestLine("b")), "");
}

TEST_F(BatchStoreTest, Scan_ReturnsOnlyRequestsWithoutResult_AfterAKill) {
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n" + RequestLine("b") + "\n" + RequestLine("c") + "\n");
  {
    const auto scan = Scanned(batch.id);
    ASSERT_EQ(scan->pending().size(), 3u);
    EXPECT_EQ(store().Validated(batch.id, *scan).status, BatchStatus::kInProgress);
    EXPECT_EQ(store().ReadLine(batch.id, scan->pending()[1]), RequestLine("b"));
  }
  store().Record(batch.id, true, {BatchAnswerLine("batch_req_1", "b", 200, "req", "{}")});
  {
    // Writes part of a line, as a process leaves it when the process is killed in the middle of a write.
    std::ofstream cut(dir() + "/" + batch.id + ".output", std::ios::app);
    cut << R"({"id":"batch_req_2","custom_id":"c","resp)";
  }
  Open();
  const auto scan = Scanned(batch.id);
  ASSERT_EQ(scan->pending().size(), 2u);
  EXPECT_EQ(scan->pending()[0].number, 1);
  EXPECT_EQ(scan->pending()[1].number, 3);
  EXPECT_EQ(store().Validated(batch.id, *scan).completed, 1);
  store().Record(batch.id, false, {BatchAnswerLine("batch_req_3", "a", 400, "req", "{}")});
  store().Record(batch.id, true, {BatchAnswerLine("batch_req_4", "c", 200, "req", "{}")});
  store().Finish(batch.id, BatchStatus::kCompleted);
  Open();
  const BatchRecord done = store().FindBatch("anna", batch.id);
  EXPECT_EQ(done.status, BatchStatus::kCompleted);
  EXPECT_EQ(done.ToPublic()["request_counts"], Json({{"total", 3}, {"completed", 2}, {"failed", 1}}));
  EXPECT_EQ(ContentOf(store().FindFile("anna", done.output_file_id)),
            BatchAnswerLine("batch_req_1", "b", 200, "req", "{}") + "\n" +
                BatchAnswerLine("batch_req_4", "c", 200, "req", "{}") + "\n");
  EXPECT_EQ(ContentOf(store().FindFile("anna", done.error_file_id)),
            BatchAnswerLine("batch_req_3", "a", 400, "req", "{}") + "\n");
  EXPECT_EQ(StatusOf([&] { store().FindFile("bert", done.output_file_id); }), 404);
}

/// The server may be killed at any point while a batch ends. The next start must then complete the batch as if nothing
/// had happened.
TEST_F(BatchStoreTest, FinalizingBatch_IsCompletedAtTheNextStart_AfterAKill) {
  for (const bool renamed : {false, true}) {
    const BatchRecord batch = Create("anna", RequestLine("a") + "\n");
    (void)store().Validated(batch.id, *Scanned(batch.id));
    const std::string line = BatchAnswerLine("batch_req_1", "a", 200, "req", "{}");
    store().Record(batch.id, true, {line});
    store().Finish(batch.id, BatchStatus::kCompleted);
    const BatchRecord done = store().FindBatch("anna", batch.id);
    store_.reset();
    // Restores the state that a kill leaves: the file's record is missing, and the batch is finalizing.
    BatchRecord finalizing = done;
    finalizing.status = BatchStatus::kFinalizing;
    std::ofstream(dir() + "/" + batch.id + ".json") << DumpJson(finalizing.ToJson());
    fs::remove(dir() + "/" + done.output_file_id + ".json");
    if (!renamed) fs::rename(dir() + "/" + done.output_file_id, dir() + "/" + batch.id + ".output");
    Open();
    EXPECT_EQ(store().FindBatch("anna", batch.id).status, BatchStatus::kCompleted);
    EXPECT_EQ(ContentOf(store().FindFile("anna", done.output_file_id)), line + "\n");
    EXPECT_FALSE(fs::exists(dir() + "/" + batch.id + ".output"));
  }
}

TEST_F(BatchStoreTest, UnexecutedRequests_AreRecordedAsErrors_WhenABatchExpires) {
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n" + RequestLine("b") + "\n");
  const auto scan = Scanned(batch.id);
  (void)store().Validated(batch.id, *scan);
  std::deque<LinePlace> pending = scan->pending();
  store().RecordExpired(batch.id, pending, 1);
  store().RecordExpired(batch.id, pending, 5);
  EXPECT_TRUE(pending.empty());
  store().Finish(batch.id, BatchStatus::kExpired);
  const BatchRecord done = store().FindBatch("anna", batch.id);
  EXPECT_EQ(done.failed, 2);
  EXPECT_EQ(done.output_file_id, "");
  EXPECT_EQ(done.ToPublic()["output_file_id"], Json());
  EXPECT_EQ(done.ToPublic()["expired_at"], now_);
  std::string errors = ContentOf(store().FindFile("anna", done.error_file_id));
  const Json first = ParseJson(errors.substr(0, errors.find('\n')), "the line");
  EXPECT_EQ(first["custom_id"], "a");
  EXPECT_EQ(first["response"], Json());
  EXPECT_EQ(first["error"]["code"], "batch_expired");
}

TEST_F(BatchStoreTest, ExpiredLines_AreLeftOutAndCounted_WhenThereIsNoRoom) {
  std::string content;
  for (int i = 0; i < 100; ++i) content += RequestLine(std::string(400, 'x') + std::to_string(i)) + "\n";
  limits_.bytes = static_cast<int64_t>(content.size()) + 30'000;
  Open();
  const BatchRecord batch = Create("", content);
  const auto scan = Scanned(batch.id);
  (void)store().Validated(batch.id, *scan);
  std::deque<LinePlace> pending = scan->pending();
  for (int calls = 0; !pending.empty() && calls < 20; ++calls) store().RecordExpired(batch.id, pending, 10);
  EXPECT_TRUE(pending.empty());
  store().Finish(batch.id, BatchStatus::kExpired);
  EXPECT_LE(store().totals().bytes, limits_.bytes);
  EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  const BatchRecord done = store().FindBatch("", batch.id);
  const std::string lines = ContentOf(store().FindFile("", done.error_file_id));
  const auto written = std::ranges::count(lines, '\n');
  EXPECT_GT(written, 20);
  EXPECT_LT(written, 80);
  EXPECT_EQ(done.status, BatchStatus::kExpired);
  EXPECT_EQ(done.failed, 100);
  ASSERT_EQ(done.faults.size(), 1u);
  EXPECT_EQ(done.faults[0].code, "batch_expired");
  EXPECT_TRUE(done.faults[0].message.starts_with(std::to_string(100 - written) + " requests"))
      << done.faults[0].message;
}

TEST_F(BatchStoreTest, ExpiredLines_AreAllLeftOut_WhenTheStoreIsFull) {
  limits_.bytes = 60'000;
  Open();
  const BatchRecord batch = Create("", RequestLine("a") + "\n" + RequestLine("b") + "\n");
  const auto scan = Scanned(batch.id);
  (void)store().Validated(batch.id, *scan);
  store().Record(batch.id, true,
                 {BatchAnswerLine("batch_req_1", "a", 200, "req", '"' + std::string(70'000, 'x') + '"')});
  const int64_t before = store().totals().bytes;
  std::deque<LinePlace> pending{scan->pending()[1]};
  store().RecordExpired(batch.id, pending, 10);
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(store().totals().bytes, before);
  store().Finish(batch.id, BatchStatus::kExpired);
  const BatchRecord done = store().FindBatch("", batch.id);
  EXPECT_EQ(done.error_file_id, "");
  EXPECT_EQ(done.ToPublic()["request_counts"], Json({{"total", 2}, {"completed", 1}, {"failed", 1}}));
  EXPECT_EQ(done.faults.size(), 1u);
}

TEST_F(BatchStoreTest, Faults_AreLeftOut_WhenTheRecordHasNoRoomForAllOfThem) {
  std::string content;
  for (int i = 0; i < 100; ++i) content += "{oops\n";
  limits_.bytes = static_cast<int64_t>(content.size()) + 5000;
  Open();
  const BatchRecord batch = Create("", content);
  const BatchRecord failed = store().Validated(batch.id, *Scanned(batch.id));
  EXPECT_EQ(failed.status, BatchStatus::kFailed);
  EXPECT_GE(failed.faults.size(), 1u);
  EXPECT_LT(failed.faults.size(), 100u);
  EXPECT_EQ(failed.faults[0].line, 1);
  EXPECT_LE(store().totals().bytes, limits_.bytes);
}

TEST_F(BatchStoreTest, Scan_FindsResultsByTheBeginningOfTheirLines_HoweverLongTheAnswers) {
  const std::string id = std::string(500, 'x'), other = std::string(500, 'x') + "y";
  const BatchRecord batch = Create("anna", RequestLine(id) + "\n" + RequestLine(other) + "\n");
  (void)store().Validated(batch.id, *Scanned(batch.id));
  const std::string answer = R"({"custom_id":")" + std::string(700'000, 'z') + R"("})";
  store().Record(batch.id, true, {BatchAnswerLine("batch_req_1", id, 200, "req", answer)});
  const auto scan = Scanned(batch.id);
  EXPECT_TRUE(scan->faults().empty());
  ASSERT_EQ(scan->pending().size(), 1u);
  EXPECT_EQ(scan->pending()[0].number, 2);
}

TEST(InputScan, MostBytes_GrowWithTheFile_AndStayBelowAnUpperBound) {
  const InputScan::Bounds bounds{.line_bytes = (2 << 20) + 4096, .requests = 50'000};
  EXPECT_LT(InputScan::MostBytes(1000, bounds), 10'000);
  EXPECT_EQ(InputScan::MostBytes(int64_t{200} << 20, bounds), InputScan::MostBytes(int64_t{100} << 20, bounds));
  EXPECT_LT(InputScan::MostBytes(int64_t{200} << 20, bounds), 9 << 20);
}

TEST_F(BatchStoreTest, CancelBatch_IsIdempotent_AndRefusedForEndedBatches) {
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n");
  EXPECT_EQ(StatusOf([&] { store().CancelBatch("bert", batch.id); }), 404);
  EXPECT_EQ(StatusOf([&] { store().DeleteFile("anna", batch.input_file_id); }), 400);
  EXPECT_EQ(store().CancelBatch("anna", batch.id).status, BatchStatus::kCancelling);
  now_ += 5;
  EXPECT_EQ(store().CancelBatch("anna", batch.id).status, BatchStatus::kCancelling);
  Open();
  ASSERT_EQ(store().Unfinished().size(), 1u);
  EXPECT_EQ(store().Unfinished().front().status, BatchStatus::kCancelling);
  store().Finish(batch.id, BatchStatus::kCancelled);
  const Json done = store().FindBatch("anna", batch.id).ToPublic();
  EXPECT_EQ(done["status"], "cancelled");
  EXPECT_EQ(done["cancelling_at"], 1'000'000);
  EXPECT_EQ(done["cancelled_at"], 1'000'005);
  EXPECT_EQ(StatusOf([&] { store().CancelBatch("anna", batch.id); }), 409);
  store().DeleteFile("anna", batch.input_file_id);
}

TEST_F(BatchStoreTest, OldestEndedBatch_IsForgotten_WhenThereAreTooManyBatches) {
  limits_.batches = 4;
  limits_.unfinished = 2;
  Open();
  const BatchRecord first = Create("anna", RequestLine("a") + "\n"), second = Create("anna", RequestLine("a") + "\n");
  EXPECT_EQ(StatusOf([&] { Create("anna", RequestLine("a") + "\n"); }), 429);
  store().Finish(second.id, BatchStatus::kCancelled);
  const BatchRecord third = Create("anna", RequestLine("a") + "\n");
  EXPECT_EQ(StatusOf([&] { store().FindBatch("anna", second.id); }), 404);
  const std::vector<const BatchRecord*> left = store().BatchesOf("anna");
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0]->id, first.id);
  EXPECT_EQ(left[1]->id, third.id);
}

TEST_F(BatchStoreTest, OldestEndedBatches_AreForgotten_WhenRecordsTakeTooManyBytes) {
  limits_.record_bytes = 16 << 10;  // a key may take half of them
  Open();
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) {
    const Json metadata = {{"note", std::string(4000, 'x')}};
    const FileRecord input = Add("anna", RequestLine("a") + "\n");
    ids.push_back(store().CreateBatch("anna", {"/v1/completions", input.id, "24h", 24 * 3600, metadata, 0}).id);
    store().Finish(ids.back(), BatchStatus::kCancelled);
  }
  std::vector<std::string> left;
  for (const BatchRecord* batch : store().BatchesOf("anna")) left.push_back(batch->id);
  EXPECT_EQ(left, std::vector(ids.end() - 2, ids.end())) << "each takes some 5 KiB";
}

TEST_F(BatchStoreTest, Scan_EndsReadingAnInput_AtTheHundredthFault) {
  std::string content;
  for (int i = 0; i < 20'000; ++i) content += "x\n";
  const BatchRecord batch = Create("anna", content);
  const auto scan = store().Scan(batch.id);
  EXPECT_TRUE(scan->Continue(1024));
  EXPECT_EQ(scan->total(), 100);
  EXPECT_EQ(store().Validated(batch.id, *scan).faults.size(), 100u);
}

TEST_F(BatchStoreTest, Scan_EndsReadingAnInput_WithTooManyLines) {
  limits_.requests = 10;
  Open();
  const auto failed = [&](const std::string& content) {
    const BatchRecord batch = Create("", content);
    return store().Validated(batch.id, *Scanned(batch.id)).faults.front();
  };
  EXPECT_EQ(failed(std::string(50'000, '\n')).code, "too_many_lines");
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += RequestLine(std::to_string(i)) + "\n";
  const BatchFault fault = failed(requests);
  EXPECT_EQ(fault.code, "too_many_tasks");
  EXPECT_EQ(fault.line, 11);
}

TEST_F(BatchStoreTest, Scan_ReadsAnInput_InStepsOfALimitedNumberOfBytes) {
  std::string content;
  for (int i = 0; i < 2000; ++i) content += RequestLine(std::to_string(i)) + "\n";
  const auto scan = store().Scan(Create("anna", content).id);
  EXPECT_FALSE(scan->Continue(4096));
  EXPECT_LT(scan->total(), 200);
}

TEST_F(BatchStoreTest, FaultMessages_AreCut_WhenTheyQuoteTheClient) {
  const std::string id = R"(\u0001\u0001)" + std::string(490, 'x') + "\u00e9\u00e9\u00e9";
  const BatchRecord batch = Create("anna", RequestLine(id) + "\n" + RequestLine(id) + "\n");
  const BatchFault fault = store().Validated(batch.id, *Scanned(batch.id)).faults.front();
  EXPECT_EQ(fault.code, "duplicate_custom_id");
  EXPECT_LT(fault.message.size(), 320u);
  EXPECT_NE(fault.message.find(R"(\x01\x01xx)"), std::string::npos) << fault.message;
}

TEST_F(BatchStoreTest, Lists_ShowOneFault_OfEachBatch) {
  const BatchRecord batch = Create("anna", "x\ny\nz\n");
  const BatchRecord failed = store().Validated(batch.id, *Scanned(batch.id));
  const Json page = ParseJson(PageOfRecords(store().BatchesOf("anna"), {.limit = 5}), "the page");
  EXPECT_EQ(page["data"][0]["errors"]["data"].size(), 1u);
  EXPECT_EQ(page["first_id"], batch.id);
  EXPECT_EQ(page["last_id"], batch.id);
  EXPECT_EQ(page["has_more"], false);
  EXPECT_EQ(failed.ToPublic()["errors"]["data"].size(), 3u);
}

TEST_F(BatchStoreTest, Start_SetsDamagedRecordsAside) {
  const FileRecord good = Add("anna", "good"), cut = Add("anna", "text"), foreign = Add("anna", "more");
  const BatchRecord batch = Create("anna", RequestLine("a") + "\n");
  store_.reset();
  std::ofstream(dir() + "/" + cut.id + ".json") << "{\"id\":";
  std::ofstream(dir() + "/" + foreign.id + ".json") << DumpJson(good.ToJson());
  std::ofstream(dir() + "/" + batch.id + ".json") << std::string((1 << 20) + 1, ' ');
  std::ofstream(dir() + "/" + batch.id + ".output") << "{}\n";
  for (int start = 0; start < 2; ++start) {
    Open();
    EXPECT_EQ(ContentOf(store().FindFile("anna", good.id)), "good");
    EXPECT_EQ(store().FilesOf("anna").size(), 2u) << "and the batch's input";
    EXPECT_EQ(store().BatchesOf("anna").size(), 0u);
    for (const std::string& name : {cut.id, foreign.id, batch.id + ".output"})
      EXPECT_TRUE(fs::exists(dir() + "/" + name));
    for (const std::string& id : {cut.id, foreign.id, batch.id}) {
      EXPECT_FALSE(fs::exists(dir() + "/" + id + ".json"));
      EXPECT_TRUE(fs::exists(dir() + "/" + id + ".json.damaged"));
    }
    EXPECT_EQ(store().totals().bytes, BytesOnDisk());
  }
}

TEST(BatchTerms, CompletionWindow_IsRefused_UnlessItIsAShortTextOfAtMost30Days) {
  const auto status = [](const std::string& window) {
    try {
      const Json body = {{"input_file_id", "f"}, {"endpoint", "/v1/completions"}, {"completion_window", window}};
      return static_cast<int>(ReadBatchTerms(DumpJson(body)).window_seconds);
    } catch (const ApiError& error) {
      return error.status;
    }
  };
  EXPECT_EQ(status("24h"), 24 * 3600);
  EXPECT_EQ(status("2592000s"), 30 * 24 * 3600);
  for (const std::string& bad : {std::string(2'000'000, '0') + "24h", std::string("00000024h"), std::string("31d"),
                                 std::string("0s"), std::string("24"), std::string("+24h"), std::string()})
    EXPECT_EQ(status(bad), 400) << bad.substr(0, 20);
}

}  // namespace
}  // namespace quire
