#include "comm/model/adapter_files.h"

#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "comm/base/error.h"
#include "comm/model/adapter_config.h"
#include "comm/model/architecture.h"
#include "comm/model/formats/safetensors.h"
#include "comm/model/model_files.h"
#include "comm/model/model_tree.h"

namespace quire {

namespace {

constexpr size_t kMaxConfigBytes = 4 << 20;
constexpr const char *kAdapterConfig = "adapter_config.json", *kAdapterTensors = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.", kOfA = ".lora_A.weight", kOfB = ".lora_B.weight";

bool TakesAdapters(Role role) { return std::ranges::count(kAdapterRoles, role) > 0; }

/// A matrix of the base model as its files store it.
struct BaseMatrix {
  int64_t layer = 0, rows = 0, cols = 0;  // rows and columns of W in y = x * W^T, in any order of the file
  std::vector<Role> roles;
  bool takes_adapters = true;
};

/// Returns the base model's matrices by their names in HF's files.
std::map<std::string, BaseMatrix> MatricesOf(const ModelFiles& base) {
  std::map<std::string, BaseMatrix> matrices;
  const ModelSpec& spec = base.spec();
  for (const ExpectedTensor& tensor : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) {
    const WeightSpec& weight = base.weight(tensor.role);
    if (!weight.is_matrix() || tensor.shape.size() != 2) continue;
    BaseMatrix& matrix = matrices[tensor.name];
    matrix.layer = tensor.layer;
    matrix.rows = tensor.shape[weight.transposed ? 1 : 0];
    matrix.cols = tensor.shape[weight.transposed ? 0 : 1];
    matrix.roles.push_back(tensor.role);
    matrix.takes_adapters = matrix.takes_adapters && TakesAdapters(tensor.role);
  }
  return matrices;
}

std::string HexHash(std::span<const std::byte> tensors, const std::string& config) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, crypto_generichash_BYTES_MIN);
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(tensors.data()), tensors.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(config.data()), config.size());
  unsigned char digest[crypto_generichash_BYTES_MIN];
  crypto_generichash_final(&state, digest, sizeof(digest));
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

/// Returns the reason why this model takes no adapters; empty: it takes adapters.
std::string Refusal(const ModelFiles& base) {
  if (base.gguf() != nullptr)
    return "adapters need their base model as safetensors: a GGUF file orders rows in a way of its own";
  if (base.spec().latent.rank > 0) return "models with latent attention take no adapters";
  if (base.spec().bidirectional) return "encoders take no adapters";
  return "";
}

}  // namespace

/// Reads the file's tensors, pair by pair.
class AdapterFiles::Reader {
 public:
  Reader(const ModelFiles& base, const AdapterConfig& config, const std::string& file)
      : base_(base), config_(config), file_(file), known_(MatricesOf(base)) {}

