#include "coordinator/kv_disk/block_seal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::string_view kMagic = "QuireKV1";
constexpr size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(BlockSeal::kSecretBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

const unsigned char* Bytes(const void* data) { return static_cast<const unsigned char*>(data); }

/// Hashes `text` under the key into `out`.
void Digest(std::span<uint8_t> out, std::string_view text, std::string_view key) {
  crypto_generichash(out.data(), out.size(), Bytes(text.data()), text.size(), Bytes(key.data()), key.size());
}

std::string_view View(const BlockSeal::Key& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

/// Returns the head of a sealed file, which stands before the block's bytes: the space, the name and the sizes.
std::vector<std::byte> HeadOf(const StoredName& name, const BlockSeal::Key& space, uint64_t block_bytes) {
  std::vector<std::byte> head;
  const auto add = [&](const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    head.insert(head.end(), begin, begin + bytes);
  };
  const uint64_t num_tokens = name.tokens.size();
  add(space.data(), space.size());
  add(&name.parent, sizeof(name.parent));
  add(&name.hash, sizeof(name.hash));
  add(&num_tokens, sizeof(num_tokens));
  add(&block_bytes, sizeof(block_bytes));
  add(name.tokens.data(), name.tokens.size() * sizeof(TokenId));
  return head;
}

}  // namespace

BlockSeal::BlockSeal(std::string_view secret, std::string_view space) {
  if (secret.size() != kSecretBytes) Fail("a secret of {} bytes instead of {}", secret.size(), kSecretBytes);
  Digest(file_key_, "files", secret);
  Digest(name_key_, "names", secret);
  Digest(space_digest_, space, View(name_key_));
  // Each space has its own chains, so the hash of a block tells nothing of blocks in another space.
  Digest(chain_key_, fmt::format("chains of {}", View(space_digest_)), secret);
  folder_ = fmt::format("{:02x}", fmt::join(std::span(space_digest_).first(8), ""));
}

std::string BlockSeal::FileNameOf(const BlockHash& hash, StoredKind kind) const {
  std::array<uint8_t, 20> digest;
  std::string text(View(space_digest_));
  text.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  if (kind == StoredKind::kState) text += "state";
  Digest(digest, text, View(name_key_));
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

size_t BlockSeal::FileBytes(size_t num_tokens, size_t block_bytes) {
  const size_t head = sizeof(Key) + 2 * sizeof(BlockHash) + 2 * sizeof(uint64_t) + num_tokens * sizeof(TokenId);
  return kMagic.size() + kNonceBytes + head + block_bytes + kTagBytes;
}

std::vector<std::byte> BlockSeal::Seal(const StoredBlock& block) const {
  std::vector<std::byte> text = HeadOf(block.name, space_digest_, block.data.size());
  text.insert(text.end(), block.data.begin(), block.data.end());
  std::vector<std::byte> file(kMagic.size() + kNonceBytes + text.size() + kTagBytes);
  std::memcpy(file.data(), kMagic.data(), kMagic.size());
  auto* nonce = reinterpret_cast<unsigned char*>(file.data() + kMagic.size());
  randombytes_buf(nonce, kNonceBytes);
  const std::string name = FileNameOf(block.name.hash, block.name.kind);
  crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + kNonceBytes, nullptr, Bytes(text.data()), text.size(),
                                             Bytes(name.data()), name.size(), nullptr, nonce, file_key_.data());
  return file;
}

std::optional<std::vector<std::byte>> BlockSeal::Decrypt(const std::string& file_name,
                                                         std::span<const std::byte> file) const {
  if (file.size() < FileBytes(0, 0) || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) return std::nullopt;
  const unsigned char* nonce = Bytes(file.data() + kMagic.size());
  const size_t sealed = file.size() - kMagic.size() - kNonceBytes;
  std::vector<std::byte> text(sealed - kTagBytes);
  const int status = crypto_aead_xchacha20poly1305_ietf_decrypt(
      reinterpret_cast<unsigned char*>(text.data()), nullptr, nullptr, nonce + kNonceBytes, sealed,
      Bytes(file_name.data()), file_name.size(), nonce, file_key_.data());
  return status == 0 ? std::optional(std::move(text)) : std::nullopt;
}

std::optional<std::vector<std::byte>> BlockSeal::Open(const StoredName& name, std::span<const std::byte> file,
                                                      size_t block_bytes) const {
  if (file.size() != FileBytes(name.tokens.size(), block_bytes)) return std::nullopt;
  auto text = Decrypt(FileNameOf(name.hash, name.kind), file);
  const std::vector<std::byte> head = HeadOf(name, space_digest_, block_bytes);
  if (!text || !std::equal(head.begin(), head.end(), text->begin())) return std::nullopt;
  text->erase(text->begin(), text->begin() + static_cast<ptrdiff_t>(head.size()));
  return text;
}

bool BlockSeal::Verify(const std::string& file_name, std::span<const std::byte> file) const {
  const auto text = Decrypt(file_name, file);
  return text && std::memcmp(text->data(), space_digest_.data(), space_digest_.size()) == 0;
}

std::string NewKvSecret() {
  std::string secret(BlockSeal::kSecretBytes, '\0');
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

}  // namespace quire
