#include "coordinator/cluster/launch/draft_model.h"

#include <algorithm>
#include <filesystem>

#include "comm/base/error.h"
#include "coordinator/cluster/launch/rank_hosts.h"

namespace quire {

namespace {

/// Returns the reason why the model `draft` cannot draft tokens for `served`; empty when it can.
std::string WhyNoPair(const ModelSpec& draft, const ModelSpec& served) {
  if (served.bidirectional) return "the served model makes embeddings or scores, and no text";
  if (draft.num_state_layers() > 0)
    return "the draft model carries a state from token to token; take one whose layers are all attention";
  if (draft.bidirectional || !draft.has_head) return "the draft model makes no text";
  return "";
}

/// Opens the draft model, or the prediction layer of the served model's files.
ModelFiles OpenDraft(const Topology::Speculation& settings, const ModelFiles& served) {
  if (settings.method == SpeculationMethod::kDraftModel)
    return ReadAsSettings([&] { return ModelFiles::Open(settings.draft_model, served.load_format()); });
  try {
    return ModelFiles::OpenPrediction(served.path(), served.load_format());
  } catch (const Error& error) {
    FailSettings("--speculative-config, method mtp: {}", error.what());
  }
}

}  // namespace

DraftModelSettings DraftModelOf(const Topology& topology, const ModelFiles& model) {
  const Topology::Speculation& settings = topology.speculation;
  const bool predicts = settings.method == SpeculationMethod::kMtp;
  if (!predicts && settings.method != SpeculationMethod::kDraftModel) return {};
  const ModelFiles draft = OpenDraft(settings, model);
  if (const std::string why = WhyNoPair(draft.spec(), model.spec()); !why.empty())
    FailSettings("--speculative-config: {} cannot guess for {}: {}", draft.path(), model.path(), why);
  // Workers on other nodes have other working directories, so the path must be absolute.
  const std::string path = OnThisHost(topology) ? draft.path() : std::filesystem::absolute(draft.path()).string();
  return {.path = path,
          .fingerprint = draft.Fingerprint(),
          .num_tokens = settings.num_tokens,
          .max_sequences = std::min(settings.disable_by_batch_size, topology.scheduler.max_running),
          .max_model_len = static_cast<int32_t>(std::min<int64_t>(draft.spec().max_position, INT32_MAX)),
          .predicts = predicts};
}

int32_t MostDraftRows(const Topology& topology) {
  const Topology::Speculation& settings = topology.speculation;
  if (settings.method == SpeculationMethod::kOff) return 0;
  return std::min(settings.disable_by_batch_size, topology.scheduler.max_running) * (1 + settings.num_tokens);
}

}  // namespace quire
