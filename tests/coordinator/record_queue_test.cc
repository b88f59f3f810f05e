#include "coordinator/journal/record_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/gated_sink.h"

namespace quire {
namespace {

const std::vector<std::byte> kTenBytes(10);

void AwaitIdle(const RecordQueue& queue) {
  while (!queue.idle()) std::this_thread::yield();
}

TEST(RecordQueueTest, Destructor_WritesAllRecordsAndClosesTheSink) {
  /// A sink that records all its calls, and its destruction, in a text.
  struct Keeper : RecordSink {
    explicit Keeper(std::string& to) : all(to) {}
    ~Keeper() override { all += "closed"; }
    void Append(uint8_t type, std::span<const std::byte>) override { all += std::to_string(type) + " "; }
    void StartSegment() override { all += "| "; }
    void Flush() override { all += "flush "; }
    const std::string& error() const override { return none; }
    std::string& all;
    std::string none;
  };
  std::string all;
  {
    RecordQueue queue(std::make_unique<Keeper>(all), 1000);
    EXPECT_TRUE(queue.Append(1, kTenBytes));
    queue.Flush();
    EXPECT_TRUE(queue.Append(2, kTenBytes));
    queue.StartSegment();
    queue.AppendToNewSegment(3, kTenBytes);
  }
  EXPECT_EQ(all, "1 flush 2 flush | 3 flush closed");
}

TEST(RecordQueueTest, Append_DoesNotBlock_AndLosesRecordsWithoutRoom_WhenTheSinkStalls) {
  auto sink = std::make_unique<test::GatedSink>();
  test::GatedSink& disk = *sink;
  RecordQueue queue(std::move(sink), 100);
  disk.Close();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(queue.Append(1, kTenBytes));
  queue.Flush();
  EXPECT_FALSE(queue.Append(1, kTenBytes));
  EXPECT_FALSE(queue.Append(1, kTenBytes));
  queue.AppendToNewSegment(1, kTenBytes);
  EXPECT_EQ(queue.num_lost(), 2u);
  EXPECT_EQ(queue.waiting_bytes(), 110u);
  EXPECT_FALSE(queue.idle());
  disk.Open();
  queue.Flush();
  AwaitIdle(queue);
  EXPECT_EQ(disk.num_records(), 11);
  EXPECT_EQ(queue.waiting_bytes(), 0u);
  EXPECT_TRUE(queue.Append(1, kTenBytes));
  EXPECT_EQ(queue.error(), "");
}

TEST(RecordQueueTest, Error_IsReportedUntilTheNextSegment_WhenTheSinkRefusesARecord) {
  auto sink = std::make_unique<test::GatedSink>();
  test::GatedSink& disk = *sink;
  RecordQueue queue(std::move(sink), 1000);
  queue.Append(1, kTenBytes);
  queue.Flush();
  AwaitIdle(queue);
  disk.Close();
  disk.Refuse("no space");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Append(1, kTenBytes));
  queue.Flush();
  disk.Open();
  AwaitIdle(queue);
  EXPECT_EQ(queue.error(), "no space");
  EXPECT_EQ(queue.num_lost(), 3u);
  EXPECT_FALSE(queue.Append(1, kTenBytes));
  queue.Lose();
  EXPECT_EQ(queue.num_lost(), 5u);
  disk.Refuse("");
  queue.Restart();
  EXPECT_TRUE(queue.Append(1, kTenBytes));
  queue.Flush();
  AwaitIdle(queue);
  EXPECT_EQ(queue.error(), "");
  EXPECT_EQ(disk.num_records(), 2);
  EXPECT_EQ(queue.num_lost(), 5u);
}

TEST(RecordQueueTest, BufferedRecords_AreLost_WhenTheFlushFails) {
  /// A sink that accepts records and fails at the flush.
  struct Buffering : RecordSink {
    void Append(uint8_t, std::span<const std::byte>) override {}
    void StartSegment() override {}
    void Flush() override { words = "broken"; }
    const std::string& error() const override { return words; }
    std::string words;
  };
  RecordQueue queue(std::make_unique<Buffering>(), 1000);
  for (int i = 0; i < 4; ++i) queue.Append(1, kTenBytes);
  queue.Flush();
  AwaitIdle(queue);
  EXPECT_EQ(queue.num_lost(), 4u);
  EXPECT_EQ(queue.error(), "broken");
}

}  // namespace
}  // namespace quire
