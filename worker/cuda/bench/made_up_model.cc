#include "worker/cuda/bench/made_up_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architecture.h"

namespace quire::bench {

namespace {

constexpr size_t kChunk = size_t{4} << 20;  // numbers per chunk

/// Makes random bf16 numbers with either sign and magnitudes in [p / 2, p), where p is the largest power of two that is
/// at most `spread`: sign and mantissa bits are random. Each random 64-bit word gives four numbers.
class Numbers {
 public:
  const std::vector<uint16_t>& Next(size_t count, float spread) {
    int exponent = 0;
    std::frexp(spread, &exponent);
    const auto base = static_cast<uint16_t>((exponent + 125) << 7);
    buffer_.resize(count);
    for (size_t i = 0; i < count; i += 4) {
      state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;  // xorshift64
      for (size_t k = 0; k < 4 && i + k < count; ++k) {
        buffer_[i + k] = static_cast<uint16_t>(base | ((state_ >> (16 * k)) & 0x807f));
      }
    }
    return buffer_;
  }

 private:
  uint64_t state_ = 88172645463325252;
  std::vector<uint16_t> buffer_;
};

Json ConfigOf(const MadeUpShape& s) {
  return {{"model_type", "llama"},
          {"hidden_size", s.hidden},
          {"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.kv_heads},
          {"head_dim", s.head_dim},
          {"intermediate_size", s.mlp},
          {"vocab_size", s.vocab},
          {"max_position_embeddings", 131072},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", true},
          {"eos_token_id", 0}};
}

int64_t CountOf(const ExpectedTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

/// Returns every tensor once; two roles may share one (the head is the embedding).
std::vector<ExpectedTensor> TensorsOf(const ModelSpec& spec) {
  std::vector<ExpectedTensor> tensors;
  std::set<std::string> names;
  for (ExpectedTensor& tensor : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) {
    if (names.insert(tensor.name).second) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void WriteTensors(const std::string& path, const std::vector<ExpectedTensor>& tensors) {
  Json header = Json::object();
  int64_t at = 0;
  for (const ExpectedTensor& t : tensors) {
    const int64_t bytes = 2 * CountOf(t);
    header[t.name] = {{"dtype", "BF16"}, {"shape", t.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string head = DumpJson(header);
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const uint64_t length = head.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << head;
  Numbers numbers;
  for (const ExpectedTensor& t : tensors) {
    const float spread = t.shape.size() == 1 ? 1.0f : 2.0f / std::sqrt(static_cast<float>(t.shape[1]));
    auto left = static_cast<size_t>(CountOf(t));
    for (; left > 0; left -= std::min(left, kChunk)) {
      const auto& chunk = numbers.Next(std::min(left, kChunk), spread);
      out.write(reinterpret_cast<const char*>(chunk.data()), static_cast<std::streamsize>(2 * chunk.size()));
    }
  }
  if (!out.flush()) Fail("{}: cannot be written: is there room for {} bytes?", path, at);
}

}  // namespace

MadeUpModel::MadeUpModel(const MadeUpShape& shape, const std::string& folder) : kept_(!folder.empty()) {
  const std::string config = DumpJson(ConfigOf(shape));
  const std::filesystem::path where = kept_ ? std::filesystem::path(folder) : std::filesystem::temp_directory_path();
  if (kept_) {
    // The file's name depends on everything that decides what the model contains.
    path_ = where / fmt::format("made-up-{:016x}", std::hash<std::string>{}(config));
    if (std::filesystem::exists(path_)) return;
    std::filesystem::create_directories(where);
  }
  std::string made = where / "quire-bench-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) Fail("{}: cannot be made", made);
  std::ofstream(made + "/config.json") << config;
  WriteTensors(made + "/model.safetensors", TensorsOf(SpecFromHf(config, "", made)));
  if (kept_) {
    std::filesystem::rename(made, path_);  // the rename makes sure that a found directory is complete
  } else {
    path_ = made;
  }
}

MadeUpModel::~MadeUpModel() {
  if (kept_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace quire::bench
