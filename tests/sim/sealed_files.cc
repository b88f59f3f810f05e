#include "tests/sim/sealed_files.h"

#include <cstring>

#include "tests/sim/simulator.h"

namespace quire::sim {

namespace {

StoredBlock BlockOf(const StoredName& name, const std::vector<KvValue>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {name, {bytes.begin(), bytes.end()}};
}

}  // namespace

SealedFiles::SealedFiles(uint64_t seed)
    : random_(RandomOf(seed, Draws::kFiles)),
      is_bad_(random_.Below(2) == 0),
      seal_(std::string(BlockSeal::kSecretBytes, 's'), "a model"),
      other_secret_(std::string(BlockSeal::kSecretBytes, 't'), "a model"),
      other_space_(std::string(BlockSeal::kSecretBytes, 's'), "another model") {}

void SealedFiles::Write(const StoredName& name, const std::vector<KvValue>& values) {
  File file{seal_.Seal(BlockOf(name, values))};
  if (is_bad_ && random_.Below(10) == 0) {
    file.content.resize(static_cast<size_t>(random_.Below(std::ssize(file.content))));
    file.whole = false;
  }
  files_[seal_.FileNameOf(name.hash, name.kind)] = std::move(file);
}

/// Returns the wrong contents that a bad medium returns instead of the file's contents.
std::vector<std::byte> SealedFiles::Lie(const StoredName& name, size_t count, const std::vector<std::byte>& content) {
  std::vector<std::byte> lie = content;
  const std::vector<KvValue> wrong(count, 0xbad);
  switch (random_.Below(5)) {
    case 0:
      lie.resize(static_cast<size_t>(random_.Below(std::ssize(lie))));
      break;
    case 1:
      lie[static_cast<size_t>(random_.Below(std::ssize(lie)))] ^= static_cast<std::byte>(1u << random_.Below(8));
      break;
    case 2: {
      auto other = files_.begin();
      std::advance(other, random_.Below(std::ssize(files_)));
      lie = other->second.content;
      break;
    }
    case 3:
      lie = other_secret_.Seal(BlockOf(name, wrong));
      break;
    default:
      lie = other_space_.Seal(BlockOf(name, wrong));
  }
  return lie;
}

std::optional<std::vector<KvValue>> SealedFiles::Read(const StoredName& name, size_t count) {
  const auto file = files_.find(seal_.FileNameOf(name.hash, name.kind));
  if (file == files_.end()) return std::nullopt;
  std::vector<std::byte> content = file->second.content;
  const bool lies = is_bad_ && !content.empty() && random_.Below(6) == 0;
  const bool loses = is_bad_ && random_.Below(12) == 0;
  if (lies) content = Lie(name, count, content);
  const bool is_right = file->second.whole && content == file->second.content;
  num_lies += loses || !is_right;
  const auto data = loses ? std::nullopt : seal_.Open(name, content, count * sizeof(KvValue));
  if (data && !is_right) throw Failure{"a file opens that the store did not write under its name"};
  if (!data && is_right && !loses) throw Failure{"a file does not open although it is as it was written"};
  if (!data) {
    files_.erase(file);
    return std::nullopt;
  }
  std::vector<KvValue> values(count);
  std::memcpy(values.data(), data->data(), data->size());
  return values;
}

}  // namespace quire::sim
