// Input: a GGUF file. Also tests the model's description and the tokenizer that are made from the file's metadata.
#include "comm/model/formats/gguf.h"

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {
namespace {

void Check(const GgufFile& gguf, std::span<const std::byte> file) {
  for (const auto& [name, tensor] : gguf.tensors) {
    QUIRE_CHECK(
        tensor.data.data() >= file.data() && tensor.data.data() + tensor.data.size() <= file.data() + file.size(),
        "{} lies outside", name);
    const int64_t bytes = CheckedBytes(tensor.type, tensor.shape, name);
    QUIRE_CHECK(bytes == static_cast<int64_t>(tensor.data.size()), "{}: {} bytes", name, bytes);
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const GgufFile gguf = ReadGguf(file, "f");
    Check(gguf, file);
    const Tokenizer tokenizer(TokenizerDataFromGguf(gguf));
    for (const TokenId token : tokenizer.EncodePrompt("a b<|end|>", true)) {
      QUIRE_CHECK(token >= 0 && token < tokenizer.vocab_size(), "token {}", token);
    }
    SpecFromGguf(gguf);
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
