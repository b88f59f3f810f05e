#include "coordinator/journal/record_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "comm/base/error.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kSegmentHead = 20, kRecordHead = 9;
constexpr int64_t kRingMiB = int64_t{1} << 20;

using Content = std::vector<std::pair<int, std::string>>;  // (type, payload) of each record

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Reads the remaining records of an open segment.
Content Rest(RecordReader& reader) {
  Content records;
  while (const auto record = reader.Next())
    records.emplace_back(record->type,
                         std::string(reinterpret_cast<const char*>(record->payload.data()), record->payload.size()));
  return records;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

class RecordRingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "quire-ring-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
    journal_ = name + "/journal";
  }
  void TearDown() override { fs::remove_all(base_); }

  fs::path Segment(uint64_t number) const { return fs::path(journal_) / fmt::format("segment-{:012}.qj", number); }

  void Write(const Content& records) const {
    RecordWriter writer(journal_, kRingMiB, 4 * kRingMiB);
    for (const auto& [type, payload] : records) writer.Append(static_cast<uint8_t>(type), BytesOf(payload));
  }

  Content Read(uint64_t segment) const {
    RecordReader reader(journal_);
    reader.Open(segment);
    Content records = Rest(reader);
    EXPECT_FALSE(reader.torn());
    EXPECT_EQ(reader.offset(), static_cast<int64_t>(fs::file_size(Segment(segment))));
    return records;
  }

  std::string ErrorOfWriter(int64_t max_segment = kRingMiB, int64_t max_total = 4 * kRingMiB) const {
    return ErrorThrownBy([&] { const RecordWriter writer(journal_, max_segment, max_total); });
  }

  std::string ErrorOfOpen(uint64_t segment) const {
    RecordReader reader(journal_);
    try {
      reader.Open(segment);
    } catch (const Error& error) {
      EXPECT_FALSE(reader.Next());
      return error.what();
    }
    return "";
  }

  int64_t TotalBytes() const {
    int64_t total = 0;
    for (const auto& entry : fs::directory_iterator(journal_)) total += static_cast<int64_t>(entry.file_size());
    return total;
  }

  std::string base_, journal_;
};

/// Lowers the largest size of a file that this process may write; a write beyond it fails with EFBIG.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &saved_);
    const rlimit lower{bytes, saved_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &saved_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit saved_{};
  sighandler_t handler_ = SIG_DFL;
};

TEST_F(RecordRingTest, Records_AreReadAsWritten_WhateverTheirSize) {
  // The payloads are empty, have every byte value, are about as large as the write buffer, or several times as large.
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  Content records = {{0, ""}, {255, ""}, {1, every}, {2, std::string(1, '\0')}};
  for (const size_t size : {65526, 65527, 65528, 65536, 65537, 1000000})
    records.emplace_back(3, std::string(size, 'x'));
  records.emplace_back(4, "end");
  Write(records);
  EXPECT_EQ(Read(1), records);
}

TEST_F(RecordRingTest, FileFormat_EqualsTheDocumentedFormat) {
  Write({{7, "ab"}});
  // The CRCs come from Python's zlib.crc32.
  EXPECT_EQ(ReadFile(Segment(1)),
            std::string("QUIREJ1\n\1\0\0\0\0\0\0\0\037\040\077\363\2\0\0\0\7\005\225\124\045ab", 31));
}

TEST_F(RecordRingTest, Records_AreBuffered_UntilFlushOrTheNextSegment) {
  RecordWriter writer(journal_, kRingMiB, 4 * kRingMiB);
  writer.Append(1, BytesOf("a"));
  EXPECT_EQ(Read(1), Content());
  writer.Flush();
  EXPECT_EQ(Read(1), (Content{{1, "a"}}));
  writer.Append(2, BytesOf("b"));
  writer.StartSegment();
  writer.Append(3, BytesOf(std::string(70000, 'c')));
  EXPECT_EQ(Read(1), (Content{{1, "a"}, {2, "b"}}));
  EXPECT_EQ(Read(2), (Content{{3, std::string(70000, 'c')}}));
}

TEST_F(RecordRingTest, Writer_NeverStartsASegmentByItself) {
  RecordWriter writer(journal_, 1000, 100000);
  const std::string payload(200, 'p');
  int appended = 0;
  while (!writer.segment_full()) {
    writer.Append(1, BytesOf(payload));
    ++appended;
  }
  EXPECT_EQ(appended, 5);  // 20 + 5 * 209 >= 1000
  writer.Append(1, BytesOf(payload));
  EXPECT_EQ(writer.segment(), 1U);
  writer.StartSegment();
  EXPECT_EQ(writer.segment(), 2U);
  EXPECT_FALSE(writer.segment_full());
  EXPECT_EQ(Read(1).size(), 6U);
}

