#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/base/exact_json.h"
#include "coordinator/http/api_error.h"

namespace quire {

/// The part of a list that a client asks for.
struct PageQuery {
  std::string after;  // the page begins after the item with this id; empty: with the first item
  size_t limit = 20;
  bool oldest_first = false;
};

/// Returns the item, whether a list holds items or pointers to items.
template <class Item>
const Item& ItemOf(const Item& item) {
  return item;
}
template <class Item>
const Item& ItemOf(const Item* const& item) {
  return *item;
}

/// Returns a page of a list in OpenAI's form, as JSON text. items: items with a member `id`, or pointers to such items;
/// the oldest first. json_of: returns an item's JSON text. Throws ApiError 400, with a message that begins with `none`,
/// when no item has the id `after`.
template <class Item, class JsonOf>
std::string ListPage(const std::vector<Item>& items, const PageQuery& query, const char* none, const JsonOf& json_of) {
  const size_t count = items.size();
  const auto at = [&](size_t i) -> const auto& { return ItemOf(items[query.oldest_first ? i : count - 1 - i]); };
  size_t begin = 0;
  if (!query.after.empty()) {
    while (begin < count && at(begin).id != query.after) ++begin;
    if (begin == count) throw ApiError(400, fmt::format("{} the id {}", none, query.after.substr(0, 100)), "after");
    ++begin;
  }
  const size_t end = std::min(count, begin + query.limit);
  std::string data;
  for (size_t i = begin; i < end; ++i) (data += i == begin ? "" : ",") += json_of(at(i));
  const auto id = [&](size_t i) { return begin < end ? DumpExactJson(at(i).id) : "null"; };
  return fmt::format(R"({{"object":"list","data":[{}],"first_id":{},"last_id":{},"has_more":{}}})", data, id(begin),
                     id(end - 1), end < count);
}

}  // namespace quire
