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

}  // namespace quire
