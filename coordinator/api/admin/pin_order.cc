#include "coordinator/api/admin/pin_order.h"

#include <fmt/format.h>

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/kv_disk/stored_pins.h"

namespace quire {

namespace {

constexpr double kLongestPinSeconds = 7 * 24 * 3600.0;

}  // namespace

PinOrder ReadPinOrder(const std::string& text, const Tokenizer& tokenizer, int num_replicas,
                      const std::stop_token& stop) {
  const Json body = ParseJson(text, "body", {.max_depth = 4, .max_nodes = 200'000});
  const JsonFields fields(body);
  const Json* prompt = fields.Find("prompt");
  PinOrder order;
  if (prompt != nullptr && prompt->is_string()) {
    const bool add_special_tokens = fields.Flag("add_special_tokens", true);
    order.tokens = tokenizer.EncodePrompt(prompt->get_ref<const std::string&>(), add_special_tokens, {.stop = stop});
  } else if (prompt != nullptr && prompt->is_array()) {
    for (const Json& token : *prompt) {
      if (!token.is_number_integer() || token < 0 || token >= INT32_MAX)
        JsonFields::Refuse("prompt", "must be text or token ids");
      order.tokens.push_back(token.get<TokenId>());
    }
  } else {
    JsonFields::Refuse("prompt", "must be text or token ids");
  }
  order.key = fields.Text("api_key");
  order.name = fields.Text("name").value_or("");
  if (order.name.size() > StoredPin::kMostNameBytes)
    JsonFields::Refuse("name", fmt::format("takes at most {} bytes", StoredPin::kMostNameBytes));
  order.cache_salt = fields.Text("cache_salt").value_or("");
  order.seconds = fields.Number("ttl_seconds", 0.001, kLongestPinSeconds).value_or(order.seconds);
  order.replica = static_cast<int>(fields.Integer("replica", 0, num_replicas - 1).value_or(0));
  return order;
}

}  // namespace quire
