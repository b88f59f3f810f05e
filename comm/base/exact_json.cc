#include "comm/base/exact_json.h"

#include <utility>
#include <vector>

#include "comm/base/json.h"

namespace quire {

namespace {

/// Builds the tree. Keeps the digits of integers that the library would turn into floating-point numbers.
class ExactParser : public nlohmann::json_sax<OrderedJson> {
 public:
  explicit ExactParser(OrderedJson& root) : dom_(root, true) {}

  bool null() override { return dom_.null(); }
  bool boolean(bool value) override { return dom_.boolean(value); }
  bool number_integer(number_integer_t value) override { return dom_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return dom_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") != std::string::npos) return dom_.number_float(value, text);
    binary_t digits(std::vector<uint8_t>(text.begin(), text.end()));
    return dom_.binary(digits);
  }
  bool string(string_t& value) override { return dom_.string(value); }
  bool binary(binary_t& value) override { return dom_.binary(value); }
  bool start_object(size_t size) override { return dom_.start_object(size); }
  bool key(string_t& name) override { return dom_.key(name); }
  bool end_object() override { return dom_.end_object(); }
  bool start_array(size_t size) override { return dom_.start_array(size); }
  bool end_array() override { return dom_.end_array(); }
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    return dom_.parse_error(position, token, error);
  }

 private:
  nlohmann::detail::json_sax_dom_parser<OrderedJson> dom_;
};

std::string Plain(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

void Write(const OrderedJson& json, std::string& out) {
  if (json.is_binary()) {
    out += LongInteger(json);
  } else if (json.is_array()) {
    char before = '[';
    for (const OrderedJson& item : json) {
      out += std::exchange(before, ',');
      Write(item, out);
    }
    out += json.empty() ? "[]" : "]";
  } else if (json.is_object()) {
    char before = '{';
    for (const auto& [key, value] : json.items()) {
      out += std::exchange(before, ',') + Plain(key) + ':';
      Write(value, out);
    }
    out += json.empty() ? "{}" : "}";
  } else {
    out += Plain(json);
  }
}

}  // namespace

OrderedJson ParseExactJson(std::string_view text) {
  OrderedJson root;
  ExactParser parser(root);
  OrderedJson::sax_parse(text, &parser);
  return root;
}

std::string DumpExactJson(const OrderedJson& json) {
  std::string out;
  Write(json, out);
  return out;
}

std::string LongInteger(const OrderedJson& json) {
  if (!json.is_binary()) return "";
  const auto& digits = json.get_binary();
  return {digits.begin(), digits.end()};
}

}  // namespace quire