TEST_F(RecordRingTest, OldestSegments_AreDeleted_WhenTheTotalSizeLimitIsReached) {
  constexpr int64_t kTotal = 5000;
  RecordWriter writer(journal_, 1000, kTotal);
  for (int i = 0; i < 500; ++i) {
    if (writer.segment_full()) {
      writer.StartSegment();
      writer.Append(9, BytesOf("snapshot"));
    }
    writer.Append(1, BytesOf(fmt::format("{:091}", i)));
    if (i % 7 == 0) writer.Flush();
    ASSERT_LE(TotalBytes(), kTotal);
  }
  writer.Flush();
  ASSERT_EQ(writer.error(), "");
  const RecordReader reader(journal_);
  const std::vector<uint64_t> segments = reader.Segments();
  ASSERT_GE(segments.size(), 4U);
  EXPECT_EQ(segments.back(), writer.segment());
  int last = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_EQ(segments[i], segments[0] + i);
    const Content records = Read(segments[i]);
    EXPECT_EQ(records.front(), std::make_pair(9, std::string("snapshot")));
    for (const auto& [type, payload] : records) {
      if (type != 1) continue;
      EXPECT_TRUE(last == 0 || std::stoi(payload) == last + 1);
      last = std::stoi(payload);
    }
  }
  EXPECT_EQ(last, 499);
}

TEST_F(RecordRingTest, CurrentSegment_IsKept_WhateverItsSize) {
  RecordWriter writer(journal_, 100, 200);
  const std::string large(1000, 'l');
  writer.Append(1, BytesOf(large));
  writer.Flush();
  EXPECT_EQ(Read(1), (Content{{1, large}}));
  writer.StartSegment();
  EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(2));
  writer.Append(2, BytesOf(large));
  writer.Flush();
  EXPECT_EQ(Read(2), (Content{{2, large}}));
}

TEST_F(RecordRingTest, NewWriter_StartsANewSegment_AndCountsTheOldSegments) {
  Write({{1, std::string(1000, 'a')}});
  Write({{2, std::string(1000, 'b')}});
  EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(1, 2));
  fs::remove(Segment(1));
  Write({{3, std::string(1000, 'c')}});
  EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(2, 3));
  const RecordWriter writer(journal_, 500, 1500);
  EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(3, 4));
  EXPECT_EQ(Read(3).size(), 1U);
}

TEST_F(RecordRingTest, SegmentNumbers_MayExceedTwelveDigits_AndTheLastNumberIsRefused) {
  Write({});
  fs::rename(Segment(1), Segment(999999999999));
  Write({{1, "a"}});
  EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(999999999999, 1000000000000));
  EXPECT_EQ(Read(1000000000000), (Content{{1, "a"}}));
  WriteFile(Segment(UINT64_MAX), "");
  EXPECT_THAT(ErrorOfWriter(), HasSubstr("segment-18446744073709551615.qj: no number is left"));
}

TEST_F(RecordRingTest, Segment_EndsAfterTheLastCompleteRecord_WhenTheFileEndsInsideARecord) {
  Write({{1, "first"}, {2, ""}, {3, "the last"}});
  const std::string whole = ReadFile(Segment(1));
  const size_t last = whole.size() - kRecordHead - 8;
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    WriteFile(Segment(1), whole.substr(0, size));
    RecordReader reader(journal_);
    reader.Open(1);
    const Content records = Rest(reader);
    const size_t first_end = kSegmentHead + kRecordHead + 5;
    EXPECT_EQ(records.size(), size >= last ? 2U : size >= first_end ? 1U : 0U);
    EXPECT_EQ(reader.torn(), size != kSegmentHead && size != first_end && size != last);
    const size_t good = size >= last ? last : size >= first_end ? first_end : size >= kSegmentHead ? kSegmentHead : 0;
    EXPECT_EQ(reader.offset(), static_cast<int64_t>(good));
    EXPECT_FALSE(reader.Next());
  }
  // The segment ends in zeros, as file systems may leave a file after a power failure.
  WriteFile(Segment(1), whole + std::string(100, '\0'));
  RecordReader reader(journal_);
  reader.Open(1);
  EXPECT_EQ(Rest(reader).size(), 3U);
  EXPECT_TRUE(reader.torn());
  EXPECT_EQ(reader.offset(), static_cast<int64_t>(whole.size()));
  // The next writer does not change the torn segment.
  Write({{4, "after"}});
  EXPECT_EQ(Read(2), (Content{{4, "after"}}));
  EXPECT_EQ(fs::file_size(Segment(1)), whole.size() + 100);
}

