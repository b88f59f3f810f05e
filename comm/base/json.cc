#include "comm/base/json.h"

#include <set>
#include <vector>

#include "comm/base/error.h"

namespace quire {

namespace {

using DomParser = nlohmann::detail::json_sax_dom_parser<Json>;

/// Builds the document and checks each limit before a value is stored.
class StrictParser : public nlohmann::json_sax<Json> {
 public:
  StrictParser(Json& root, const JsonLimits& limits) : dom_(root, false), limits_(limits) {}

  bool null() override { return Count() && dom_.null(); }
  bool boolean(bool value) override { return Count() && dom_.boolean(value); }
  bool number_integer(number_integer_t value) override { return Count() && dom_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return Count() && dom_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return Count() && dom_.number_float(value, text);
  }
  bool string(string_t& value) override { return Count() && dom_.string(value); }
  bool binary(binary_t& value) override { return Count() && dom_.binary(value); }
  bool start_object(size_t size) override {
    keys_.emplace_back();
    return Enter() && dom_.start_object(size);
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) return Refuse("duplicate key \"" + name.substr(0, 100) + "\"");
    if (keys_.back().size() > limits_.max_members)
      return Refuse(fmt::format("an object of more than {} members", limits_.max_members));
    return Count() && dom_.key(name);
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return dom_.end_object();
  }
  bool start_array(size_t size) override { return Enter() && dom_.start_array(size); }
  bool end_array() override {
    --depth_;
    return dom_.end_array();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    return Refuse(fmt::format("at byte {}: {}", position, Reason(error.what())));
  }

  const std::string& reason() const { return reason_; }

 private:
  /// Returns the library's error text without the error code in brackets and without the position.
  static std::string Reason(std::string_view what) {
    const size_t colon =
        what.find(": ", what.find("parse error") == std::string_view::npos ? 0 : what.find("parse error"));
    return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
  }
  bool Refuse(std::string reason) {
    constexpr size_t kMaxReason = 200;  // the library quotes whole tokens, which may be long
    if (reason.size() > kMaxReason) reason = reason.substr(0, kMaxReason) + "...";
    reason_ = std::move(reason);
    return false;
  }
  bool Count() {
    return ++nodes_ <= limits_.max_nodes || Refuse(fmt::format("more than {} values", limits_.max_nodes));
  }
  bool Enter() {
    return Count() &&
           (++depth_ <= limits_.max_depth || Refuse(fmt::format("nested deeper than {}", limits_.max_depth)));
  }

  DomParser dom_;
  JsonLimits limits_;
  size_t depth_ = 0, nodes_ = 0;
  std::vector<std::set<std::string>> keys_;  // keys of each object that is still open
  std::string reason_;
};

}  // namespace

Json ParseJson(std::string_view text, std::string_view what, const JsonLimits& limits) {
  // The library would skip a byte order mark, and would take a NUL byte for the end of the text.
  if (text.starts_with("\xef\xbb\xbf") || text.find('\0') != std::string_view::npos) {
    Fail("{}: a byte order mark or NUL byte is not JSON", what);
  }
  Json root;
  StrictParser parser(root, limits);
  if (!Json::sax_parse(text, &parser)) {
    // The library's message quotes the bytes at the error. DumpJson replaces bytes that are not valid UTF-8.
    Fail("{}: {}", what, Json::parse(DumpJson(parser.reason())).get<std::string>());
  }
  return root;
}

std::string DumpJson(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace quire
