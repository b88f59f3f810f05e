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

/// Reads the coordinator's keys (coordinator.secret, coordinator.pub) and the workers' public keys (workers/r0.pub,
/// workers/r1.pub, ...) from a key directory. Each file is one line of Z85. Other users must have no access to the
/// directory or to the secret. Throws Error with the path and a remedy if anything is wrong, or when fewer than
/// `num_ranks` workers have keys.
CoordinatorKeys LoadCoordinatorKeys(const std::string& directory, int num_ranks);
/// Reads only the rank's own keys and coordinator.pub, so a host needs no secret of another host's ranks.
WorkerKeys LoadWorkerKeys(const std::string& directory, Rank rank);

/// Creates the directory, with keys for the coordinator and for `num_ranks` ranks. Existing keys stay as they are.
/// Returns the paths of the files that were written.
std::vector<std::string> WriteTransportKeys(const std::string& directory, int num_ranks);

CurveKeyPair MakeCurveKeyPair();
CurveKeyPair CopyOf(const CurveKeyPair& pair);

}  // namespace quire
