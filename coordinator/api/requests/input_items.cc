#include "coordinator/api/requests/input_items.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/passed_fields.h"
#include "coordinator/api/requests/query_fields.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr std::string_view kIncludes[] = {"reasoning.encrypted_content",   "file_search_call.results",
                                          "web_search_call.results",       "web_search_call.action.sources",
                                          "code_interpreter_call.outputs", "message.input_image.image_url",
                                          "message.output_text.logprobs",  "computer_call_output.output.image_url"};
constexpr int64_t kMostItems = 100;

std::string TextMember(const OrderedJson& item, const char* name, const std::string& otherwise) {
  const auto found = item.find(name);
  return found != item.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

/// Returns the prefix of ids of this type of items, as in OpenAI's API.
std::string_view PrefixOf(std::string_view type) {
  if (type == "message") return "msg_";
  if (type == "reasoning") return "rs_";
  if (type.find("call") != std::string_view::npos) return "fc_";
  return "item_";
}

/// Returns a message's text in the long form: a list with one part.
OrderedJson PartsOf(const std::string& text, const std::string& role) {
  OrderedJson part = {{"type", role == "assistant" ? "output_text" : "input_text"}, {"text", text}};
  if (role == "assistant") part["annotations"] = OrderedJson::array();
  return OrderedJson::array({std::move(part)});
}

/// Returns the query without its `include` and `include[]` fields, which clients may repeat. Throws ApiError when such
/// a field has an unknown value.
std::string WithoutIncludes(std::string_view query) {
  std::string rest;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name = PercentDecoded(pair.substr(0, equals)).value_or("");
    if (name != "include" && name != "include[]") {
      (rest += rest.empty() ? "" : "&") += pair;
      continue;
    }
    const std::string what = PercentDecoded(pair.substr(std::min(equals + 1, pair.size()))).value_or("");
    if (IsKnownInclude(what)) continue;
    JsonFields::Refuse("include", fmt::format("must be one of {}", fmt::join(kIncludes, ", ")));
  }
  return rest;
}

}  // namespace

bool IsKnownInclude(std::string_view what) { return IsIn(what, kIncludes); }

int64_t BytesOf(const std::vector<InputItem>& items) {
  int64_t bytes = static_cast<int64_t>(items.capacity() * sizeof(InputItem));
  for (const InputItem& item : items) bytes += static_cast<int64_t>(item.id.capacity() + item.json.capacity());
  return bytes;
}

InputItem FullInputItem(const OrderedJson& item, const std::string& made) {
  const std::string type = TextMember(item, "type", "message");
  InputItem full{TextMember(item, "id", fmt::format("{}{}", PrefixOf(type), made)), ""};
  OrderedJson shown = {{"id", full.id}, {"type", type}, {"status", TextMember(item, "status", "completed")}};
  for (const auto& [name, value] : item.items()) {
    if (name == "id" || name == "type" || name == "status") continue;
    const bool text = type == "message" && name == "content" && value.is_string();
    shown[name] = text ? PartsOf(value.get<std::string>(), TextMember(item, "role", "user")) : value;
  }
  full.json = DumpExactJson(shown);
  return full;
}

PageQuery ParseInputItemsQuery(std::string_view query) {
  const std::string rest = WithoutIncludes(query);
  const QueryFields fields(rest, {"after", "limit", "order"});
  PageQuery asked;
  asked.after = fields.Text("after");
  asked.limit = static_cast<size_t>(fields.Integer("limit", 1, kMostItems).value_or(20));
  asked.oldest_first = fields.Choice("order", {"asc", "desc"}) == "asc";
  return asked;
}

std::string PageOfInputItems(const std::vector<InputItem>& items, const PageQuery& query) {
  const auto json_of = [](const InputItem& item) -> const std::string& { return item.json; };
  return ListPage(items, query, "no item of this response's input has", json_of);
}

}  // namespace quire