TEST_F(RecordRingTest, Segment_EndsBeforeARecord_WithAFlippedBit) {
  const Content records = {{1, "first"}, {2, ""}, {3, "the last"}};
  Write(records);
  const std::string whole = ReadFile(Segment(1));
  std::vector<size_t> ends = {kSegmentHead};
  for (const auto& [type, payload] : records) ends.push_back(ends.back() + kRecordHead + payload.size());
  ASSERT_EQ(ends.back(), whole.size());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    SCOPED_TRACE(bit);
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    WriteFile(Segment(1), damaged);
    RecordReader reader(journal_);
    reader.Open(1);
    size_t good = 0;  // undamaged parts: the head, then records
    while (ends[good] <= bit / 8) ++good;
    const Content expected(records.begin(), records.begin() + static_cast<ptrdiff_t>(good == 0 ? 0 : good - 1));
    EXPECT_EQ(Rest(reader), expected);
    EXPECT_TRUE(reader.torn());
    EXPECT_EQ(reader.offset(), static_cast<int64_t>(good == 0 ? 0 : ends[good - 1]));
  }
}

TEST_F(RecordRingTest, Payload_IsRefused_BeyondTheMaximumSize) {
  Write({{1, "a"}});
  std::string content = ReadFile(Segment(1));
  const size_t end = content.size();
  WriteFile(Segment(1),
            content + std::string("\1\0\0\4\1\041\352\305\212", 9));  // 64 MiB and 1 byte, with the right CRC
  fs::resize_file(Segment(1), 80 * kRingMiB);
  RecordReader reader(journal_);
  reader.Open(1);
  EXPECT_EQ(Rest(reader), (Content{{1, "a"}}));
  EXPECT_TRUE(reader.torn());
  EXPECT_EQ(reader.offset(), static_cast<int64_t>(end));

  const std::vector<std::byte> most(kMaxPayloadBytes + 1);
  RecordWriter writer(journal_, 100 * kRingMiB, 200 * kRingMiB);
  writer.Append(1, std::span(most).first(kMaxPayloadBytes));
  writer.Append(1, BytesOf("before"));
  EXPECT_EQ(writer.error(), "");
  writer.Append(2, most);
  EXPECT_THAT(writer.error(), HasSubstr("segment-000000000002.qj: a record of 67108865 bytes"));
  reader.Open(2);
  const std::optional<Record> largest = reader.Next();
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->payload.size(), kMaxPayloadBytes);
  EXPECT_EQ(Rest(reader), (Content{{1, "before"}}));
  EXPECT_FALSE(reader.torn());
}

TEST_F(RecordRingTest, ForeignFiles_AreIgnoredAndKept) {
  Write({{1, "a"}});
  const std::vector<std::string> foreign = {"notes.txt",
                                            "segment-7.qj",
                                            "segment-0000000000007.qj",
                                            "segment-00000000000x.qj",
                                            "segment-000000000007.qj.tmp",
                                            "segment-000000000007.QJ",
                                            "segment--00000000007.qj",
                                            "segment-99999999999999999999.qj",
                                            "Segment-000000000007.qj"};
  for (const std::string& name : foreign) WriteFile(journal_ + "/" + name, std::string(1000, '?'));
  fs::create_directory(Segment(8));
  fs::create_symlink("notes.txt", Segment(9));
  EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(1));
  EXPECT_THAT(ErrorOfOpen(8), HasSubstr("not a regular file"));
  EXPECT_THAT(ErrorOfOpen(9), HasSubstr("cannot open"));
  {
    RecordWriter writer(journal_, 100, 200);
    for (int i = 0; i < 3; ++i) {
      writer.Append(1, BytesOf(std::string(100, 'x')));
      writer.StartSegment();
    }
    EXPECT_EQ(writer.error(), "");
    EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(4, 5));
  }
  for (const std::string& name : foreign) EXPECT_EQ(fs::file_size(journal_ + "/" + name), 1000U) << name;
  EXPECT_TRUE(fs::is_directory(Segment(8)));
  EXPECT_TRUE(fs::is_symlink(Segment(9)));
}

TEST_F(RecordRingTest, Open_Throws_WhenASegmentIsRenamedOrOfAnotherVersion) {
  Write({{1, "a"}});
  fs::copy_file(Segment(1), Segment(5));
  EXPECT_THAT(ErrorOfOpen(5), HasSubstr("segment-000000000005.qj: the header says segment-000000000001.qj"));
  // Segment 6 has a header of format version 2 with a valid CRC.
  WriteFile(Segment(6), std::string("QUIREJ2\n\6\0\0\0\0\0\0\0\005\222\315\022", 20));
  EXPECT_THAT(ErrorOfOpen(6), HasSubstr("the format is not this version's"));
  EXPECT_THAT(ErrorOfOpen(7), HasSubstr("segment-000000000007.qj: cannot open"));
}

TEST_F(RecordRingTest, SecondWriter_IsRefused_InTheSameDirectory) {
  {
    const RecordWriter writer(journal_, kRingMiB, 4 * kRingMiB);
    EXPECT_THAT(ErrorOfWriter(), HasSubstr(journal_ + ": another server writes its journal here"));
    EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(1));
  }
  EXPECT_EQ(ErrorOfWriter(), "");
}

