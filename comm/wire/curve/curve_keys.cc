#include "comm/wire/curve/curve_keys.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr size_t kZ85Bytes = 40;
constexpr size_t kMaxFileBytes = 4096;
constexpr int kMaxRanks = 1024;  // most ranks; a topology allows no more

void CheckCurve() {
  if (::zmq_has("curve") != 1)
    Fail("this machine's ZeroMQ was built without CURVE: it cannot encrypt; install the distribution's libzmq");
}

/// Reads a key file, which has a single line.
Secret ReadKey(const std::string& path, FileAccess access) {
  const Secret file = ReadGuardedFile(path, access, kMaxFileBytes);
  std::string_view line = file.view();
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  Secret raw(32), key(kZ85Bytes + 1);  // `key` ends with a zero for the decoder
  const bool right_size = line.size() == kZ85Bytes;
  if (right_size) {
    std::memcpy(key.data(), line.data(), kZ85Bytes);
    key.data()[kZ85Bytes] = '\0';
  }
  const bool valid = right_size && line.find('\0') == std::string_view::npos &&
                     ::zmq_z85_decode(reinterpret_cast<uint8_t*>(raw.data()), key.data()) != nullptr;
  if (!valid) Fail("{}: a key is one line of {} characters of Z85 (quire keygen --transport)", path, kZ85Bytes);
  key.Shorten(kZ85Bytes);
  return key;
}

std::string ReadPublicKey(const std::string& path) {
  return std::string(ReadKey(path, FileAccess::kOthersMayRead).view());
}

/// Reads the key files `name`.secret and `name`.pub. Throws Error unless the two keys are a pair.
CurveKeyPair ReadPair(const std::string& name) {
  CurveKeyPair pair{ReadPublicKey(name + ".pub"), ReadKey(name + ".secret", FileAccess::kOwnerOnly)};
  std::array<char, kZ85Bytes + 1> derived{};
  // The secret key was shortened by one byte, so the zero byte that the decoder needs still follows the key in memory.
  ::zmq_curve_public(derived.data(), pair.secret_key.data());
  if (derived.data() != pair.public_key)
    Fail("{}.pub does not belong to {}.secret: copy both from where they were made", name, name);
  return pair;
}

void CheckDirectory(const std::string& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    FailSettings("there is no key directory {}: quire keygen --transport {} --ranks N", directory, directory);
  if (info.st_uid != ::geteuid())
    FailSettings("{} belongs to user {}, this process is user {}", directory, info.st_uid, ::geteuid());
  if ((info.st_mode & 077) != 0)
    FailSettings("others can reach into {} (mode {:04o}): chmod 0700 {}", directory, info.st_mode & 07777, directory);
}

std::string WorkerName(const std::string& directory, Rank rank) {
  return fmt::format("{}/workers/r{}", directory, rank);
}

void MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    FailSettings("cannot make {}: {}", path, std::strerror(errno));
}

void WritePair(const std::string& name, std::vector<std::string>& written) {
  std::error_code ignored;
  if (std::filesystem::exists(name + ".secret", ignored)) return;
  CurveKeyPair pair = MakeCurveKeyPair();
  Secret line(pair.secret_key.size() + 1);
  std::memcpy(line.data(), pair.secret_key.data(), pair.secret_key.size());
  line.data()[pair.secret_key.size()] = '\n';
  CreateFile(name + ".secret", line.view(), 0600);
  CreateFile(name + ".pub", pair.public_key + "\n", 0644);
  written.push_back(name + ".secret");
  written.push_back(name + ".pub");
}

}  // namespace

CurveKeyPair MakeCurveKeyPair() {
  CheckCurve();
  CurveKeyPair pair{std::string(kZ85Bytes + 1, '\0'), Secret(kZ85Bytes + 1)};
  if (::zmq_curve_keypair(pair.public_key.data(), pair.secret_key.data()) != 0)
    Fail("cannot make a key pair: {}", ::zmq_strerror(::zmq_errno()));
  pair.public_key.resize(kZ85Bytes);
  pair.secret_key.Shorten(kZ85Bytes);
  return pair;
}

CurveKeyPair CopyOf(const CurveKeyPair& pair) {
  CurveKeyPair copy{pair.public_key, Secret(pair.secret_key.size() + 1)};
  std::memcpy(copy.secret_key.data(), pair.secret_key.view().data(), pair.secret_key.size());
  copy.secret_key.data()[pair.secret_key.size()] = '\0';
  copy.secret_key.Shorten(pair.secret_key.size());
  return copy;
}

CoordinatorKeys LoadCoordinatorKeys(const std::string& directory, int num_ranks) {
  CheckCurve();
  CheckDirectory(directory);
  CoordinatorKeys keys{ReadPair(directory + "/coordinator"), {}};
  std::error_code ignored;
  for (Rank rank = 0; rank < kMaxRanks; ++rank) {
    const std::string path = WorkerName(directory, rank) + ".pub";
    if (!std::filesystem::exists(path, ignored)) break;
    std::string key = ReadPublicKey(path);
    if (key == keys.own.public_key || std::ranges::find(keys.workers, key) != keys.workers.end())
      Fail("{}: another one has the same key, but every rank needs its own", path);
    keys.workers.push_back(std::move(key));
  }
  if (static_cast<int>(keys.workers.size()) < num_ranks) {
    Fail("{} has keys for {} workers, {} are needed: quire keygen --transport {} --ranks {} adds them", directory,
         keys.workers.size(), num_ranks, directory, num_ranks);
  }
  return keys;
}

WorkerKeys LoadWorkerKeys(const std::string& directory, Rank rank) {
  CheckCurve();
  CheckDirectory(directory);
  return {ReadPair(WorkerName(directory, rank)), ReadPublicKey(directory + "/coordinator.pub")};
}

std::vector<std::string> WriteTransportKeys(const std::string& directory, int num_ranks) {
  CheckCurve();
  MakeDirectory(directory);
  CheckDirectory(directory);
  MakeDirectory(directory + "/workers");
  std::vector<std::string> written;
  WritePair(directory + "/coordinator", written);
  for (Rank rank = 0; rank < num_ranks; ++rank) WritePair(WorkerName(directory, rank), written);
  return written;
}

}  // namespace quire
