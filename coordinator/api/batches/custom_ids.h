#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "coordinator/text/tokenizer/keyed_hash.h"

namespace quire {

/// The custom_ids of a batch, as hashes of 128 bits under a random key, so that the length of the texts costs no
/// memory.
class CustomIds {
 public:
  /// The most bytes that one custom_id takes: its node of the table and its part of the bucket array.
  static constexpr int64_t kBytesOfOne = 72;

  /// The result of Add. kNew: the custom_id is new. kRecorded: its request has a recorded result. kTwice: the input
  /// file has the custom_id already.
  enum class Found { kNew, kRecorded, kTwice };

  /// Adds the custom_id of a request that has a result.
  void AddRecorded(std::string_view id) { (void)in_input_.try_emplace(HashOf(id), false); }
  /// Adds the custom_id of a request in the input file.
  Found Add(std::string_view id) {
    const auto [entry, is_new] = in_input_.try_emplace(HashOf(id), true);
    if (is_new) return Found::kNew;
    if (entry->second) return Found::kTwice;
    entry->second = true;
    return Found::kRecorded;
  }
  size_t size() const { return in_input_.size(); }

 private:
  struct Hash {
    uint64_t low = 0, high = 0;
    bool operator==(const Hash&) const = default;
  };
  struct LowPart {
    size_t operator()(const Hash& hash) const noexcept { return hash.low; }
  };
  static Hash HashOf(std::string_view id) { return {KeyedHash()(id), KeyedHash()("#" + std::string(id))}; }

  std::unordered_map<Hash, bool, LowPart> in_input_;  // custom_id -> true when the input file has it
};

}  // namespace quire
