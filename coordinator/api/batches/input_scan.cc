#include "coordinator/api/batches/input_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "coordinator/api/batches/store_directory.h"
#include "coordinator/batches/batch_line.h"
#include "coordinator/batches/member_text.h"

namespace quire {

namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kHeadBytes = 8 << 10;  // the part of a result's line that has the custom_id, escaped
constexpr int64_t kShortestLine =       // bytes of the shortest line that is a request, with its end
    sizeof(R"({"custom_id":"","url":"/v1/responses","body":{}})");
constexpr size_t kMessageBytes = 300;    // longest message of a fault, which may quote the client's text
constexpr int64_t kLinesPerRequest = 4;  // a file may have so many times as many lines as requests

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

}  // namespace

InputScan::InputScan(Descriptor input, std::string what, std::string endpoint, CustomIds ids, const Bounds& bounds)
    : input_(std::move(input)),
      what_(std::move(what)),
      endpoint_(std::move(endpoint)),
      ids_(std::move(ids)),
      bounds_(bounds) {}

int64_t InputScan::MostBytes(int64_t input_bytes, const Bounds& bounds) {
  const int64_t requests = std::min(bounds.requests, input_bytes / kShortestLine + 1);
  const int64_t line = std::min(input_bytes, 2 * static_cast<int64_t>(bounds.line_bytes));  // a growing text's room
  return requests * (CustomIds::kBytesOfOne + static_cast<int64_t>(sizeof(LinePlace))) + line;
}

bool InputScan::Continue(size_t bytes) {
  for (size_t done = 0; done < bytes && !FoundEnough();) {
    const std::string piece = ReadAt(input_.get(), offset_, std::min(bytes, kReadBytes), what_);
    if (piece.empty()) {
      if (!line_.empty() || too_long_) TakeLine();
      if (total_ == 0 && faults_.empty()) Add({"empty_file", "the input file has no requests", "input_file_id", 0});
      return true;
    }
    TakePiece(piece);
    done += piece.size();
  }
  return FoundEnough();
}

void InputScan::TakePiece(const std::string& piece) {
  for (size_t at = 0; at < piece.size() && !FoundEnough();) {
    const size_t end = std::min(piece.find('\n', at), piece.size());
    if (!too_long_) line_.append(piece, at, end - at);
    if (line_.size() > bounds_.line_bytes) too_long_ = true, line_.clear();
    if (end < piece.size()) {
      TakeLine();
      begin_ = offset_ + static_cast<int64_t>(end) + 1;
    }
    at = end + 1;
  }
  offset_ += static_cast<off_t>(piece.size());
}

void InputScan::TakeLine() {
  ++number_;
  if (number_ > bounds_.requests * kLinesPerRequest) {
    too_many_ = true;
    Add({"too_many_lines", fmt::format("more than {} lines, empty ones included", number_ - 1), "", number_});
  } else if (too_long_) {
    Add({"line_too_long", fmt::format("line {}: longer than {} bytes", number_, bounds_.line_bytes), "", number_});
  } else if (!IsBlank(line_)) {
    CheckLine();
  }
  line_.clear();
  too_long_ = false;
}

void InputScan::CheckLine() {
  ++total_;
  const std::string where = fmt::format("line {}", number_);
  try {
    BatchLine line = ReadBatchLine(line_, where);
    if (line.custom_id.size() > bounds_.custom_id_bytes) {
      throw BatchLineError("string_above_max_length", "custom_id",
                           fmt::format("{}: \"custom_id\" is longer than {} bytes", where, bounds_.custom_id_bytes));
    }
    if (line.url != endpoint_) {
      throw BatchLineError("mismatched_endpoint", "url",
                           fmt::format("{}: the batch is for {}, and \"url\" is another one", where, endpoint_));
    }
    if (total_ > bounds_.requests) {
      too_many_ = true;
      throw BatchLineError("too_many_tasks", "",
                           fmt::format("more than {} requests; make several batches", bounds_.requests));
    }
    const CustomIds::Found found = ids_.Add(line.custom_id);
    if (found == CustomIds::Found::kTwice) {
      throw BatchLineError("duplicate_custom_id", "custom_id",
                           fmt::format("{}: custom_id \"{}\" comes twice", where, line.custom_id));
    }
    if (found == CustomIds::Found::kNew) pending_.push_back({begin_, line_.size(), number_});
  } catch (const BatchLineError& error) {
    Add({error.code(), error.what(), error.param(), number_});
  }
}

/// Stores a fault, unless Bounds::faults faults are stored already. The message may quote the client's text, so only
/// its beginning is stored, without control characters.
void InputScan::Add(BatchFault fault) {
  fault.message = WithoutControls(fault.message);
  if (fault.message.size() > kMessageBytes) {
    size_t end = kMessageBytes;
    while (end > 0 && (static_cast<unsigned char>(fault.message[end]) & 0xc0) == 0x80) --end;
    fault.message = fault.message.substr(0, end) + "...";
  }
  if (faults_.size() < bounds_.faults) faults_.push_back(std::move(fault));
}

void ReadRecordedIds(int descriptor, const std::string& what, CustomIds& ids) {
  std::string head;  // beginning of the current line, whose answer may be long
  off_t offset = 0;
  for (;;) {
    const std::string piece = ReadAt(descriptor, offset, kReadBytes, what);
    if (piece.empty()) return;
    offset += static_cast<off_t>(piece.size());
    for (size_t at = 0; at < piece.size();) {
      const size_t end = piece.find('\n', at);
      const size_t length = std::min(end, piece.size()) - at;
      head.append(piece, at, std::min(length, kHeadBytes - head.size()));
      if (end == std::string::npos) break;
      const Json id = ParseJson(MemberText(head, "custom_id"), what);
      if (!id.is_string()) Fail("{}: a line has no custom_id", what);
      ids.AddRecorded(id.get_ref<const std::string&>());
      head.clear();
      at = end + 1;
    }
  }
}

}  // namespace quire
