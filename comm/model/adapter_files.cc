#include "comm/model/adapter_files.h"

#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "comm/base/error.h"
#include "comm/model/adapter_bases.h"
#include "comm/model/adapter_config.h"
#include "comm/model/adapter_readers.h"
#include "comm/model/formats/safetensors.h"
#include "comm/model/model_files.h"
#include "comm/model/model_tree.h"

namespace quire {

namespace {

constexpr size_t kMaxConfigBytes = 4 << 20;
constexpr const char *kAdapterConfig = "adapter_config.json", *kAdapterTensors = "adapter_model.safetensors";

std::string HexHash(std::span<const std::byte> tensors, const std::string& config) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, crypto_generichash_BYTES_MIN);
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(tensors.data()), tensors.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(config.data()), config.size());
  unsigned char digest[crypto_generichash_BYTES_MIN];
  crypto_generichash_final(&state, digest, sizeof(digest));
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

/// Refuses a large file of which less than an eighth is on the disk, because reading the remaining zeros could take
/// hours. Some file systems do not report a file's blocks; their files are accepted.
void CheckIsOnDisk(const RegularFile& file) {
  constexpr size_t kSmall = 64 << 20, kBlockBytes = 512;
  const size_t stored = static_cast<size_t>(file.info().st_blocks) * kBlockBytes;
  if (file.size() <= kSmall || stored == 0 || stored >= file.size() / 8) return;
  Fail("{}: only {} of its {} bytes are on the disk, the others are holes (incomplete download?)", file.path(), stored,
       file.size());
}

MappedFile Mapped(const RegularFile& file, std::optional<size_t> most_bytes) {
  CheckIsOnDisk(file);
  return most_bytes ? MappedFile(file, *most_bytes) : MappedFile(file);
}

/// Returns the reason why this model takes no adapters; empty if it takes adapters.
std::string Refusal(const ModelFiles& base) {
  if (base.spec().latent.rank > 0) return "models with latent attention take no adapters";
  if (base.spec().bidirectional) return "encoders take no adapters";
  return "";
}

/// Refuses two matrices that change the same weight, such as an expert's own matrix and the expert's part of a stack.
void CheckOnce(const std::vector<AdapterMatrix>& matrices, const std::string& path) {
  std::map<std::tuple<int64_t, Role, int64_t>, const std::string*> seen;
  for (const AdapterMatrix& matrix : matrices) {
    for (const AdaptedWeight& weight : matrix.weights) {
      const auto [other, is_new] = seen.try_emplace({matrix.layer, weight.role, matrix.expert}, &matrix.module);
      if (!is_new)
        Fail("{}: tensors of {} and of {} change the same weight of the base model", path, *other->second,
             matrix.module);
    }
  }
}

/// Returns the base model's description with the order of rows and columns of an adapter's file. Throws Error if that
/// order is unknown for this kind of model.
ModelSpec LayoutFor(const ModelFiles& base, Naming naming, const std::string& path) {
  if ((base.gguf() != nullptr) == (naming == Naming::kGguf)) return base.spec();
  const auto layout = LayoutOfOtherFormat(base.spec(), naming);
  if (!layout)
    Fail("{}: the base model is a {} {}, whose rows have an order of their own there: use {}", path,
         base.spec().architecture, base.gguf() != nullptr ? "GGUF file" : "safetensors model",
         base.gguf() != nullptr ? "an adapter in GGUF (llama.cpp's convert_lora_to_gguf.py)" : "a PEFT directory");
  return *layout;
}

}  // namespace

AdapterFiles AdapterFiles::Open(const std::string& path, const ModelFiles& base, std::optional<size_t> most_bytes) {
  if (const std::string refusal = Refusal(base); !refusal.empty()) Fail("{}: {}", path, refusal);
  AdapterFiles adapter;
  adapter.path_ = path;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    adapter.OpenGguf(base, most_bytes);
  } else {
    adapter.OpenPeft(base, most_bytes);
  }
  CheckOnce(adapter.matrices(), path);
  return adapter;
}

void AdapterFiles::OpenPeft(const ModelFiles& base, std::optional<size_t> most_bytes) {
  const ModelTree tree(path_);
  if (!tree.Has(kAdapterTensors))
    Fail("{}: holds no {}; other formats are not read (PEFT writes it with safe_serialization)", path_,
         kAdapterTensors);
  const std::string text = tree.ReadText(kAdapterConfig, kMaxConfigBytes);
  const AdapterConfig config(text, tree.PathOf(kAdapterConfig));
  files_.push_back(Mapped(tree.Open(kAdapterTensors), most_bytes));
  const MappedFile& file = files_.front();
  file_bytes_ = file.bytes().size();
  layout_ = LayoutFor(base, Naming::kHf, path_);
  contents_ = ReadPeftTensors(base, layout_, config, file.path(), ReadSafetensors(file.bytes(), file.path()));
  fingerprint_ = HexHash(file.bytes(), text);
}

void AdapterFiles::OpenGguf(const ModelFiles& base, std::optional<size_t> most_bytes) {
  files_.push_back(Mapped(RegularFile::Open(path_, RegularFile::Links::kFollowed), most_bytes));
  const MappedFile& file = files_.front();
  file_bytes_ = file.bytes().size();
  layout_ = LayoutFor(base, Naming::kGguf, path_);
  contents_ = ReadGgufAdapter(base, layout_, ReadGguf(file.bytes(), file.path()));
  fingerprint_ = HexHash(file.bytes(), "");
}

int64_t AdapterFiles::rank() const {
  const AdapterTable& embedding = contents_.embedding;
  int64_t largest = embedding.b.shape.empty() ? 0 : embedding.b.cols();
  for (const AdapterMatrix& matrix : matrices()) largest = std::max(largest, matrix.rank());
  return largest;
}

int64_t AdapterFiles::bytes() const {
  const auto all = [](const Tensor& tensor) { return tensor.shape.empty() ? 0 : tensor.rows() * tensor.cols(); };
  int64_t numbers = 0;
  for (const AdapterMatrix& matrix : matrices()) numbers += matrix.rank() * (matrix.a.cols() + matrix.b.rows());
  for (const AdapterTable* table : {&embedding(), &head()})
    numbers += all(table->whole) + all(table->rows) + all(table->a) + all(table->b);
  return numbers * static_cast<int64_t>(sizeof(float));
}

void AdapterFiles::CloseFiles() {
  for (AdapterMatrix& matrix : contents_.matrices) matrix.a.data = matrix.b.data = {};
  for (AdapterTable* table : {&contents_.embedding, &contents_.head})
    table->whole.data = table->rows.data = table->a.data = table->b.data = {};
  files_.clear();
}

}  // namespace quire
