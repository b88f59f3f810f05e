#include "coordinator/kv_disk/block_seal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::string_view kMagic = "QuireKV2";
constexpr size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(BlockSeal::kSecretBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

const unsigned char* Bytes(const void* data) { return static_cast<const unsigned char*>(data); }

/// Hashes `text` under the key into `out`.
void Digest(std::span<uint8_t> out, std::string_view text, std::string_view key) {
  crypto_generichash(out.data(), out.size(), Bytes(text.data()), text.size(), Bytes(key.data()), key.size());
}

std::string_view View(const BlockSeal::Key& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

/// The fields at the beginning of a file's encrypted text. `num_tokens` tokens and `block_bytes` bytes follow them.
struct Head {
  BlockSeal::Key space;
  BlockHash parent, hash;
  uint64_t num_tokens, block_bytes;
  PrefixOrigin origin;
};
static_assert(sizeof(Head) == 32 + 2 * 16 + 2 * 8 + 32);

constexpr std::array kKinds = {StoredKind::kBlock, StoredKind::kState, StoredKind::kPin};

std::string_view WordOf(StoredKind kind) {
  switch (kind) {
    case StoredKind::kBlock:
      return "";
    case StoredKind::kState:
      return "state";
    case StoredKind::kPin:
      return "pin";
  }
  return "";
}

}  // namespace

BlockSeal::BlockSeal(std::string_view secret, std::string_view space) {
  if (secret.size() != kSecretBytes) Fail("a secret of {} bytes instead of {}", secret.size(), kSecretBytes);
  Digest(file_key_, "files", secret);
  Digest(name_key_, "names", secret);
  Digest(space_digest_, space, View(name_key_));
  // Each space has its own chains, so a block's hash tells nothing about blocks in another space.
  Digest(chain_key_, fmt::format("chains of {}", View(space_digest_)), secret);
  folder_ = fmt::format("{:02x}", fmt::join(std::span(space_digest_).first(8), ""));
}

std::string BlockSeal::FileNameOf(const BlockHash& hash, StoredKind kind) const {
  std::array<uint8_t, 20> digest;
  std::string text(View(space_digest_));
  text.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  text += WordOf(kind);
  Digest(digest, text, View(name_key_));
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

size_t BlockSeal::FileBytes(size_t num_tokens, size_t block_bytes) {
  return kMagic.size() + kNonceBytes + sizeof(Head) + num_tokens * sizeof(TokenId) + block_bytes + kTagBytes;
}

std::vector<std::byte> BlockSeal::Seal(const StoredBlock& block) const {
  const StoredName& name = block.name;
  const Head head{space_digest_, name.parent, name.hash, name.tokens.size(), block.data.size(), name.origin};
  const auto tokens = std::as_bytes(std::span(name.tokens));
  const auto head_bytes = std::as_bytes(std::span(&head, 1));
  std::vector<std::byte> text(head_bytes.begin(), head_bytes.end());
  text.insert(text.end(), tokens.begin(), tokens.end());
  text.insert(text.end(), block.data.begin(), block.data.end());
  std::vector<std::byte> file(kMagic.size() + kNonceBytes + text.size() + kTagBytes);
  std::memcpy(file.data(), kMagic.data(), kMagic.size());
  auto* nonce = reinterpret_cast<unsigned char*>(file.data() + kMagic.size());
  randombytes_buf(nonce, kNonceBytes);
  const std::string file_name = FileNameOf(name.hash, name.kind);
  crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + kNonceBytes, nullptr, Bytes(text.data()), text.size(),
                                             Bytes(file_name.data()), file_name.size(), nullptr, nonce,
                                             file_key_.data());
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

std::optional<StoredBlock> BlockSeal::Unseal(const std::string& file_name, std::span<const std::byte> file) const {
  const auto text = Decrypt(file_name, file);
  if (!text) return std::nullopt;
  Head head;
  std::memcpy(&head, text->data(), sizeof(head));
  const size_t rest = text->size() - sizeof(head);
  const bool fits = head.num_tokens <= rest / sizeof(TokenId) &&
                    rest - head.num_tokens * sizeof(TokenId) == head.block_bytes && head.space == space_digest_;
  const auto is_named = [&](StoredKind kind) { return FileNameOf(head.hash, kind) == file_name; };
  const auto* kind = std::ranges::find_if(kKinds, is_named);
  if (!fits || kind == kKinds.end()) return std::nullopt;
  StoredBlock block{{head.hash, head.parent, std::vector<TokenId>(head.num_tokens), *kind, head.origin}, {}};
  const std::byte* tokens = text->data() + sizeof(head);
  std::memcpy(block.name.tokens.data(), tokens, head.num_tokens * sizeof(TokenId));
  block.data.assign(tokens + head.num_tokens * sizeof(TokenId), text->data() + text->size());
  return block;
}

std::optional<std::vector<std::byte>> BlockSeal::Open(const StoredName& name, std::span<const std::byte> file,
                                                      size_t block_bytes) const {
  if (file.size() != FileBytes(name.tokens.size(), block_bytes)) return std::nullopt;
  auto block = Unseal(FileNameOf(name.hash, name.kind), file);
  if (!block || block->name.hash != name.hash || block->name.parent != name.parent || block->name.tokens != name.tokens)
    return std::nullopt;
  return std::move(block->data);
}

std::string NewKvSecret() {
  std::string secret(BlockSeal::kSecretBytes, '\0');
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

}  // namespace quire
