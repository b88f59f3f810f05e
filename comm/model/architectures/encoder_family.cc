#include "comm/model/architectures/encoder_family.h"

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire::architectures {

void SetEncoder(ModelSpec& spec) {
  spec.bidirectional = true;
  spec.has_head = false;
  spec.tied_embeddings = false;
}

bool Classifies(const HfConfig& config) {
  const std::vector<std::string> names = config.Texts("architectures");
  return !names.empty() && names.front().ends_with("ForSequenceClassification");
}

int64_t LabelsOf(const HfConfig& config) {
  if (config.Has("id2label")) {
    const Json& labels = config.At("id2label");
    if (!labels.is_object()) Fail("{}: id2label must be an object", config.path());
    return static_cast<int64_t>(labels.size());
  }
  return config.Count("num_labels", 2);
}

void AddPooledHead(const ModelSpec& spec, const PooledHeadNames& names, std::vector<WeightSpec>& weights) {
  const PooledHead& head = spec.pooled_head;
  const auto add = [&](bool wanted, Role role, const char* name, Axis rows, Axis cols = Axis::kOne) {
    if (wanted) weights.push_back({role, name, rows, cols});
  };
  add(head.inner, Role::kPooledIn, names.in, Axis::kHidden, Axis::kHidden);
  add(head.inner_bias, Role::kPooledInBias, names.in_bias, Axis::kHidden);
  add(head.norm, Role::kPooledNorm, names.norm, Axis::kHidden);
  add(head.norm_bias, Role::kPooledNormBias, names.norm_bias, Axis::kHidden);
  add(head.outputs > 0, Role::kPooledOut, names.out, Axis::kOutputs, Axis::kHidden);
  add(head.outputs > 0, Role::kPooledOutBias, names.out_bias, Axis::kOutputs);
}

}  // namespace quire::architectures
