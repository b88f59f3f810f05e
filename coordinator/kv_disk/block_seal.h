#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/kv_disk/stored_block.h"

namespace quire {

/// Turns blocks into the contents of files and back. Every file is encrypted and authenticated (XChaCha20-Poly1305)
/// under its own name. So decryption fails for a changed, shortened or renamed file, and for a file made with another
/// secret. All keys are derived from one secret.
class BlockSeal {
 public:
  static constexpr size_t kSecretBytes = 32;
  using Key = std::array<uint8_t, 32>;

  /// `secret`: kSecretBytes bytes. `space`: a text that says what the blocks of a space have in common: the model, the
  /// type of keys and values, the block size.
  BlockSeal(std::string_view secret, std::string_view space);

  /// Returns the key for hash chains (PrefixCache).
  const PrefixCache::Key& chain_key() const { return chain_key_; }
  /// Returns the name of the space's folder: 16 hexadecimal digits.
  const std::string& folder() const { return folder_; }
  /// Returns the name of the file of a block, of the state after the block, or of a pin: 40 hexadecimal digits.
  std::string FileNameOf(const BlockHash& hash, StoredKind kind = StoredKind::kBlock) const;

  std::vector<std::byte> Seal(const StoredBlock& block) const;
  /// Returns the block's bytes from its file; nullopt unless Seal made the file for exactly this name and this number
  /// of bytes.
  std::optional<std::vector<std::byte>> Open(const StoredName& name, std::span<const std::byte> file,
                                             size_t block_bytes) const;
  /// Returns the block that Seal put into the file; nullopt unless Seal made the file in this space and under this file
  /// name.
  std::optional<StoredBlock> Unseal(const std::string& file_name, std::span<const std::byte> file) const;
  /// Returns the size in bytes of the file for a block of `num_tokens` tokens and `block_bytes` bytes.
  static size_t FileBytes(size_t num_tokens, size_t block_bytes);

 private:
  /// Returns the bytes that were sealed under this file name; nullopt if the file is damaged or was sealed with another
  /// key.
  std::optional<std::vector<std::byte>> Decrypt(const std::string& file_name, std::span<const std::byte> file) const;

  Key file_key_, name_key_, space_digest_;
  PrefixCache::Key chain_key_;
  std::string folder_;
};

/// Returns a new secret, made from the system's random numbers.
std::string NewKvSecret();

}  // namespace quire
