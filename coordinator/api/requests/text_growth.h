#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

#include "comm/base/json.h"

namespace quire {

/// Returns the bytes of a JSON tree's texts and names, and 8 for each value.
size_t TextBytes(const OrderedJson& json);

/// Bounds the text that is made of one request. A client's text may be written once for each reference to it, so
/// without a bound a short request could fill the memory. Not thread-safe.
class TextGrowth {
 public:
  static constexpr size_t kMostTimes = 8;
  static constexpr size_t kBeside = 1 << 20;

  /// `field`: the request's field whose text it is, for the error. `bytes`: the size of what the client sent.
  TextGrowth(std::string field, size_t bytes, std::stop_token stop = {});

  /// Counts a text of `bytes` bytes; call before the text is made. Throws ApiError 400 when all texts together are more
  /// than kMostTimes the client's bytes and kBeside more. Throws Error when the token asks to stop.
  void Add(size_t bytes);
  /// Adds bytes to the size that bounds the texts, such as those of a stored answer that the request names.
  void Allow(size_t bytes) { left_ += kMostTimes * bytes; }

 private:
  std::string field_;
  size_t left_;
  std::stop_token stop_;
};

}  // namespace quire
