// Tests how many batches a BatchRunner works on at the same time, how much memory they take, and which requests run. No
// model answers in these tests: tests/e2e/batches_test.py runs batches on a server.
#include "coordinator/api/batches/batch_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace quire {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

/// A port that lets no request of a batch run. It calls `on_look` whenever the runner asks whether requests may run.
class DrainingPort : public LinePort {
 public:
  explicit DrainingPort(std::function<void()> on_look) : on_look_(std::move(on_look)) {}
  std::optional<HttpResponse> Admit(HttpRequest&) override { return ErrorResponse(503, "draining"); }
  asio::awaitable<void> Handle(HttpRequest&, HttpResponder&) override { co_return; }
  int num_pending_of_others() const override { return 0; }
  bool draining() const override {
    on_look_();
    return true;
  }

 private:
  std::function<void()> on_look_;
};

/// A port that answers requests whose body contains "short" immediately. Other requests run until the runner stops
/// them.
class HoldingPort : public LinePort {
 public:
  explicit HoldingPort(asio::io_context& io) : io_(io) {}
  std::optional<HttpResponse> Admit(HttpRequest&) override { return std::nullopt; }
  asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder) override {
    const std::string client = request.client;
    most_[client] = std::max(most_[client], ++running_[client]);
    if (request.body.find("short") == std::string::npos) {
      asio::steady_timer timer(io_, std::chrono::hours(1));
      responder.on_gone = [&timer] { timer.cancel(); };
      co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
      ++stopped_;
    } else {
      HttpResponse answer{.status = 200, .body = "{}"};
      co_await responder.Send(std::move(answer));
    }
    --running_[client];
  }
  int num_pending_of_others() const override { return others_; }
  bool draining() const override { return false; }

  int running(const std::string& client) { return running_[client]; }
  int most(const std::string& client) { return most_[client]; }
  int stopped() const { return stopped_; }
  void SetOthers(int others) { others_ = others; }

 private:
  asio::io_context& io_;
  std::map<std::string, int> running_, most_;
  int stopped_ = 0, others_ = 0;
};

class BatchRunnerTest : public testing::Test {
 protected:
  static constexpr int64_t kEnded = 1, kOpen = int64_t{1} << 40;  // ends of completion windows, in seconds since 1970

  BatchRunnerTest() {
    std::string name = fs::temp_directory_path() / "quire-batches-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    store_ = std::make_unique<BatchStore>(folder_ / "kept", StoreLimits(), [] { return 1; });
  }
  ~BatchRunnerTest() override {
    disk_.Stop();
    io_.reset();  // ends the coroutines, which use the runner
    runner_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }

  /// Creates a batch with `lines` equal requests.
  BatchRecord Create(const std::string& client, int64_t window_seconds, int lines = 1, const std::string& prompt = "") {
    const std::shared_ptr<FileDraft> draft = store_->BeginFile(client);
    for (int i = 0; i < lines; ++i) {
      store_->AppendTo(*draft, R"({"custom_id":")" + std::to_string(i) +
                                   R"(","method":"POST","url":"/v1/completions","body":{"prompt":")" + prompt +
                                   "\"}}\n");
    }
    const FileRecord file = store_->FinishFile(*draft, "in.jsonl", 0);
    return store_->CreateBatch(client, {"/v1/completions", file.id, "1s", window_seconds, {}, 0});
  }
  int64_t Count(BatchStatus status) const { return store_->totals().batches[static_cast<size_t>(status)]; }
  bool RunUntil(const std::function<bool()>& is_reached) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_reached()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (io_->run_one_for(std::chrono::milliseconds(10)) == 0) io_->restart();
    }
    return true;
  }
  /// Lets the runner run for a while.
  bool LookAgain() {
    int looks = 0;
    return RunUntil([&] { return ++looks > 50; });
  }
  void Begin(LinePort& port) {
    runner_ = std::make_unique<BatchRunner>(*store_, disk_, memory_, 4, [](const std::string&) { return true; });
    runner_->Begin(io_->get_executor(), port);
  }
  void Begin() { Begin(port_); }
  std::string WhyWaiting(const BatchRecord& batch) const {
    BatchView view = batch.ToView();
    runner_->Complete(view);
    return view.why_waiting;
  }

  fs::path folder_;
  std::unique_ptr<BatchStore> store_;
  ByteBudget memory_{{.in_all = int64_t{1} << 30, .per_client = int64_t{1} << 29}};
  int64_t most_memory_ = 0;
  DrainingPort port_{[this] { most_memory_ = std::max(most_memory_, memory_.taken()); }};
  WorkPool disk_{{.threads = 1, .large_bytes = SIZE_MAX}};
  std::unique_ptr<asio::io_context> io_ = std::make_unique<asio::io_context>(1);
  HoldingPort holding_port_{*io_};
  std::unique_ptr<BatchRunner> runner_;
};

TEST_F(BatchRunnerTest, ExpiredBatches_AreReadOneAtATime_WhenTheyBelongToOneClient) {
  for (int i = 0; i < 20; ++i) Create("anna", kEnded);
  const int64_t scan_bytes = store_->Unfinished().front().scan_bytes;
  Begin();
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kExpired) == 20 && memory_.taken() == 0; }));
  EXPECT_EQ(most_memory_, scan_bytes);
}

