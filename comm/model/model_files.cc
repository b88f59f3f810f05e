#include "comm/model/model_files.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "comm/error.h"
#include "comm/model/model_tree.h"
#include "comm/model/safetensors.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxJsonBytes = 64 << 20;
constexpr size_t kSampleBytes = 64;  // of every tensor, for the fingerprint

std::string HfName(const std::string& gguf_name) {
  static const std::map<std::string, std::string> kWhole = {{"token_embd.weight", "model.embed_tokens.weight"},
                                                            {"output_norm.weight", "model.norm.weight"},
                                                            {"output.weight", "lm_head.weight"}};
  static const std::map<std::string, std::string> kInLayer = {
      {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};
  if (const auto it = kWhole.find(gguf_name); it != kWhole.end()) return it->second;
  if (!gguf_name.starts_with("blk.") || !gguf_name.ends_with(".weight")) return gguf_name;
  const size_t dot = gguf_name.find('.', 4);
  if (dot == std::string::npos || gguf_name.size() < dot + 8) return gguf_name;
  const auto it = kInLayer.find(gguf_name.substr(dot + 1, gguf_name.size() - dot - 8));
  if (it == kInLayer.end()) return gguf_name;
  return "model.layers." + gguf_name.substr(4, dot - 4) + "." + it->second + ".weight";
}

/// Names of the safetensors files of a directory: the index's, else model.safetensors.
std::vector<std::string> SafetensorsNames(const ModelTree& tree, const std::string& directory) {
  constexpr const char* kIndex = "model.safetensors.index.json";
  if (!tree.Has(kIndex)) {
    if (tree.Has("model.safetensors")) return {"model.safetensors"};
    Fail("{}: holds neither model.safetensors nor {}", directory, kIndex);
  }
  const std::string index_path = tree.PathOf(kIndex);
  const Json index =
      ParseJson(tree.ReadText(kIndex, kMaxJsonBytes), index_path, {.max_depth = 8, .max_nodes = 2'000'000});
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    Fail("{}: weight_map is missing", index_path);
  }
  std::set<std::string> names;
  for (const Json& name : index["weight_map"]) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (text.empty() || text.find('/') != std::string::npos || text.starts_with(".")) {
      Fail("{}: \"{}\" is not a plain file name", index_path, text.substr(0, 100));
    }
    names.insert(text);
  }
  return {names.begin(), names.end()};
}

}  // namespace

ModelFiles ModelFiles::Open(const std::string& path) {
  ModelFiles model;
  model.path_ = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    model.OpenHf();
  } else if (fs::exists(path, ignored)) {
    model.OpenGguf();
  } else {
    Fail("{}: no such model; give an HF directory or a GGUF file{}", path,
         path.starts_with("/models/") ? " (the example topologies' /models/... stands for a path of your own)" : "");
  }
  model.CheckShapes();
  for (const auto& [name, tensor] : model.tensors_) model.total_bytes_ += static_cast<int64_t>(tensor.data.size());
  return model;
}

void ModelFiles::OpenHf() {
  const ModelTree tree(path_);
  constexpr const char* kGeneration = "generation_config.json";
  config_ =
      ConfigFromHf(tree.ReadText("config.json", kMaxJsonBytes),
                   tree.Has(kGeneration) ? tree.ReadText(kGeneration, kMaxJsonBytes) : "", tree.PathOf("config.json"));
  for (const std::string& name : SafetensorsNames(tree, path_)) {
    files_.emplace_back(tree.Open(name));
    for (auto& [tensor_name, tensor] : ReadSafetensors(files_.back().bytes(), files_.back().path())) {
      if (!tensors_.emplace(tensor_name, std::move(tensor)).second) {
        Fail("{}: tensor {} is in two files", path_, tensor_name);
      }
    }
  }
}

