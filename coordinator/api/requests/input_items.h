#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/list_page.h"

namespace quire {

/// An item of a request to /v1/responses as the API shows it later.
struct InputItem {
  std::string id;    // id of the item: the client's, or one that the server made
  std::string json;  // an object with `id`, `type` and `status`
};

/// Returns the memory of the items, in bytes.
int64_t BytesOf(const std::vector<InputItem>& items);

/// Returns the item in the API's full form. A text becomes a list of one part. A missing `type`, `id` or `status` is
/// added; an id made here ends with `made`.
InputItem FullInputItem(const OrderedJson& item, const std::string& made);

/// Reads `order`, `limit`, `after` and `include` of a query string. Throws ApiError 400 for other names and for bad
/// values.
PageQuery ParseInputItemsQuery(std::string_view query);

/// Returns a page of the items as OpenAI's list object. Throws ApiError 400 when no item has the id `after`.
std::string PageOfInputItems(const std::vector<InputItem>& items, const PageQuery& query);

/// True for values of `include` that the API knows. Values about images and OpenAI's own tools change nothing on this
/// server.
bool IsKnownInclude(std::string_view what);

}  // namespace quire
