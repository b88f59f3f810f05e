#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/http/api_error.h"

namespace quire {

/// A page of records in OpenAI's form. records: the oldest first. after: the id of the last one of the page before;
/// empty: the first page. Throws ApiError when no record has this id.
template <class Record>
Json PageOfRecords(std::vector<Record> records, const std::string& after, size_t limit, bool oldest_first) {
  if (!oldest_first) std::ranges::reverse(records);
  auto begin = records.begin();
  if (!after.empty()) {
    begin = std::ranges::find(records, after, &Record::id);
    if (begin == records.end())
      throw ApiError(400, "nothing with the id " + after.substr(0, 100) + " is kept", "after");
    ++begin;
  }
  const auto end = begin + std::min(static_cast<ptrdiff_t>(limit), records.end() - begin);
  Json data = Json::array();
  for (auto it = begin; it != end; ++it) data.push_back(it->ToPublic());
  return {{"object", "list"},
          {"first_id", data.empty() ? Json() : data.front()["id"]},
          {"last_id", data.empty() ? Json() : data.back()["id"]},
          {"has_more", end != records.end()},
          {"data", std::move(data)}};
}

}  // namespace quire
