// A safetensors file: raw, or a header under the length that fits it, before the data.
#include "comm/model/formats/safetensors.h"

#include <cstring>

#include "comm/base/error.h"
#include "comm/model/formats/mxfp4.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

/// Every tensor lies inside the file and is as large as its shape says.
void Check(const TensorMap& tensors, std::span<const std::byte> file) {
  for (const auto& [name, tensor] : tensors) {
    QUIRE_CHECK(tensor.data.empty() || (tensor.data.data() >= file.data() &&
                                        tensor.data.data() + tensor.data.size() <= file.data() + file.size()),
                "{} lies outside", name);
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
    TensorMap tensors = ReadSafetensors(exact, "f");
    Check(tensors, exact);
    JoinMxFp4(tensors, "f");
    Check(tensors, exact);
  } catch (const Error& error) {
    QUIRE_CHECK(std::string_view(error.what()).starts_with("f: "), "no place: {}", error.what());
  }
  return 0;
}
