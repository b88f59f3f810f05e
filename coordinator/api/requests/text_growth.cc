#include "coordinator/api/requests/text_growth.h"

#include <fmt/format.h>

#include <utility>

#include "comm/base/error.h"
#include "coordinator/http/api_error.h"

namespace quire {

size_t TextBytes(const OrderedJson& json) {
  constexpr size_t kValue = 8;
  if (const auto* text = json.get_ptr<const OrderedJson::string_t*>()) return kValue + text->size();
  size_t bytes = kValue;
  if (!json.is_structured()) return bytes;
  for (const auto& [name, value] : json.items()) bytes += (json.is_object() ? name.size() : 0) + TextBytes(value);
  return bytes;
}

TextGrowth::TextGrowth(std::string field, size_t bytes, std::stop_token stop)
    : field_(std::move(field)), left_(kBeside + kMostTimes * bytes), stop_(std::move(stop)) {}

void TextGrowth::Add(size_t bytes) {
  if (stop_.stop_requested()) Fail("the request ended while its prompt was made");
  if (bytes > left_) {
    throw ApiError(400,
                   fmt::format("{} would become a prompt of more than {} times their size: long texts are repeated, "
                               "such as the name of a function in each of its results; send shorter ones",
                               field_, kMostTimes),
                   field_);
  }
  left_ -= bytes;
}

}  // namespace quire
