// Tests how a rank reads LoRA adapters while it serves.
#include "worker/serve/adapter_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>

#include "tests/support/thread_collectives.h"
#include "worker/cpu/cpu_engine.h"

namespace quire {
namespace {

using testing::HasSubstr;

class AdapterLoaderTest : public testing::Test {
 protected:
  AdapterMessage Order(uint64_t ticket, const std::string& adapter, int number = kMostListedAdapters + 1) const {
    const std::string path = std::string(QUIRE_TEST_DATA) + "/adapters/" + adapter;
    const AdapterFiles files = AdapterFiles::Open(path, base_);
    return {ticket, number, path, files.fingerprint(), files.file_bytes()};
  }
  /// Waits until the loader has read the adapters of `count` orders in total; returns its reports.
  std::vector<AdapterReady> Reports(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(read_.wait_for(lock, std::chrono::seconds(30), [&] { return num_read_ >= count; }));
    return loader_->TakeReports();
  }
  int64_t bytes() const { return executor_.engine().weight_bytes() - plain_bytes_; }

  ModelFiles base_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/gqa");
  EngineSizes sizes_{16, 64, 8, 200, 1, {1}};
  std::vector<std::unique_ptr<Collective>> collectives_ = MakeThreadCollectives(1);
  StepExecutor executor_{base_.spec(), sizes_, 0, MakeCpuEngine(base_, sizes_, *collectives_[0])};
  int64_t plain_bytes_ = executor_.engine().weight_bytes();
  std::mutex mutex_;
  std::condition_variable read_;
  int num_read_ = 0;
  std::unique_ptr<AdapterLoader> loader_ = std::make_unique<AdapterLoader>(base_, executor_, [this] {
    const std::lock_guard lock(mutex_);
    ++num_read_;
    read_.notify_all();
  });
};

TEST_F(AdapterLoaderTest, Adapter_IsInUse_OnceItsReportIsTaken_UntilItsTicketIsWithdrawn) {
  loader_->Follow(Order(1, "gqa_all"));
  EXPECT_EQ(bytes(), 0);
  const std::vector<AdapterReady> reports = Reports(1);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].ticket, 1u);
  EXPECT_EQ(reports[0].problem, "");
  EXPECT_EQ(static_cast<int64_t>(reports[0].bytes), bytes());
  EXPECT_GT(bytes(), 0);
  loader_->Follow({.ticket = 2});
  EXPECT_GT(bytes(), 0) << "another ticket";
  loader_->Follow({.ticket = 1});
  EXPECT_EQ(bytes(), 0);
  EXPECT_TRUE(loader_->TakeReports().empty());
}

TEST_F(AdapterLoaderTest, Adapter_IsNeverInUse_WhenItIsWithdrawnWhileItIsRead) {
  loader_->Follow(Order(1, "gqa_all"));
  loader_->Follow({.ticket = 1});
  loader_->Follow(Order(2, "gqa_layers", kMostListedAdapters + 2));
  const std::vector<AdapterReady> reports = Reports(2);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].ticket, 2u);
  EXPECT_EQ(static_cast<int64_t>(reports[0].bytes), bytes());
}

TEST_F(AdapterLoaderTest, EarlierTicket_DoesNotDropTheAdapter_LoadedLaterUnderTheSameNumber) {
  loader_->Follow(Order(1, "gqa_all"));
  loader_->Follow(Order(2, "gqa_all"));
  EXPECT_EQ(Reports(2).size(), 2u);
  const int64_t both = bytes();
  loader_->Follow({.ticket = 1});
  EXPECT_EQ(bytes(), both);
  loader_->Follow({.ticket = 2});
  EXPECT_EQ(bytes(), 0);
}

TEST_F(AdapterLoaderTest, Files_AreRefused_WhenTheyDifferFromTheCoordinators) {
  AdapterMessage other = Order(1, "gqa_all"), larger = Order(2, "gqa_all"), missing = Order(3, "gqa_all"),
                 foreign = Order(4, "gqa_all");
  other.fingerprint = "0";
  larger.file_bytes -= 1;
  missing.path = "/none";
  foreign.path = std::string(QUIRE_TEST_DATA) + "/adapters/qwen2_all";
  foreign.file_bytes = 1 << 30;
  for (const AdapterMessage& order : {other, larger, missing, foreign}) loader_->Follow(order);
  const std::vector<AdapterReady> reports = Reports(4);
  ASSERT_EQ(reports.size(), 4u);
  const char* words[] = {"differs from the coordinator's", "at most", "/none", "tensor base_model.model."};
  for (size_t i = 0; i < 4; ++i) EXPECT_THAT(reports[i].problem, HasSubstr(words[i]));
  EXPECT_EQ(bytes(), 0);
}

}  // namespace
}  // namespace quire
