#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/adapter_files.h"

namespace quire {

/// The weights to which adapters may add low-rank products. The ranks stack those of one product in this order.
inline constexpr Role kAdapterRoles[] = {
    Role::kQuery,       Role::kKey,         Role::kValue,      Role::kAttentionGate, Role::kAttentionOut,
    Role::kGate,        Role::kUp,          Role::kDown,       Role::kConvInGate,    Role::kConvOutGate,
    Role::kConvIn,      Role::kConvOut,     Role::kStateQuery, Role::kStateKey,      Role::kStateValue,
    Role::kStateGate,   Role::kStateBeta,   Role::kStateDecay, Role::kStateOut,      Role::kRouter,
    Role::kSharedScale, Role::kExpertGate,  Role::kExpertUp,   Role::kExpertDown,    Role::kSharedGate,
    Role::kSharedUp,    Role::kSharedDown,  Role::kLayerInputGate, Role::kLayerInputOut, Role::kLayerProjection};

/// A matrix of a base model under the name that adapters have for it.
struct BaseMatrix {
  int64_t layer = 0, rows = 0, cols = 0;  // rows and columns of W in y = x * W^T, in any order of the file
  int64_t expert = kAllExperts;
  bool stacked = false;  // one tensor holds the matrices of all experts
  std::vector<AdaptedWeight> weights = {};
  bool takes_adapters = true;
};
using BaseMatrices = std::map<std::string, BaseMatrix>;

/// Returns the model's matrices by the names of their tensors in files with this naming; without embeddings and heads.
/// An HF model has its experts' matrices under two names where HF's versions differ: stacked and apart.
BaseMatrices BaseMatricesOf(const ModelSpec& spec, Naming naming);

/// Returns the gates and ups of a layer's experts, or their downs, as newer versions of HF hold them: stacked. Nothing
/// for a layer without experts.
std::optional<BaseMatrix> StackedExperts(const ModelSpec& spec, int64_t layer, bool downs);

/// Other names of a module in HF, whose versions differ: block_sparse_moe became mlp in some families.
std::vector<std::string> OtherModuleNames(const std::string& module);

/// The first number among the parts of a module's name: its layer.
std::optional<int64_t> LayerNumberIn(const std::string& module);

/// The names of the embedding and of the head, also where the model's files have one tensor for both.
std::string TableName(const ModelSpec& spec, Role role, Naming naming);

/// The spec with the orders of rows and columns that the other kind of file has, GGUF or safetensors. Nothing where
/// these orders are not known.
std::optional<ModelSpec> LayoutOfOtherFormat(const ModelSpec& spec, Naming of_other);

}  // namespace quire