TEST_F(RecordRingTest, Writer_NamesTheReason_WhenTheDirectoryCannotBeUsed) {
  EXPECT_THAT(ErrorOfWriter(0, 1), HasSubstr("the total must hold at least one segment"));
  EXPECT_THAT(ErrorOfWriter(2, 1), HasSubstr("the total must hold at least one segment"));
  EXPECT_FALSE(fs::exists(journal_));
  EXPECT_THROW(RecordReader{journal_}, Error);
  WriteFile(journal_, "a file");
  EXPECT_THAT(ErrorOfWriter(), HasSubstr(journal_ + ": cannot open the journal's directory: Not a directory"));
  fs::remove(journal_);
  fs::create_directory(journal_);
  fs::create_symlink("elsewhere", journal_ + "/lock");
  EXPECT_THAT(ErrorOfWriter(), HasSubstr(journal_ + "/lock: cannot open"));
  EXPECT_FALSE(fs::exists(journal_ + "/elsewhere"));
  journal_ += "/missing/deeper";
  EXPECT_THAT(ErrorOfWriter(), HasSubstr("its parent must exist"));
}

TEST_F(RecordRingTest, Files_AreReadableOnlyByTheirOwner) {
  const mode_t mask = ::umask(0);
  Write({{1, "a"}});
  ::umask(mask);
  const auto mode = [](const fs::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  EXPECT_EQ(mode(journal_), 0700U);
  EXPECT_EQ(mode(journal_ + "/lock"), 0600U);
  EXPECT_EQ(mode(Segment(1)), 0600U);
}

TEST_F(RecordRingTest, Writer_StopsTheSegment_WhenTheDiskIsFull) {
  RecordWriter writer(journal_, 10000, 4 * kRingMiB);
  {
    const FileSizeLimit limit(100000);
    for (int i = 0; i < 200; ++i) writer.Append(1, BytesOf(fmt::format("{:0991}", i)));
    EXPECT_THAT(writer.error(), HasSubstr(Segment(1).string() + ": cannot write: File too large"));
  }
  // The segment stays ended, although the disk has room again.
  const std::string error = writer.error();
  writer.Append(2, BytesOf("later"));
  writer.Append(2, BytesOf(std::string(100000, 'l')));
  writer.Flush();
  EXPECT_FALSE(writer.segment_full());
  EXPECT_EQ(writer.error(), error);
  EXPECT_THAT(RecordReader(journal_).Segments(), ElementsAre(1));
  EXPECT_EQ(fs::file_size(Segment(1)), 100000U);

  RecordReader reader(journal_);
  reader.Open(1);
  EXPECT_EQ(Rest(reader).size(), 99U);  // 20 + 99 * 1000 < 100000
  EXPECT_TRUE(reader.torn());
  EXPECT_EQ(reader.offset(), 99020);

  writer.StartSegment();
  EXPECT_EQ(writer.error(), "");
  writer.Append(3, BytesOf("after"));
  writer.Flush();
  RecordReader later(journal_);
  EXPECT_THAT(later.Segments(), ElementsAre(1, 2));
  later.Open(2);
  EXPECT_EQ(Rest(later).size(), 1U);
}

TEST_F(RecordRingTest, Writer_ReportsAFullDisk_AtALargeRecordAndAtANewSegment) {
  {
    RecordWriter writer(journal_, kRingMiB, 4 * kRingMiB);
    const FileSizeLimit limit(100000);
    writer.Append(1, BytesOf(std::string(200000, 'x')));
    EXPECT_THAT(writer.error(), HasSubstr("cannot write"));
  }
  {
    RecordWriter writer(journal_, kRingMiB, 4 * kRingMiB);
    const FileSizeLimit limit(10);
    writer.StartSegment();
    EXPECT_THAT(writer.error(), HasSubstr(Segment(3).string() + ": cannot write"));
  }
  RecordReader reader(journal_);
  reader.Open(3);
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.torn());
  const FileSizeLimit limit(10);
  EXPECT_THAT(ErrorOfWriter(), HasSubstr(Segment(4).string() + ": cannot write"));
}

TEST_F(RecordRingTest, Writer_ReportsAnError_WhenTheSegmentsNameIsTaken) {
  RecordWriter writer(journal_, kRingMiB, 4 * kRingMiB);
  fs::create_symlink("elsewhere", Segment(2));
  writer.StartSegment();
  EXPECT_THAT(writer.error(), HasSubstr(Segment(2).string() + ": cannot create: File exists"));
  EXPECT_FALSE(fs::exists(journal_ + "/elsewhere"));
}

}  // namespace
}  // namespace quire
