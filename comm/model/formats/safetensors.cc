#include "comm/model/formats/safetensors.h"

#include <algorithm>
#include <cstring>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxNameBytes = 512;

NumberType TypeOf(const std::string& dtype, const std::string& what) {
  if (dtype == "F32") return NumberType::kF32;
  if (dtype == "F16") return NumberType::kF16;
  if (dtype == "BF16") return NumberType::kBF16;
  // The types below occur only in parts of quantised matrices. A tensor that does not become a part is refused later,
  // as an unexpected tensor of the model.
  if (dtype == "U8" || dtype == "F8_E8M0") return NumberType::kU8;
  if (dtype == "I8") return NumberType::kInt8;
  if (dtype == "I32") return NumberType::kInt32;
  if (dtype == "I64") return NumberType::kInt64;
  if (dtype == "F8_E4M3") return NumberType::kFp8E4M3;
  Fail(
      "{}: dtype {} is not supported; supported are F32, F16, BF16, MXFP4 and, of quantised matrices, F8_E4M3, "
      "F8_E8M0, U8, I8, I32 and I64",
      what, dtype.substr(0, 20));
}

std::string CheckedName(const std::string& name, const std::string& path) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (name.empty() || name.size() > kMaxNameBytes || !printable) Fail("{}: a tensor has an unacceptable name", path);
  return path + ": tensor " + name;
}

int64_t NonNegative(const Json& value, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
    Fail("{}: expected a non-negative integer", what);
  return value.get<int64_t>();
}

struct Range {
  int64_t begin, end;
  std::string name;
};

Range RangeOf(const std::string& name, const Json& offsets, std::span<const std::byte> data, const std::string& what) {
  const int64_t begin = NonNegative(offsets[0], what), end = NonNegative(offsets[1], what);
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    Fail("{}: bytes {}..{} lie outside the file's {} data bytes (truncated download?)", what, begin, end, data.size());
  }
  return {begin, end, name};
}

/// Reads one entry of the header, and adds its tensor and byte range.
void ReadEntry(const std::string& name, const Json& entry, std::span<const std::byte> data, const std::string& path,
               TensorMap& tensors, std::vector<Range>& ranges) {
  const std::string what = CheckedName(name, path);
  const bool complete = entry.is_object() && entry.size() == 3 && entry.contains("dtype") &&
                        entry["dtype"].is_string() && entry.contains("shape") && entry["shape"].is_array() &&
                        entry.contains("data_offsets") && entry["data_offsets"].is_array() &&
                        entry["data_offsets"].size() == 2;
  if (!complete) Fail("{}: expected exactly dtype, shape and data_offsets", what);
  ranges.push_back(RangeOf(name, entry["data_offsets"], data, what));
  if (entry["dtype"] == "BOOL") return;  // an attention mask in an older file, which is no weight
  Tensor tensor;
  tensor.type = TypeOf(entry["dtype"].get<std::string>(), what);
  for (const Json& extent : entry["shape"]) tensor.shape.push_back(NonNegative(extent, what));
  if (tensor.shape.size() > 8) Fail("{}: more than 8 dimensions", what);
  const auto& [begin, end, _] = ranges.back();
  const int64_t expected = CheckedBytes(tensor.type, tensor.shape, what);
  if (end - begin != expected) Fail("{}: {} bytes stored, its shape needs {}", what, end - begin, expected);
  tensor.data = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(expected));
  tensors.emplace(name, std::move(tensor));
}

void CheckCover(std::vector<Range> ranges, size_t data_bytes, const std::string& path) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  int64_t covered = 0;
  for (const Range& range : ranges) {
    if (range.begin != covered) Fail("{}: tensor {} leaves a hole or overlaps another", path, range.name);
    covered = range.end;
  }
  if (covered != static_cast<int64_t>(data_bytes))
    Fail("{}: {} bytes belong to no tensor", path, static_cast<int64_t>(data_bytes) - covered);
}

}  // namespace

TensorMap ReadSafetensors(std::span<const std::byte> bytes, const std::string& path) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) Fail("{}: too short for a safetensors file", path);
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - sizeof(header_bytes)) {
    Fail("{}: not a safetensors file: a header of {} bytes in a file of {}", path, header_bytes, bytes.size());
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + sizeof(header_bytes);
  if (header_bytes == 0 || text[0] != '{') Fail("{}: not a safetensors file", path);
  const Json header = ParseJson({text, header_bytes}, path + ": header", {.max_depth = 8, .max_nodes = 5'000'000});

  const auto data = bytes.subspan(sizeof(header_bytes) + header_bytes);
  TensorMap tensors;
  std::vector<Range> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") ReadEntry(name, entry, data, path, tensors, ranges);
  }
  CheckCover(std::move(ranges), data.size(), path);
  return tensors;
}

}  // namespace quire