TEST_F(BatchRunnerTest, ExpiredBatches_AreReadFourAtATime_WhenTheyBelongToManyClients) {
  for (int i = 0; i < 30; ++i) Create("client-" + std::to_string(i % 10), kEnded);
  const int64_t scan_bytes = store_->Unfinished().front().scan_bytes;
  Begin();
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kExpired) == 30 && memory_.taken() == 0; }));
  EXPECT_EQ(most_memory_, 4 * scan_bytes);
}

TEST_F(BatchRunnerTest, ExpiredBatch_Ends_WhileAnOlderBatchOfItsClientRuns) {
  Create("anna", kOpen);
  Create("anna", kEnded);
  Begin();
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kExpired) == 1 && Count(BatchStatus::kInProgress) == 1; }));
}

TEST_F(BatchRunnerTest, CancelledBatches_EndWithoutBeingRead) {
  for (int i = 0; i < 90; ++i) {
    const BatchRecord batch = Create("anna", i % 2 == 0 ? kEnded : kOpen);
    store_->CancelBatch("anna", batch.id);
  }
  Begin();
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kCancelled) == 90; }));
  EXPECT_EQ(most_memory_, 0);
}

TEST_F(BatchRunnerTest, Runner_RunsOneBatchOfEachClient_AndAtMostSixteenInAll) {
  for (int i = 0; i < 40; ++i) Create("client-" + std::to_string(i % 20), kOpen);
  Begin();
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kInProgress) == 16; }));
  runner_->Wake();
  EXPECT_TRUE(LookAgain());
  EXPECT_EQ(Count(BatchStatus::kInProgress), 16);
  EXPECT_EQ(memory_.taken(), static_cast<int64_t>(16 * sizeof(LinePlace))) << "of each, the request without a result";
}

TEST_F(BatchRunnerTest, Batch_WaitsForMemory_WhenItsClientHasNone) {
  memory_.SetLimits({.in_all = 100, .per_client = 100});
  const BatchRecord batch = Create("anna", kOpen);
  Begin();
  EXPECT_TRUE(RunUntil([&] { return WhyWaiting(batch) == "its requests find no room in the memory of requests"; }));
  EXPECT_EQ(Count(BatchStatus::kValidating), 1);
  memory_.SetLimits({.in_all = 1 << 20, .per_client = 1 << 20});
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kInProgress) == 1; }));
}

TEST_F(BatchRunnerTest, ExpiredBatch_EndsUnread_WhenItsClientCanNeverHaveTheMemory) {
  memory_.SetLimits({.in_all = 100, .per_client = 100});
  const BatchRecord batch = Create("anna", kEnded);
  Begin();
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kExpired) == 1; }));
  disk_.Stop();
  const BatchRecord ended = store_->FindBatch("anna", batch.id);
  ASSERT_EQ(ended.faults.size(), 1u);
  EXPECT_EQ(ended.faults[0].code, "batch_expired");
}

TEST_F(BatchRunnerTest, BatchOfShortRequests_Ends_WhileAnotherClientsRequestsHoldAllPlaces) {
  Create("mallory", kOpen, 30);
  Begin(holding_port_);
  ASSERT_TRUE(RunUntil([&] { return holding_port_.running("mallory") == 4; }));
  Create("bob", kOpen, 9, "short");
  runner_->Wake();
  EXPECT_TRUE(RunUntil([&] { return Count(BatchStatus::kCompleted) == 1; }));
  EXPECT_GE(holding_port_.stopped(), 1);
  EXPECT_TRUE(RunUntil([&] { return holding_port_.running("mallory") == 4; })) << "stopped requests run again";
  EXPECT_EQ(holding_port_.most("mallory"), 4);
}

TEST_F(BatchRunnerTest, Batches_RunEqualNumbersOfRequests_WhenTheRequestsOfBothClientsAreLong) {
  Create("mallory", kOpen, 30);
  Begin(holding_port_);
  ASSERT_TRUE(RunUntil([&] { return holding_port_.running("mallory") == 4; }));
  Create("bob", kOpen, 30);
  runner_->Wake();
  EXPECT_TRUE(RunUntil([&] { return holding_port_.running("bob") == 2; }));
  EXPECT_TRUE(LookAgain());
  EXPECT_EQ(holding_port_.running("mallory"), 2);
  EXPECT_EQ(holding_port_.running("bob"), 2);
  EXPECT_EQ(holding_port_.stopped(), 2) << "no more requests are stopped than bob's batch needs";
}

TEST_F(BatchRunnerTest, Batches_KeepTheirOnlyRequest_WhenThereAreMoreClientsThanPlaces) {
  for (int i = 0; i < 5; ++i) Create("client-" + std::to_string(i), kOpen, 30);
  Begin(holding_port_);
  ASSERT_TRUE(RunUntil([&] { return runner_->in_flight() == 4; }));
  EXPECT_TRUE(LookAgain());
  EXPECT_EQ(runner_->in_flight(), 4);
  EXPECT_LE(holding_port_.stopped(), 3) << "stopped only while one client alone was ready";
}

TEST_F(BatchRunnerTest, BatchOfEachClient_RunsOneRequest_WhileOtherRequestsRun) {
  holding_port_.SetOthers(1);
  Create("mallory", kOpen, 30);
  Begin(holding_port_);
  ASSERT_TRUE(RunUntil([&] { return holding_port_.running("mallory") == 1; }));
  Create("bob", kOpen, 30);
  runner_->Wake();
  EXPECT_TRUE(RunUntil([&] { return holding_port_.running("bob") == 1; }));
  EXPECT_TRUE(LookAgain());
  EXPECT_EQ(runner_->in_flight(), 2);
}

}  // namespace
}  // namespace quire
