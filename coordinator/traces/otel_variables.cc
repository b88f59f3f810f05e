#include "coordinator/traces/otel_variables.h"

#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/split.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <cstdlib>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/plain_word.h"

namespace quire {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Decodes percent-encoded text (%41 is A). Throws Error for a percent sign without two hexadecimal digits.
std::string Decoded(const std::string& text, const char* variable) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    const char small = static_cast<char>(c | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1, low = high >= 0 ? digit(text[i + 2]) : -1;
    if (low < 0) Fail("{}: % needs two hexadecimal digits; write %25 for the sign itself", variable);
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

/// Reads "a=1,b=2"; values may be percent-encoded.
Pairs PairsOf(const std::string& text, const char* variable) {
  Pairs pairs;
  std::vector<std::string> parts;
  boost::algorithm::split(parts, text, [](char c) { return c == ','; });
  for (std::string& part : parts) {
    boost::algorithm::trim(part);
    if (part.empty()) continue;
    const size_t sign = part.find('=');
    if (sign == 0 || sign == std::string::npos) Fail("{}: give KEY=VALUE,KEY=VALUE", variable);
    pairs.emplace_back(boost::algorithm::trim_copy(part.substr(0, sign)),
                       Decoded(boost::algorithm::trim_copy(part.substr(sign + 1)), variable));
  }
  return pairs;
}

/// Turns the headers' names into lower case. Throws Error for a name with characters that no name may have, for a
/// header that the request itself sets, and for a value with control characters.
void CheckHeaders(Pairs& headers, const char* variable) {
  for (auto& [name, value] : headers) {
    boost::algorithm::to_lower(name);
    if (!IsMadeOf(name, "-_.!#$%&'*+^`|~")) Fail("{}: a name of a header has signs that none may have", variable);
    for (const char* own : {"content-type", "content-length", "transfer-encoding", "connection", "host"})
      if (name == own) Fail("{}: {} cannot be set", variable, name);
    if (std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
      Fail("{}: the value of {} has control characters", variable, name);
  }
}

/// The name and the text of the variable for traces alone if it is set, otherwise of the variable for all signals.
struct Chosen {
  const char* name;
  std::string text;
};

Chosen Choose(const std::function<std::string(const char*)>& variable, const char* of_traces, const char* common) {
  std::string text = variable(of_traces);
  if (!text.empty()) return {of_traces, std::move(text)};
  return {common, variable(common)};
}

}  // namespace

OtelVariables ReadOtelVariables(const std::function<std::string(const char*)>& variable) {
  OtelVariables read;
  read.disabled = boost::algorithm::to_lower_copy(variable("OTEL_SDK_DISABLED")) == "true" ||
                  variable("OTEL_TRACES_EXPORTER") == "none";
  read.endpoint = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  if (std::string common = variable("OTEL_EXPORTER_OTLP_ENDPOINT"); read.endpoint.empty() && !common.empty())
    read.endpoint = boost::algorithm::trim_right_copy_if(common, [](char c) { return c == '/'; }) + "/v1/traces";
  const Chosen protocol = Choose(variable, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (!read.disabled && !read.endpoint.empty() && protocol.text == "grpc")
    Fail("{}=grpc: spans are sent over HTTP only; name the collector's port for it (4318) and say http/json",
         protocol.name);
  const Chosen headers = Choose(variable, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
  read.headers = PairsOf(headers.text, headers.name);
  CheckHeaders(read.headers, headers.name);
  constexpr const char* kAttributes = "OTEL_RESOURCE_ATTRIBUTES";
  for (auto& [key, value] : PairsOf(variable(kAttributes), kAttributes)) read.resource[key] = std::move(value);
  if (std::string service = variable("OTEL_SERVICE_NAME"); !service.empty())
    read.resource["service.name"] = std::move(service);
  return read;
}

OtelVariables ReadOtelVariables() {
  return ReadOtelVariables([](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
  });
}

}  // namespace quire
