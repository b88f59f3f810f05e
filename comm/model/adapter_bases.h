#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/adapter_files.h"

namespace quire {

/// The weights to which adapters may add low-rank products. The LoRA matrices of weights that are computed in one
/// product, such as queries, keys and values, are stacked in this order.
inline constexpr Role kAdapterRoles[] = {
    Role::kQuery,       Role::kKey,         Role::kValue,      Role::kAttentionGate, Role::kAttentionOut,
    Role::kGate,        Role::kUp,          Role::kDown,       Role::kConvInGate,    Role::kConvOutGate,
    Role::kConvIn,      Role::kConvOut,     Role::kStateQuery, Role::kStateKey,      Role::kStateValue,
    Role::kStateGate,   Role::kStateBeta,   Role::kStateDecay, Role::kStateOut,      Role::kRouter,
    Role::kSharedScale, Role::kExpertGate,  Role::kExpertUp,   Role::kExpertDown,    Role::kSharedGate,
    Role::kSharedUp,    Role::kSharedDown,  Role::kLayerInputGate, Role::kLayerInputOut, Role::kLayerProjection};

/// A matrix of a base model under the name that adapter files use for it.
struct BaseMatrix {
  int64_t layer = 0, rows = 0, cols = 0;  // rows and columns of W in y = x * W^T, whatever the file's order
  int64_t expert = kAllExperts;
  bool stacked = false;  // one tensor holds the matrices of all experts
  std::vector<AdaptedWeight> weights = {};
  bool takes_adapters = true;
};
using BaseMatrices = std::map<std::string, BaseMatrix>;

/// Returns the model's matrices, without embeddings and heads, by the names of their tensors in files with this naming.
/// Versions of HF store the matrices of experts stacked or separately. So the result for an HF model with stacked
/// experts (gates before ups) has each expert's matrices under names of their own, too.
BaseMatrices BaseMatricesOf(const ModelSpec& spec, Naming naming);

/// Returns the gate and up projections of a layer's experts, or with `downs` their down projections, stacked as newer
/// versions of HF store them. Returns nullopt for a layer without experts.
std::optional<BaseMatrix> StackedExperts(const ModelSpec& spec, int64_t layer, bool downs);

/// Returns the other names that a module has in other versions of HF: block_sparse_moe became mlp in some families.
std::vector<std::string> OtherModuleNames(const std::string& module);

/// Returns the first number among the parts of a module's name, which is the number of its layer; nullopt without one.
std::optional<int64_t> LayerNumberIn(const std::string& module);

/// Returns the name of the embedding or of the head, even if the model's files have one tensor for both.
std::string TableName(const ModelSpec& spec, Role role, Naming naming);

/// Returns the spec with the orders of rows and columns that files with the naming `of_other` have, if `spec` describes
/// a file of the other kind (GGUF or safetensors). Returns nullopt if these orders are not known.
std::optional<ModelSpec> LayoutOfOtherFormat(const ModelSpec& spec, Naming of_other);

}  // namespace quire
