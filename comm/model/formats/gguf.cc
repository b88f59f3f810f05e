#include "comm/model/formats/gguf.h"

#include <cstring>

#include "comm/base/error.h"

namespace quire {

namespace {

// Codes of value types from the GGUF specification.
enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxDimensions = 4;

/// Reads little-endian values, and never beyond the end of the file.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  template <class T>
  T Read() {
    if (remaining() < sizeof(T)) Fail("{}: truncated at byte {} (incomplete download?)", path_, at_);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string ReadString(uint64_t max_bytes) {
    const auto length = Read<uint64_t>();
    if (length > remaining() || length > max_bytes) Fail("{}: a string of {} bytes at byte {}", path_, length, at_);
    std::string text(reinterpret_cast<const char*>(bytes_.data() + at_), length);
    at_ += length;
    return text;
  }
  /// Reads a count of items that take at least min_bytes bytes each.
  uint64_t ReadCount(uint64_t min_bytes, const char* what) {
    const auto count = Read<uint64_t>();
    if (count > remaining() / min_bytes) Fail("{}: {} {} cannot fit the file", path_, count, what);
    return count;
  }
  size_t remaining() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  size_t at_ = 0;
};

int64_t ReadInteger(Cursor& in, uint32_t type, const std::string& what) {
  switch (type) {
    case kUint8:
      return in.Read<uint8_t>();
    case kInt8:
      return in.Read<int8_t>();
    case kUint16:
      return in.Read<uint16_t>();
    case kInt16:
      return in.Read<int16_t>();
    case kUint32:
      return in.Read<uint32_t>();
    case kInt32:
      return in.Read<int32_t>();
    case kInt64:
      return in.Read<int64_t>();
    case kUint64: {
      const auto value = in.Read<uint64_t>();
      if (value > INT64_MAX) Fail("{}: {} is too large", what, value);
      return static_cast<int64_t>(value);
    }
    default:
      Fail("{}: unknown value type {}", what, type);
  }
}

double ReadReal(Cursor& in, uint32_t type) { return type == kFloat32 ? in.Read<float>() : in.Read<double>(); }

GgufValue ReadArray(Cursor& in, const std::string& what) {
  const auto type = in.Read<uint32_t>();
  if (type == kArray) Fail("{}: nested arrays are not supported", what);
  const uint64_t count = in.ReadCount(type == kString ? 8 : 1, "array elements");
  if (type == kString) {
    std::vector<std::string> values(count);
    for (auto& value : values) value = in.ReadString(UINT32_MAX);
    return values;
  }
  if (type == kFloat32 || type == kFloat64) {
    std::vector<double> values(count);
    for (auto& value : values) value = ReadReal(in, type);
    return values;
  }
  std::vector<int64_t> values(count);
  for (auto& value : values) value = ReadInteger(in, type == kBool ? kUint8 : type, what);
  return values;
}

GgufValue ReadValue(Cursor& in, const std::string& what) {
  const auto type = in.Read<uint32_t>();
  if (type == kString) return in.ReadString(UINT32_MAX);
  if (type == kArray) return ReadArray(in, what);
  if (type == kBool) return in.Read<uint8_t>() != 0;
  if (type == kFloat32 || type == kFloat64) return ReadReal(in, type);
  return ReadInteger(in, type, what);
}

// Type names by ggml's type code. Codes that ggml has removed have empty names.
constexpr const char* kGgmlTypes[] = {"F32",     "F16",    "Q4_0",    "Q4_1",  "",       "",      "Q5_0",  "Q5_1",
                                      "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
                                      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
                                      "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16"};

NumberType TypeOf(uint32_t code, const std::string& what) {
  switch (code) {
    case 0:
      return NumberType::kF32;
    case 1:
      return NumberType::kF16;
    case 2:
      return NumberType::kQ4_0;
    case 3:
      return NumberType::kQ4_1;
    case 6:
      return NumberType::kQ5_0;
    case 7:
      return NumberType::kQ5_1;
    case 8:
      return NumberType::kQ8_0;
    case 10:
      return NumberType::kQ2_K;
    case 11:
      return NumberType::kQ3_K;
    case 12:
      return NumberType::kQ4_K;
    case 13:
      return NumberType::kQ5_K;
    case 14:
      return NumberType::kQ6_K;
    case 16:
      return NumberType::kIQ2_XXS;
    case 17:
      return NumberType::kIQ2_XS;
    case 18:
      return NumberType::kIQ3_XXS;
    case 19:
      return NumberType::kIQ1_S;
    case 20:
      return NumberType::kIQ4_NL;
    case 21:
      return NumberType::kIQ3_S;
    case 22:
      return NumberType::kIQ2_S;
    case 23:
      return NumberType::kIQ4_XS;
    case 29:
      return NumberType::kIQ1_M;
    case 30:
      return NumberType::kBF16;
    case 34:
      return NumberType::kTQ1_0;
    case 35:
      return NumberType::kTQ2_0;
    case 39:
      return NumberType::kMxFp4;
    default:
      break;
  }
  const std::string name = code < std::size(kGgmlTypes) ? kGgmlTypes[code] : "";
  Fail(
      "{}: type {} is not supported; supported are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, "
      "Q5_K, Q6_K, IQ1_S to IQ4_XS, TQ1_0, TQ2_0, MXFP4",
      what, name.empty() ? fmt::format("code {}", code) : name);
}

struct Pending {
  std::string name;
  Tensor tensor;
  uint64_t offset;
};

Pending ReadTensorInfo(Cursor& in, const std::string& path) {
  Pending info;
  info.name = in.ReadString(kMaxKeyBytes);
  const std::string what = path + ": tensor " + info.name.substr(0, 100);
  const auto dimensions = in.Read<uint32_t>();
  if (dimensions > kMaxDimensions) Fail("{}: {} dimensions", what, dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = in.Read<uint64_t>();
    if (extent > INT64_MAX) Fail("{}: impossible shape", what);
    info.tensor.shape.insert(info.tensor.shape.begin(), static_cast<int64_t>(extent));
  }
  info.tensor.type = TypeOf(in.Read<uint32_t>(), what);
  info.offset = in.Read<uint64_t>();
  return info;
}

void PlaceTensor(Pending& info, std::span<const std::byte> data, uint64_t alignment, const std::string& path) {
  const std::string what = path + ": tensor " + info.name.substr(0, 100);
  const auto bytes = static_cast<uint64_t>(CheckedBytes(info.tensor.type, info.tensor.shape, what));
  if (info.offset % alignment != 0) Fail("{}: offset {} is not aligned to {}", what, info.offset, alignment);
  if (info.offset > data.size() || bytes > data.size() - info.offset) {
    Fail("{}: bytes {}+{} lie outside the file (incomplete download?)", what, info.offset, bytes);
  }
  info.tensor.data = data.subspan(info.offset, bytes);
}

}  // namespace

GgufFile ReadGguf(std::span<const std::byte> bytes, const std::string& path) {
  Cursor in(bytes, path);
  if (in.remaining() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) Fail("{}: not a GGUF file", path);
  in.Read<uint32_t>();
  const auto version = in.Read<uint32_t>();
  if (version != 2 && version != 3) Fail("{}: GGUF version {} is not supported; 2 and 3 are", path, version);
  const uint64_t num_tensors = in.ReadCount(24, "tensors");
  const uint64_t num_values = in.ReadCount(13, "metadata values");

  GgufFile gguf;
  gguf.path = path;
  for (uint64_t i = 0; i < num_values; ++i) {
    const std::string key = in.ReadString(kMaxKeyBytes);
    const std::string what = path + ": metadata " + key.substr(0, 100);
    if (!gguf.metadata.emplace(key, ReadValue(in, what)).second) Fail("{}: given twice", what);
  }
  std::vector<Pending> pending;
  for (uint64_t i = 0; i < num_tensors; ++i) pending.push_back(ReadTensorInfo(in, path));

  const int64_t* wanted = gguf.Find<int64_t>("general.alignment");
  const int64_t alignment = wanted != nullptr ? *wanted : 32;
  if (alignment <= 0 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0) {
    Fail("{}: alignment {} is not a power of two", path, alignment);
  }
  const auto step = static_cast<size_t>(alignment);
  const size_t data_start = (in.position() + step - 1) / step * step;
  if (data_start > bytes.size()) Fail("{}: truncated before the tensor data", path);
  for (Pending& info : pending) {
    PlaceTensor(info, bytes.subspan(data_start), step, path);
    if (!gguf.tensors.emplace(info.name, std::move(info.tensor)).second) {
      Fail("{}: tensor {} is given twice", path, info.name.substr(0, 100));
    }
  }
  return gguf;
}

template <class T>
const T* GgufFile::Find(const std::string& key) const {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr) Fail("{}: metadata {} has the wrong type", path, key);
  return value;
}

template <class T>
const T& GgufFile::Get(const std::string& key) const {
  const T* value = Find<T>(key);
  if (value == nullptr) Fail("{}: metadata {} is missing", path, key);
  return *value;
}

#define QUIRE_GGUF_VALUE(T)                                      \
  template const T* GgufFile::Find<T>(const std::string&) const; \
  template const T& GgufFile::Get<T>(const std::string&) const;
QUIRE_GGUF_VALUE(int64_t)
QUIRE_GGUF_VALUE(double)
QUIRE_GGUF_VALUE(bool)
QUIRE_GGUF_VALUE(std::string)
QUIRE_GGUF_VALUE(std::vector<int64_t>)
QUIRE_GGUF_VALUE(std::vector<double>)
QUIRE_GGUF_VALUE(std::vector<std::string>)
#undef QUIRE_GGUF_VALUE

}  // namespace quire
