#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

#include "comm/base/json.h"

namespace quire {

/// Returns the bytes of the texts and names in a JSON tree, plus 8 bytes for each value.
size_t TextBytes(const OrderedJson& json);

/// Bounds the text that one request expands to. The server may repeat a client's text for each reference to it, so
/// without a bound a short request could fill the memory. The class is not thread-safe.
class TextGrowth {
 public:
  static constexpr size_t kMostTimes = 8;
  static constexpr size_t kBeside = 1 << 20;

  /// `field`: the request's field that holds the text, for the error. `bytes`: the size of the text that the client
  /// sent.
  TextGrowth(std::string field, size_t bytes, std::stop_token stop = {});

  /// Counts a text of `bytes` bytes. Call it before the text is made. Throws ApiError 400 when all texts together
  /// exceed kMostTimes times the client's bytes, plus kBeside bytes. Throws Error when a stop was requested on the
  /// constructor's `stop`.
  void Add(size_t bytes);
  /// Raises the bound as if the client had sent `bytes` more bytes. Call it for text that the client did not send, such
  /// as a stored answer that the request names.
  void Allow(size_t bytes) { left_ += kMostTimes * bytes; }

 private:
  std::string field_;
  size_t left_;
  std::stop_token stop_;
};

}  // namespace quire
