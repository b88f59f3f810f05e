#pragma once

#include <string>
#include <vector>

#include "comm/base/secret_file.h"
#include "comm/base/types.h"

namespace quire {

/// A CurveZMQ key pair, both halves as 40 characters of Z85.
struct CurveKeyPair {
  std::string public_key;
  Secret secret_key;  // without a terminating zero
};

/// What the coordinator needs: its own pair, and who may connect.
struct CoordinatorKeys {
  CurveKeyPair own;
  std::vector<std::string> workers;  // public keys; element r is rank r's
};

/// What the worker of one rank needs: its own pair, and whom it may talk to.
struct WorkerKeys {
  CurveKeyPair own;
  std::string coordinator;  // its public key
};

/// A key directory (mode 0700): coordinator.secret, coordinator.pub, workers/r0.secret, workers/r0.pub, ... Every file
/// is one line of Z85. Secrets are of mode 0600. Anything else is refused with its path and the remedy (secret_file.h).
CoordinatorKeys LoadCoordinatorKeys(const std::string& directory, int num_ranks);
/// Reads no secret but the rank's own: a host needs only the files of its ranks and coordinator.pub.
WorkerKeys LoadWorkerKeys(const std::string& directory, Rank rank);

/// Makes the directory with keys for that many ranks. Keys that are there stay as they are: what comes back are the
/// files that were written.
std::vector<std::string> WriteTransportKeys(const std::string& directory, int num_ranks);

CurveKeyPair MakeCurveKeyPair();
CurveKeyPair CopyOf(const CurveKeyPair& pair);

}  // namespace quire
