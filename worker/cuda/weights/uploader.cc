#include "worker/cuda/weights/uploader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "comm/base/error.h"
#include "comm/model/formats/scaled_matrix.h"
#include "kernels/cuda/products/quantized_gemm.h"
#include "worker/cuda/weights/quantized_rows.h"
#include "worker/model/stored_rows.h"

namespace quire {

namespace {

// Mark kFirstMark + i of the device's stream tells when half i of the staging buffer has been copied to the device.
constexpr int kFirstMark = 0;

__extension__ using Float16 = _Float16;

uint16_t ToBFloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN stays NaN
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void Round(const float* from, int64_t count, NumberType dtype, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == NumberType::kF32) {
      std::memcpy(to + 4 * i, from + i, 4);
    } else {
      const uint16_t bits =
          dtype == NumberType::kBF16 ? ToBFloat16(from[i]) : std::bit_cast<uint16_t>(static_cast<Float16>(from[i]));
      std::memcpy(to + 2 * i, &bits, 2);
    }
  }
}

}  // namespace

Uploader::Uploader(Device& device, NumberType dtype, int threads, std::function<void(int64_t)> progress)
    : device_(device),
      dtype_(dtype),
      threads_(threads),
      progress_(std::move(progress)),
      staging_(device.AllocateHost(2 * kHalfBytes, "loading weights")) {}

Uploader::~Uploader() {
  try {
    device_.Synchronize();
  } catch (const Error&) {  // the next user of the device gets the error
  }
}

void Uploader::WritePiece(const RowSource& source, Range cols, std::byte* to) const {
  const int64_t element = ByteSize(dtype_);
  if (source.tensor->type == dtype_) {
    const kernels::Weight weight = AsWeight(*source.tensor);
    std::memcpy(to, weight.data + source.row * weight.row_bytes + cols.begin * element,
                static_cast<size_t>(cols.size() * element));
    return;
  }
  // Whole quantisation blocks are decoded. The first and the last block can contain columns of other ranks.
  const int64_t block = DecodeBlock(*source.tensor);
  const int64_t begin = cols.begin / block * block,
                end = std::min((cols.end + block - 1) / block * block, source.tensor->cols());
  std::vector<float> decoded(static_cast<size_t>(end - begin));
  DecodeRow(*source.tensor, source.row, begin, end - begin, decoded.data());
  Round(decoded.data() + (cols.begin - begin), cols.size(), dtype_, to);
}

void Uploader::WriteRow(const RowSource& source, const std::vector<Range>& pieces, int64_t width, std::byte* to) const {
  const int64_t element = ByteSize(dtype_);
  int64_t filled = 0;
  for (const Range& cols : pieces) {
    if (source.tensor == nullptr || cols.size() == 0) continue;
    WritePiece(source, cols, to + filled);
    filled += cols.size() * element;
  }
  std::memset(to + filled, 0, static_cast<size_t>(width * element - filled));
}

std::byte* Uploader::NextHalf() {
  if (in_use_[half_]) device_.Await(kFirstMark + half_);
  return staging_.as() + half_ * kHalfBytes;
}

void Uploader::Send(std::initializer_list<Part> parts) {
  const std::byte* staged = staging_.as() + half_ * kHalfBytes;
  for (const auto& [to, bytes] : parts) {
    if (bytes > 0) device_.CopyToDevice(to, staged, bytes);
    staged += bytes;
    uploaded_ += bytes;
  }
  device_.SetMark(kFirstMark + half_);
  in_use_[half_] = true;
  half_ ^= 1;
  progress_(uploaded_);
}

void Uploader::UploadPieces(void* to, const std::vector<RowSource>& rows, const std::vector<Range>& pieces,
                            int64_t width) {
  const int64_t row_bytes = width * ByteSize(dtype_);
  if (row_bytes == 0) return;
  QUIRE_CHECK(row_bytes <= kHalfBytes, "a row of {} bytes", row_bytes);
  const auto num_rows = static_cast<int64_t>(rows.size());
  const int64_t rows_at_once = kHalfBytes / row_bytes;
  for (int64_t first = 0; first < num_rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, num_rows - first);
    std::byte* staging = NextHalf();
    threads_.ForRange(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        WriteRow(rows[static_cast<size_t>(first + i)], pieces, width, staging + i * row_bytes);
    });
    Send({{static_cast<std::byte*>(to) + first * row_bytes, count * row_bytes}});
  }
}

void Uploader::UploadQuantized(void* to, const std::vector<RowSource>& rows, Range cols, NumberType type) {
  const auto num_rows = static_cast<int64_t>(rows.size());
  const kernels::QuantizedParts of_row = kernels::PartsOf(type, 1, cols.size());
  QUIRE_CHECK(of_row.sum() <= kHalfBytes, "a row of {} bytes", of_row.sum());
  auto* ints = static_cast<std::byte*>(to);
  std::byte *highs = ints + num_rows * of_row.ints, *scales = highs + num_rows * of_row.highs;
  const int64_t rows_at_once = kHalfBytes / of_row.sum();
  std::map<const Tensor*, NumberType> packed;  // FormOf may read a whole tensor, so ask once per tensor
  for (const RowSource& source : rows) {
    if (source.tensor == nullptr || packed.contains(source.tensor)) continue;
    packed.emplace(source.tensor, FormOf(*source.tensor, "a weight").type);
  }
  for (int64_t first = 0; first < num_rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, num_rows - first);
    std::byte* staging = NextHalf();
    threads_.ForRange(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const RowSource& source = rows[static_cast<size_t>(first + i)];
        std::byte *first_high = staging + count * of_row.ints, *first_scale = first_high + count * of_row.highs;
        const QuantizedRow row{staging + i * of_row.ints, first_high + i * of_row.highs,
                               first_scale + i * of_row.scales};
        if (source.tensor != nullptr) {
          WriteQuantizedRow(*source.tensor, packed.at(source.tensor), source.row, cols, type, row);
        } else {  // zeros: scales of 0
          std::memset(row.ints, 0, static_cast<size_t>(of_row.ints));
          std::memset(row.highs, 0, static_cast<size_t>(of_row.highs));
          std::memset(row.scales, 0, static_cast<size_t>(of_row.scales));
        }
      }
    });
    Send({{ints + first * of_row.ints, count * of_row.ints},
          {highs + first * of_row.highs, count * of_row.highs},
          {scales + first * of_row.scales, count * of_row.scales}});
  }
}

void Uploader::UploadFloats(float* to, std::span<const float> numbers) {
  constexpr auto kAtOnce = static_cast<size_t>(kHalfBytes) / sizeof(float);
  for (; !numbers.empty(); numbers = numbers.subspan(std::min(kAtOnce, numbers.size()))) {
    const std::span<const float> part = numbers.first(std::min(kAtOnce, numbers.size()));
    std::memcpy(NextHalf(), part.data(), part.size_bytes());
    Send({{to, static_cast<int64_t>(part.size_bytes())}});
    to += part.size();
  }
}

}  // namespace quire
