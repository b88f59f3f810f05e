#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "comm/base/json.h"
#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/response_tools.h"

namespace quire {

/// What is kept of a response of the same client: its `conversation`, with its answer, or the item of its output that
/// item_id names, where that is not empty; as JSON. Throws ApiError 404 when there is none.
using FindKept = std::function<std::string(const std::string& response_id, const std::string& item_id)>;

/// Items of the input of /v1/responses, written as messages of a chat.
class ResponseItems {
 public:
  /// earlier: messages before them. Both outlive this.
  ResponseItems(OrderedJson earlier, const FindKept& find, OfferedTools& tools);

  void AddText(std::string text) { Say("user", std::move(text)); }
  /// Throws ApiError for what is wrong, and for items that nobody knows or that cannot be read here.
  void Add(const JsonObject& item);

  OrderedJson Take() { return std::move(messages_); }

 private:
  OrderedJson& Say(const std::string& role, std::string text);
  void AddMessage(const JsonObject& item);
  void AddReasoning(const JsonObject& item);
  void AddFunctionCall(const JsonObject& item);
  void AddCustomCall(const JsonObject& item);
  void AddSearchOutput(const JsonObject& item);
  void AddReference(const JsonObject& item);
  /// Calls of tools that a provider's models have built in. False: it is none.
  bool AddBuiltIn(const JsonObject& item, const std::string& type);
  void Call(const std::string& id, const std::string& name, std::string arguments);
  void Output(const JsonObject& item);

  OrderedJson messages_;
  const FindKept& find_;
  OfferedTools& tools_;
  std::string thoughts_;  // before the assistant's next message
  int64_t referred_bytes_ = 0;
  std::set<std::string> referred_;
};

/// Bytes of kept items that one request may refer to.
inline constexpr int64_t kMostReferredBytes = 2 << 20;

}  // namespace quire
