// Computes the fingerprint, which tells two processes whether they opened the same model.
#include <sodium.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/model/model_files.h"

namespace quire {

namespace {
constexpr size_t kSampleBytes = 64;  // leading bytes of every tensor that the fingerprint covers
}  // namespace

std::string ModelFiles::Fingerprint() const { return fingerprint_.empty() ? ComputeFingerprint() : fingerprint_; }

std::string ModelFiles::ComputeFingerprint() const {
  std::string text = TextOf(spec_) + '\n';
  for (const KvScales& scales : kv_scales_) text += fmt::format("{} {}\n", scales.key, scales.value);
  for (const AdapterFiles& adapter : adapters_) text += fmt::format("adapter {}\n", adapter.fingerprint());
  for (const auto& [name, tensor] : tensors_) {
    text += fmt::format("{} {} {}\n", name, LayoutOf(tensor.type).name, fmt::join(tensor.shape, ","));
    const size_t sample = std::min(kSampleBytes, tensor.data.size());
    text.append(reinterpret_cast<const char*>(tensor.data.data()), sample);
    if (tensor.scaled == nullptr) continue;
    text.append(reinterpret_cast<const char*>(tensor.scales.data()), std::min(kSampleBytes, tensor.scales.size()));
  }
  unsigned char digest[16];
  crypto_generichash(digest, sizeof(digest), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr,
                     0);
  char hex[2 * sizeof(digest) + 1];
  sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
  return hex;
}

}  // namespace quire
