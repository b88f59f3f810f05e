#include "comm/grammar/token_bytes.h"

#include "comm/base/utf8.h"

namespace quire {

namespace {

/// True when the token has two neighbouring bytes that UTF-8 does not allow one after the other (MayFollow). xgrammar
/// by itself accepts such bytes.
bool IsInvalidInside(const std::string& bytes) {
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    if (!MayFollow(static_cast<unsigned char>(bytes[i]), static_cast<unsigned char>(bytes[i + 1]))) return true;
  }
  return false;
}

}  // namespace

TokenBytes::TokenBytes(const Vocabulary& vocabulary) : of(vocabulary.bytes) {
  for (size_t token = 0; token < of.size(); ++token) {
    if (IsInvalidInside(of[token])) of[token].clear();
    const unsigned char first = of[token].empty() ? 0 : static_cast<unsigned char>(of[token][0]);
    if (first >= 0x80 && first < 0xc0) continuing.push_back(static_cast<TokenId>(token));
  }
}

unsigned char TokenBytes::LastOf(std::span<const TokenId> tokens) const {
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
    const auto index = static_cast<size_t>(*token);
    if (index < of.size() && !of[index].empty()) return static_cast<unsigned char>(of[index].back());
  }
  return 0;
}

}  // namespace quire
