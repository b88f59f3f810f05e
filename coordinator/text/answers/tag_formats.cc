#include "coordinator/text/answers/tag_formats.h"

#include <algorithm>

namespace quire {

namespace {

constexpr int kMaxWhitespace = 20;  // bytes in a row: enough for indentation, but no endless run

}  // namespace

OrderedJson TagFormat(const char* type, OrderedJson members) {
  OrderedJson format = {{"type", type}};
  for (const auto& [name, value] : members.items()) format[name] = value;
  return format;
}

OrderedJson SequenceOf(std::vector<OrderedJson> elements) {
  return TagFormat("sequence", {{"elements", OrderedJson(std::move(elements))}});
}
OrderedJson AnyOf(std::vector<OrderedJson> elements) {
  if (elements.size() == 1) return std::move(elements.front());
  return TagFormat("or", {{"elements", OrderedJson(std::move(elements))}});
}
OrderedJson OptionalOf(OrderedJson content) { return TagFormat("optional", {{"content", std::move(content)}}); }
OrderedJson StarOf(OrderedJson content) { return TagFormat("star", {{"content", std::move(content)}}); }
OrderedJson RegexOf(const std::string& pattern) { return TagFormat("regex", {{"pattern", pattern}}); }
OrderedJson TextWithout(const std::vector<std::string>& texts) {
  if (texts.empty()) return TagFormat("any_text", OrderedJson::object());
  return TagFormat("any_text", {{"excludes", texts}});
}

OrderedJson ValueOf(const OrderedJson& schema, const char* style) {
  return TagFormat("json_schema", {{"json_schema", schema.is_null() ? OrderedJson{{"type", "object"}} : schema},
                                   {"style", style},
                                   {"max_whitespace_cnt", style == std::string_view("json") ? kMaxWhitespace : 1}});
}

std::vector<std::string> TagBuilder::Spelled(const std::vector<std::string>& texts) const {
  std::vector<std::string> spelled;
  std::ranges::copy_if(texts, std::back_inserter(spelled), [this](const std::string& text) { return !IsToken(text); });
  return spelled;
}

void TagBuilder::AddText(std::string_view text, std::vector<OrderedJson>& out) const {
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) out.push_back(TagFormat("const_string", {{"value", std::exchange(plain, {})}}));
  };
  while (!text.empty()) {
    const auto token =
        std::ranges::find_if(control_tokens_, [&](const auto& entry) { return text.starts_with(entry.first); });
    if (token == control_tokens_.end()) {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    flush();
    out.push_back(TagFormat("token", {{"token", token->second}}));
    text.remove_prefix(token->first.size());
  }
  flush();
}

OrderedJson TagBuilder::Row(std::initializer_list<std::pair<std::string, OrderedJson>> parts) const {
  std::vector<OrderedJson> elements;
  for (const auto& [text, format] : parts) {
    AddText(text, elements);
    if (!format.is_null()) elements.push_back(format);
  }
  return SequenceOf(std::move(elements));
}

}  // namespace quire