  std::vector<AdapterMatrix> Read(const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) Take(name, tensor);
    std::vector<AdapterMatrix> matrices;
    for (auto& [name, matrix] : found_) matrices.push_back(Checked(name, std::move(matrix)));
    if (matrices.empty()) Fail("{}: holds no tensors", file_);
    CheckComplete();
    return matrices;
  }

 private:
  [[noreturn]] void Refuse(const std::string& name, const std::string& reason) const {
    Fail("{}: tensor {}: {}", file_, name, reason);
  }

  void Take(const std::string& name, const Tensor& tensor) {
    const bool is_a = name.ends_with(kOfA);
    if (!name.starts_with(kPrefix) || !(is_a || name.ends_with(kOfB)))
      Refuse(name, "is none of a LoRA matrix (base_model.model.MODULE.lora_A.weight or lora_B.weight)");
    if (!IsFloat(tensor.type) || tensor.shape.size() != 2)
      Refuse(name, fmt::format("{} numbers in {} dimensions; expected two dimensions of F32, F16 or BF16",
                               LayoutOf(tensor.type).name, tensor.shape.size()));
    const std::string module = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kOfA.size());
    const std::string of_base = base_.ListNameOf(module + ".weight");
    const auto matrix = known_.find(of_base);
    if (matrix == known_.end()) Refuse(name, "the base model has no such matrix");
    if (!matrix->second.takes_adapters)
      Refuse(name,
             "adapters may change attention's and plain MLPs' matrices only; merge the adapter into its base "
             "model, or train it without this module");
    if (base_.spec().layers[static_cast<size_t>(matrix->second.layer)].values_are_keys &&
        std::ranges::count(matrix->second.roles, Role::kKey) > 0)
      Refuse(name, "this layer's keys are its values, too, which no adapter may change");
    if (!config_.Targets(module)) Refuse(name, fmt::format("{} targets no such module", kAdapterConfig));
    renamed_ = renamed_ || of_base != module + ".weight";
    AdapterMatrix& pair = found_[of_base];
    Tensor& part = is_a ? pair.a : pair.b;
    if ((!pair.module.empty() && pair.module != module) || !part.shape.empty())
      Refuse(name, "the file has this matrix under two names");
    pair.module = module;
    part = tensor;
  }

  AdapterMatrix Checked(const std::string& name, AdapterMatrix matrix) const {
    const BaseMatrix& base = known_.at(name);
    const auto full = [&](std::string_view part) { return fmt::format("{}{}{}", kPrefix, matrix.module, part); };
    if (matrix.a.shape.empty() || matrix.b.shape.empty())
      Refuse(full(matrix.a.shape.empty() ? kOfB : kOfA), "its other half is missing");
    const int64_t rank = config_.RankOf(matrix.module);
    const auto check = [&](const Tensor& tensor, std::string_view part, std::vector<int64_t> wanted) {
      if (tensor.shape == wanted) return;
      Refuse(full(part), fmt::format("[{}] instead of [{}]", fmt::join(tensor.shape, ", "), fmt::join(wanted, ", ")));
    };
    check(matrix.a, kOfA, {rank, base.cols});
    check(matrix.b, kOfB, {base.rows, rank});
    matrix.layer = base.layer;
    matrix.roles = base.roles;
    const double scale = config_.ScaleOf(matrix.module);
    if (std::abs(scale) > std::numeric_limits<float>::max())
      Refuse(full(kOfA), fmt::format("its factor, lora_alpha over the rank, is {}: beyond 32-bit numbers", scale));
    matrix.scale = static_cast<float>(scale);
    return matrix;
  }

  /// Throws Error when the file has no tensors of a module that the configuration targets. Does nothing for multimodal
  /// models, whose names differ from the list's.
  void CheckComplete() const {
    if (renamed_) return;
    for (const auto& [name, matrix] : known_) {
      const std::string module = name.substr(0, name.rfind('.'));
      if (matrix.takes_adapters && !found_.contains(name) && config_.Targets(module))
        Fail("{}: {} targets {}, of which the file has no tensors", file_, kAdapterConfig, module);
    }
  }

  const ModelFiles& base_;
  const AdapterConfig& config_;
  const std::string& file_;
  std::map<std::string, BaseMatrix> known_;
  std::map<std::string, AdapterMatrix> found_;  // matrices by their names in the base model
  bool renamed_ = false;
};

AdapterFiles AdapterFiles::Open(const std::string& path, const ModelFiles& base, std::optional<size_t> most_bytes) {
  if (const std::string refusal = Refusal(base); !refusal.empty()) Fail("{}: {}", path, refusal);
  const ModelTree tree(path);
  if (!tree.Has(kAdapterTensors))
    Fail("{}: holds no {}; other formats are not read (PEFT writes it with safe_serialization)", path, kAdapterTensors);
  const std::string text = tree.ReadText(kAdapterConfig, kMaxConfigBytes);
  const AdapterConfig config(text, tree.PathOf(kAdapterConfig));
  AdapterFiles adapter;
  adapter.path_ = path;
  const RegularFile tensors = tree.Open(kAdapterTensors);
  adapter.files_.push_back(most_bytes ? MappedFile(tensors, *most_bytes) : MappedFile(tensors));
  const MappedFile& file = adapter.files_.front();
  adapter.file_bytes_ = file.bytes().size();
  adapter.matrices_ = Reader(base, config, file.path()).Read(ReadSafetensors(file.bytes(), file.path()));
  adapter.fingerprint_ = HexHash(file.bytes(), text);
  return adapter;
}

int64_t AdapterFiles::rank() const {
  int64_t largest = 0;
  for (const AdapterMatrix& matrix : matrices_) largest = std::max(largest, matrix.rank());
  return largest;
}

int64_t AdapterFiles::bytes() const {
  int64_t numbers = 0;
  for (const AdapterMatrix& matrix : matrices_) numbers += matrix.rank() * (matrix.a.cols() + matrix.b.rows());
  return numbers * static_cast<int64_t>(sizeof(float));
}

void AdapterFiles::CloseFiles() {
  for (AdapterMatrix& matrix : matrices_) matrix.a.data = matrix.b.data = {};
  files_.clear();
}

}  // namespace quire
