#include "worker/model/mixer_weights.h"

#include <cmath>

#include "worker/model/weight_slice.h"

namespace quire {

namespace {

bool IsShortConvolution(const ModelFiles& files, int64_t layer) {
  return files.spec().layers[static_cast<size_t>(layer)].mixer == Mixer::kShortConvolution;
}

}  // namespace

std::vector<Role> MixerInRoles(const ModelFiles& files, int64_t layer) {
  if (IsShortConvolution(files, layer)) return {Role::kConvInGate, Role::kConvOutGate, Role::kConvIn};
  std::vector<Role> roles = {Role::kStateQuery, Role::kStateKey, Role::kStateValue, Role::kStateGate};
  if (files.Has(Role::kStateBeta, layer)) roles.push_back(Role::kStateBeta);
  roles.push_back(Role::kStateDecay);
  return roles;
}

Role MixerOutRole(const ModelFiles& files, int64_t layer) {
  return IsShortConvolution(files, layer) ? Role::kConvOut : Role::kStateOut;
}

MixerVectors ReadMixerVectors(const ModelFiles& files, const RankShard& shard, int64_t layer) {
  MixerVectors out;
  if (IsShortConvolution(files, layer)) {
    out.taps = ReadTaps(files, shard, {Role::kConvTaps}, layer);
    return out;
  }
  out.taps = ReadTaps(files, shard, {Role::kStateQueryTaps, Role::kStateKeyTaps, Role::kStateValueTaps}, layer);
  for (const Role role : {Role::kStateQueryTapsBias, Role::kStateKeyTapsBias, Role::kStateValueTapsBias}) {
    const std::vector<float> bias = ReadVector(files, shard, role, layer);
    out.taps_bias.insert(out.taps_bias.end(), bias.begin(), bias.end());
  }
  out.rate = ReadVector(files, shard, Role::kStateRate, layer);
  for (float& rate : out.rate) rate = files.spec().recurrence.rates_negated ? -rate : std::exp(rate);
  out.decay_bias = ReadVector(files, shard, Role::kStateDecayBias, layer);
  out.skip = ReadVector(files, shard, Role::kStateSkip, layer);
  out.norm = ReadVector(files, shard, Role::kStateNorm, layer);
  return out;
}

}  // namespace quire
