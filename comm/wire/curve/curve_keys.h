#pragma once

#include <string>
#include <vector>

#include "comm/base/secret_file.h"
#include "comm/base/types.h"

namespace quire {

/// A CurveZMQ key pair. Each key is 40 characters of Z85.
struct CurveKeyPair {
  std::string public_key;
  Secret secret_key;  // secret key without a terminating zero
};

/// The coordinator's key pair, and the public keys of the workers that may connect.
struct CoordinatorKeys {
  CurveKeyPair own;
  std::vector<std::string> workers;  // public keys, by rank
};

/// The key pair of one rank's worker, and the public key of its coordinator.
struct WorkerKeys {
  CurveKeyPair own;
  std::string coordinator;  // public key
};

/// Reads a key directory (mode 0700): coordinator.secret, coordinator.pub, workers/r0.secret, workers/r0.pub, ... Every
/// file is one line of Z85; secrets have mode 0600. Throws Error with the path and a remedy if anything differs from
/// this (secret_file.h), and when fewer than `num_ranks` workers have keys.
CoordinatorKeys LoadCoordinatorKeys(const std::string& directory, int num_ranks);
/// Reads only the rank's own keys and coordinator.pub, so a host needs no secret of another host's ranks.
WorkerKeys LoadWorkerKeys(const std::string& directory, Rank rank);

/// Creates the directory with keys for `num_ranks` ranks. Existing keys stay as they are. Returns the paths of the
/// files that were written.
std::vector<std::string> WriteTransportKeys(const std::string& directory, int num_ranks);

CurveKeyPair MakeCurveKeyPair();
CurveKeyPair CopyOf(const CurveKeyPair& pair);

}  // namespace quire
