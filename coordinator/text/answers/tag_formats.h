#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/base/json.h"
#include "comm/base/types.h"

namespace quire {

// Formats of xgrammar's structural tags, as JSON.

OrderedJson TagFormat(const char* type, OrderedJson members);
OrderedJson SequenceOf(std::vector<OrderedJson> elements);
OrderedJson AnyOf(std::vector<OrderedJson> elements);
OrderedJson OptionalOf(OrderedJson content);
OrderedJson StarOf(OrderedJson content);
OrderedJson RegexOf(const std::string& pattern);
/// Any text, up to the first of these texts.
OrderedJson TextWithout(const std::vector<std::string>& texts);
/// Values as the style writes them; null: any object. Next to tags there may be a line break on either side, which no
/// value has that its schema restricts.
OrderedJson ValueOf(const OrderedJson& schema, const char* style);

/// Writes texts for one model.
class TagBuilder {
 public:
  /// Texts that are control tokens of the model: grammars know those by their ids.
  explicit TagBuilder(const std::map<std::string, TokenId>& control_tokens) : control_tokens_(control_tokens) {}

  bool IsToken(const std::string& text) const { return control_tokens_.contains(text); }
  TokenId TokenOf(const std::string& text) const { return control_tokens_.at(text); }
  /// Of these texts those that are no control tokens: answers may spell them.
  std::vector<std::string> Spelled(const std::vector<std::string>& texts) const;

  /// Texts and formats one after another. Control tokens in the texts are themselves; a null format is left out.
  OrderedJson Row(std::initializer_list<std::pair<std::string, OrderedJson>> parts) const;

 private:
  void AddText(std::string_view text, std::vector<OrderedJson>& out) const;

  const std::map<std::string, TokenId>& control_tokens_;
};

}  // namespace quire
