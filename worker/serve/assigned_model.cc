#include "worker/serve/assigned_model.h"

#include "comm/base/error.h"

namespace quire {

ModelFiles OpenAssigned(const AssignMessage& assign) {
  ModelFiles files =
      ReadAsSettings([&] { return ModelFiles::Open(assign.model_path, assign.load_format, assign.adapters); });
  const std::string fingerprint = files.Fingerprint();
  if (fingerprint != assign.fingerprint) {
    FailSettings("{}: this host's model{} differs from the coordinator's (fingerprint {} against {})",
                 assign.model_path, assign.adapters.empty() ? "" : " or one of its adapters", fingerprint,
                 assign.fingerprint);
  }
  return files;
}

std::optional<ModelFiles> OpenAssignedDraft(const AssignMessage& assign) {
  const DraftModelSettings& draft = assign.draft;
  if (draft.num_tokens == 0) return std::nullopt;
  ModelFiles files = ReadAsSettings([&] {
    return draft.predicts ? ModelFiles::OpenPrediction(draft.path, assign.load_format)
                          : ModelFiles::Open(draft.path, assign.load_format);
  });
  if (files.Fingerprint() != draft.fingerprint)
    FailSettings("{}: this host's draft model differs from the coordinator's (fingerprint {} against {})", draft.path,
                 files.Fingerprint(), draft.fingerprint);
  return files;
}

}  // namespace quire
