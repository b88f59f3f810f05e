#include "kernels/cuda/skinny_gemm_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/numbers.h"
#include "tests/support/random.h"

namespace quire::kernels {

namespace {

using reference::ReadNumber;
using reference::WriteNumber;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = 1e-3;
/// Fills [rows, columns] with numbers, and the gaps between the rows with NaN (at most the 64 elements after a row).
void Fill(void* array, NumberType type, int64_t rows, int64_t columns, int64_t stride, test::Random& random) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t end = r + 1 < rows ? std::min(stride, columns + 64) : columns;
    for (int64_t c = 0; c < end; ++c) WriteNumber(array, type, r * stride + c, c < columns ? random.Signed() : kNaN);
  }
}

/// Makes accessible those parts of the array that Fill will write. The rows lie gigabytes apart.
void OpenRows(simt::DeviceBuffer<std::byte>& array, NumberType type, int64_t rows, int64_t columns, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t end = r + 1 < rows ? std::min(stride, columns + 64) : columns;
    array.Open(r * stride * ByteSize(type), end * ByteSize(type));
  }
}

double Rounded(NumberType type, double value) {
  float number = 0;  // large enough for all types
  WriteNumber(&number, type, 0, value);
  return ReadNumber(&number, type, 0);
}

}  // namespace

SkinnyCase::SkinnyCase(const SkinnyShape& shape, uint64_t seed)
    : shape_(shape),
      x_(((shape_.m - 1) * XStride() + shape_.k) * 2),
      weight_(shape_.n * shape_.k * 2),
      norm_weight_(shape_.k * 2),
      out_(((shape_.m - 1) * OutStride() + Columns()) * ByteSize(OutType())) {
  OpenRows(x_, shape_.dtype, shape_.m, shape_.k, XStride());
  OpenRows(out_, OutType(), shape_.m, Columns(), OutStride());
  test::Random random(seed);
  Fill(x_.data(), shape_.dtype, shape_.m, shape_.k, XStride(), random);
  Fill(weight_.data(), shape_.dtype, shape_.n, shape_.k, shape_.k, random);
  Fill(norm_weight_.data(), shape_.dtype, 1, shape_.k, shape_.k, random);
  Fill(out_.data(), OutType(), shape_.m, Columns(), OutStride(), random);
  simt::MarkWritten(x_.data());
  simt::MarkWritten(out_.data());
  if (shape_.epilogue == SkinnyEpilogue::kAddResidual) return;
  for (int64_t r = 0; r < shape_.m; ++r) {
    for (int64_t c = 0; c < Columns(); ++c) WriteNumber(out_.data(), OutType(), r * OutStride() + c, kNaN);
  }
}

SkinnyGemmParams SkinnyCase::Params() const {
  return {.dtype = shape_.dtype,
          .x = x_.data(),
          .x_stride = XStride(),
          .weight = weight_.data(),
          .norm_weight = shape_.norm ? norm_weight_.data() : nullptr,
          .epsilon = kEpsilon,
          .out = out_.data(),
          .out_stride = OutStride(),
          .n = shape_.n,
          .k = shape_.k,
          .m = shape_.m,
          .epilogue = shape_.epilogue,
          .tile = shape_.tile};
}

std::vector<double> SkinnyCase::Expected() const {
  const NumberType type = shape_.dtype;
  const auto weight = [&](int64_t row, int64_t i) { return ReadNumber(weight_.data(), type, row * shape_.k + i); };
  std::vector<double> out;
  for (int64_t r = 0; r < shape_.m; ++r) {
    std::vector<double> x(static_cast<size_t>(shape_.k));
    double squares = 0;
    for (int64_t i = 0; i < shape_.k; ++i) {
      const double value = ReadNumber(x_.data(), type, r * XStride() + i);
      squares += value * value;
      const double factor = shape_.norm ? ReadNumber(norm_weight_.data(), type, i) : 1;
      x[static_cast<size_t>(i)] = Rounded(type, value * factor);
    }
    const double scale = shape_.norm ? 1 / std::sqrt(squares / static_cast<double>(shape_.k) + kEpsilon) : 1;
    const auto product = [&](int64_t row) {
      double sum = 0;
      for (int64_t i = 0; i < shape_.k; ++i) sum += x[static_cast<size_t>(i)] * weight(row, i);
      return sum * scale;
    };
    for (int64_t c = 0; c < Columns(); ++c) {
      if (shape_.epilogue == SkinnyEpilogue::kGateMul) {
        const double gate = product(SkinnyGateUpRow(c, false)), up = product(SkinnyGateUpRow(c, true));
        out.push_back(gate / (1 + std::exp(-gate)) * up);
      } else {
        const bool adds = shape_.epilogue == SkinnyEpilogue::kAddResidual;
        out.push_back(product(c) + (adds ? ReadNumber(out_.data(), type, r * OutStride() + c) : 0));
      }
    }
  }
  return out;
}

std::vector<float> SkinnyCase::Output() const {
  std::vector<float> out;
  for (int64_t r = 0; r < shape_.m; ++r) {
    for (int64_t c = 0; c < Columns(); ++c) {
      out.push_back(static_cast<float>(ReadNumber(out_.data(), OutType(), r * OutStride() + c)));
    }
  }
  return out;
}

bool SkinnyCase::WroteBetweenRows() const {
  for (int64_t r = 0; r + 1 < shape_.m; ++r) {
    for (int64_t c = Columns(); c < std::min(OutStride(), Columns() + 64); ++c) {
      if (!std::isnan(ReadNumber(out_.data(), OutType(), r * OutStride() + c))) return true;
    }
  }
  return false;
}

std::string SkinnyCase::Name() const {
  const char* epilogues[] = {"store", "store float", "add residual", "silu mul"};
  const char* tiles[] = {"tile by shape", "narrow tile", "wide tile"};
  return std::string(shape_.dtype == NumberType::kF16 ? "f16" : "bf16") + ", m " + std::to_string(shape_.m) + ", n " +
         std::to_string(shape_.n) + ", k " + std::to_string(shape_.k) + (shape_.norm ? ", norm, " : ", ") +
         epilogues[static_cast<int>(shape_.epilogue)] + ", " + tiles[static_cast<int>(shape_.tile)];
}

double SkinnyCase::Tolerance() const {
  constexpr double kSums = 2e-5;  // tolerance for sums of up to some thousand products in fp32
  return OutType() == NumberType::kF32 ? kSums : kSums + (shape_.dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8);
}

void SkinnyCase::CopyRow(int64_t i, const SkinnyCase& other, int64_t row) {
  const auto copy = [&](const auto& to, const auto& from, NumberType type, int64_t stride, int64_t from_stride,
                        int64_t columns) {
    for (int64_t c = 0; c < columns; ++c) {
      WriteNumber(to.data(), type, i * stride + c, ReadNumber(from.data(), type, row * from_stride + c));
    }
  };
  copy(x_, other.x_, shape_.dtype, XStride(), other.XStride(), shape_.k);
  copy(out_, other.out_, OutType(), OutStride(), other.OutStride(), Columns());
}

}  // namespace quire::kernels
