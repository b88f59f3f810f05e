// Input: a safetensors file, either whole, or without the header's length, which this program adds.
#include "comm/model/formats/safetensors.h"

#include <cstring>

#include "comm/base/error.h"
#include "comm/model/formats/mxfp4.h"
#include "comm/model/formats/quantized_matrices.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

/// Decodes every row: the sanitizer notices reads outside the file. The file's size bounds rows and columns.
void ReadAll(const ScaledMatrix& matrix) {
  matrix.Check("f");
  std::vector<float> numbers(static_cast<size_t>(matrix.cols));
  for (int64_t row = 0; row < matrix.rows; ++row) matrix.Decode(row, 0, matrix.cols, numbers.data());
}

/// Aborts unless every tensor lies inside the file and has the size of its shape.
void Check(const TensorMap& tensors, std::span<const std::byte> file) {
  for (const auto& [name, tensor] : tensors) {
    QUIRE_CHECK(tensor.data.empty() || (tensor.data.data() >= file.data() &&
                                        tensor.data.data() + tensor.data.size() <= file.data() + file.size()),
                "{} lies outside", name);
    if (tensor.scaled != nullptr) {
      ReadAll(*tensor.scaled);
      continue;
    }
    const int64_t bytes = CheckedBytes(tensor.type, tensor.shape, name);
    QUIRE_CHECK(bytes == static_cast<int64_t>(tensor.data.size()), "{}: {} bytes", name, bytes);
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  std::string file;
  if (!bytes.Flag()) {
    const std::string_view header = bytes.Until('\0');
    const uint64_t length = header.size();
    file.assign(reinterpret_cast<const char*>(&length), sizeof(length));
    file += header;
  }
  file += bytes.Rest();
  const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(file.data()),
                                     reinterpret_cast<const std::byte*>(file.data() + file.size()));
  try {
    const TensorMap tensors = ReadSafetensors(exact, "f");
    Check(tensors, exact);
    TensorMap joined = tensors;
    JoinMxFp4(joined, "f");
    Check(joined, exact);
    using Method = StoredQuants::Method;
    for (const StoredQuants& quants : {StoredQuants{.method = Method::kGptq, .bits = 4, .group = 8, .zero_offset = 1},
                                       StoredQuants{.method = Method::kGptq, .bits = 8, .group = -1},
                                       StoredQuants{.method = Method::kAwq, .bits = 4, .group = 8},
                                       StoredQuants{.method = Method::kFloat8, .block_rows = 2, .block_cols = 3},
                                       StoredQuants{.method = Method::kCompressedTensors}}) {
      joined = tensors;
      try {
        JoinQuantized(joined, quants, "f");
        Check(joined, exact);
      } catch (const Error& error) {
        QUIRE_CHECK(std::string_view(error.what()).starts_with("f: "), "no place: {}", error.what());
      }
    }
  } catch (const Error& error) {
    QUIRE_CHECK(std::string_view(error.what()).starts_with("f: "), "no place: {}", error.what());
  }
  return 0;
}