void ModelFiles::OpenGguf() {
  files_.emplace_back(path_);
  gguf_ = ReadGguf(files_.back().bytes(), path_);
  config_ = ConfigFromGguf(*gguf_);
  for (const auto& [name, tensor] : gguf_->tensors) tensors_.emplace(HfName(name), tensor);
  if (const auto it = tensors_.find("rope_freqs.weight"); it != tensors_.end()) {
    const auto count = static_cast<size_t>(config_.head_dim / 2);
    if (it->second.type != TensorType::kF32 || it->second.data.size() != count * sizeof(float)) {
      Fail("{}: rope_freqs.weight must hold {} F32 numbers", path_, count);
    }
    config_.rope_divisors.resize(count);
    std::memcpy(config_.rope_divisors.data(), it->second.data.data(), it->second.data.size());
  }
}

const Tensor& ModelFiles::Get(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) Fail("{}: tensor {} is missing", path_, name);
  return it->second;
}

void ModelFiles::CheckShapes() const {
  const ModelConfig& c = config_;
  const auto expect = [&](const std::string& name, std::vector<int64_t> shape) {
    const Tensor& tensor = Get(name);
    if (tensor.shape != shape) {
      Fail("{}: tensor {} has shape [{}], the configuration needs [{}]", path_, name, fmt::join(tensor.shape, ", "),
           fmt::join(shape, ", "));
    }
  };
  expect("model.embed_tokens.weight", {c.vocab_size, c.hidden_size});
  expect("model.norm.weight", {c.hidden_size});
  if (!c.tied_embeddings) expect("lm_head.weight", {c.vocab_size, c.hidden_size});
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    expect(layer + "input_layernorm.weight", {c.hidden_size});
    expect(layer + "post_attention_layernorm.weight", {c.hidden_size});
    expect(layer + "self_attn.q_proj.weight", {c.num_heads * c.head_dim, c.hidden_size});
    expect(layer + "self_attn.k_proj.weight", {c.num_kv_heads * c.head_dim, c.hidden_size});
    expect(layer + "self_attn.v_proj.weight", {c.num_kv_heads * c.head_dim, c.hidden_size});
    expect(layer + "self_attn.o_proj.weight", {c.hidden_size, c.num_heads * c.head_dim});
    expect(layer + "mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size});
    expect(layer + "mlp.up_proj.weight", {c.intermediate_size, c.hidden_size});
    expect(layer + "mlp.down_proj.weight", {c.hidden_size, c.intermediate_size});
  }
}

std::string ModelFiles::Fingerprint() const { return fingerprint_.empty() ? ComputeFingerprint() : fingerprint_; }

std::string ModelFiles::ComputeFingerprint() const {
  const ModelConfig& c = config_;
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", c.architecture, c.hidden_size, c.num_layers,
      c.num_heads, c.num_kv_heads, c.head_dim, c.intermediate_size, c.vocab_size, c.max_position, c.sliding_window,
      c.rms_norm_epsilon, c.rope_theta, c.tied_embeddings, c.rope_scaling.factor, c.rope_scaling.llama3,
      c.rope_scaling.original_max_position, c.rope_scaling.low_frequency_factor, c.rope_scaling.high_frequency_factor,
      fmt::join(c.rope_divisors, ","));
  for (const auto& [name, tensor] : tensors_) {
    text += fmt::format("{} {} {}\n", name, TensorTypeName(tensor.type), fmt::join(tensor.shape, ","));
    const size_t sample = std::min(kSampleBytes, tensor.data.size());
    text.append(reinterpret_cast<const char*>(tensor.data.data()), sample);
  }
  unsigned char digest[16];
  crypto_generichash(digest, sizeof(digest), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr,
                     0);
  char hex[2 * sizeof(digest) + 1];
  sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
  return hex;
}

void ModelFiles::ReleasePages() const {
  for (const MappedFile& file : files_) file.ReleasePages();
}

const char* ModelFiles::GpuDtype() const {
  return Get("model.layers.0.self_attn.q_proj.weight").type == TensorType::kF16 ? "float16" : "bfloat16";
}

int64_t ModelFiles::TotalBytes() const { return total_bytes_; }

void ModelFiles::CloseFiles() {
  fingerprint_ = ComputeFingerprint();
  for (auto& [name, tensor] : tensors_) tensor.data = {};
  if (gguf_) {
    for (auto& [name, tensor] : gguf_->tensors) tensor.data = {};
  }
  files_.clear();
}

}  // namespace quire
