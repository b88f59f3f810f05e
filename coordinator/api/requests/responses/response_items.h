#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/input_items.h"
#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/responses/response_tools.h"
#include "coordinator/api/requests/text_growth.h"

namespace quire {

/// Looks up a stored response of the same client, and returns JSON: the conversation with the answer if item_id is
/// empty, otherwise the item with that id in the response's output. Throws ApiError 404 when there is no such response
/// or item.
using FindKept = std::function<std::string(const std::string& response_id, const std::string& item_id)>;

/// Translates input items of /v1/responses into chat messages.
class ResponseItems {
 public:
  /// `earlier`: the messages before the items. `bytes`: the size of the items, which bounds the text that they expand
  /// to. `find` and `tools` must outlive this object.
  ResponseItems(OrderedJson earlier, size_t bytes, const FindKept& find, OfferedTools& tools);

  void AddText(const std::string& text);
  /// Translates one item. Throws ApiError for bad or unknown items, and for items that this server cannot read.
  void Add(const JsonObject& item);

  OrderedJson Take() { return std::move(messages_); }
  /// Returns the added items as the API shows them later, with each reference replaced by the stored item.
  std::vector<InputItem> TakeItems() { return std::move(items_); }

 private:
  /// Returns the name under which the model called an item's function. `name_space`: the name of the item's member with
  /// the namespace. Throws ApiError when the result is longer than a tool's name may be.
  std::string NameOfCall(const JsonObject& item, const char* name_space) const;
  OrderedJson& Say(const std::string& role, std::string text);
  void AddMessage(const JsonObject& item);
  void AddReasoning(const JsonObject& item);
  void AddFunctionCall(const JsonObject& item);
  void AddCustomCall(const JsonObject& item);
  void AddSearchOutput(const JsonObject& item);
  void AddReference(const JsonObject& item);
  /// Adds a call of a provider's built-in tool. Returns false if the item is not such a call.
  bool AddBuiltIn(const JsonObject& item, const std::string& type);
  void Call(const std::string& id, const std::string& name, std::string arguments);
  void Output(const JsonObject& item);

  OrderedJson messages_;
  TextGrowth growth_;
  std::vector<InputItem> items_;
  const std::string made_;  // random part of the ids that items without an id get; it differs from request to request
  const FindKept& find_;
  OfferedTools& tools_;
  std::string thoughts_;  // thoughts for the assistant's next message
  int64_t referred_bytes_ = 0;
  std::set<std::string> referred_;
};

/// The most bytes of stored items that one request may refer to.
inline constexpr int64_t kMostReferredBytes = 2 << 20;

}  // namespace quire
