#include "comm/model/checksums.h"

#include <sodium.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <vector>

#include "comm/base/error.h"
#include "comm/model/formats/gguf_parts.h"
#include "comm/model/model_tree.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxListBytes = 1 << 20;
constexpr size_t kHexDigits = 2 * crypto_hash_sha256_BYTES;

/// Reads the list and returns the hexadecimal digests by file name. Throws Error for a malformed line, and for a name
/// with two different digests.
std::map<std::string, std::string> ReadList(const std::string& path) {
  std::map<std::string, std::string> digests;
  std::istringstream lines(RegularFile::Open(path, RegularFile::Links::kFollowed).ReadAll(kMaxListBytes));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const bool whole = line.size() > kHexDigits + 2 && line.find_first_not_of("0123456789abcdef") == kHexDigits &&
                       (line.substr(kHexDigits, 2) == "  " || line.substr(kHexDigits, 2) == " *");
    if (!whole) Fail("{}:{}: not a line of sha256sum: 64 hexadecimal digits, two spaces, a file's name", path, number);
    const std::string name = fs::path(line.substr(kHexDigits + 2)).lexically_normal().string();
    const auto [at, is_new] = digests.emplace(name, line.substr(0, kHexDigits));
    if (!is_new && at->second != line.substr(0, kHexDigits))
      Fail("{}:{}: {} is there twice, with different digests", path, number, name);
  }
  return digests;
}

std::string DigestOf(const RegularFile& file) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<char> piece(1 << 20);
  while (const size_t size = file.Read(piece))
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(piece.data()), size);
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state, digest);
  char hex[kHexDigits + 1];
  sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
  return hex;
}

void VerifyFile(const RegularFile& file, const std::string& name, const std::string& list_path,
                const std::map<std::string, std::string>& digests) {
  const auto expected = digests.find(name);
  if (expected == digests.end()) {
    Fail("{} is not in {}: make the list in the model's directory, with sha256sum and the names of its files",
         file.path(), list_path);
  }
  const std::string digest = DigestOf(file);
  if (digest != expected->second) {
    Fail("{} is not the file that {} means: its SHA-256 is {}, not {}: fetch it again", file.path(), list_path, digest,
         expected->second);
  }
}

/// Returns the names of a directory's files from which a model may be read.
std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string kind = entry.path().extension().string();
    if (kind == ".json" || kind == ".jinja" || kind == ".safetensors")
      names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

int64_t VerifyChecksums(const std::string& model_path, const std::string& list_path) {
  const std::map<std::string, std::string> digests = ReadList(list_path);
  if (!fs::is_directory(model_path)) {
    int64_t bytes = 0;
    for (const std::string& path : GgufPaths(model_path)) {
      const RegularFile file = RegularFile::Open(path, RegularFile::Links::kFollowed);
      VerifyFile(file, fs::path(path).filename().string(), list_path, digests);
      bytes += static_cast<int64_t>(file.size());
    }
    return bytes;
  }
  const ModelTree tree(model_path);
  int64_t bytes = 0;
  for (const std::string& name : NamesIn(model_path)) {
    const RegularFile file = tree.Open(name);
    VerifyFile(file, name, list_path, digests);
    bytes += static_cast<int64_t>(file.size());
  }
  return bytes;
}

}  // namespace quire
