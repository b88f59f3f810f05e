// Input: a chat template, a zero byte, and a user's text. Rendering must end within its limits, and every byte of the
// user's text must stay marked as text from a user.
#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/text/jinja/interpreter.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

constexpr char kUsers = '\x7f';  // a byte that the templates of this target may not write themselves

/// Returns the depth limits of the server, but lower limits of work and size, so that more templates are tried.
jinja::Limits FuzzLimits() {
  jinja::Limits limits;
  limits.max_work = 200'000;
  limits.max_made_bytes = 4 << 20;
  limits.max_text_bytes = 1 << 20;
  return limits;
}

std::map<std::string, jinja::Value> Variables(const std::string& content) {
  const Json messages = {{{"role", "system"}, {"content", "You help."}},
                         {{"role", "user"}, {"content", kUsers + content + kUsers}},
                         {{"role", "assistant"}, {"content", nullptr}, {"n", 3}, {"x", 1.5}, {"list", {1, "b"}}}};
  std::map<std::string, jinja::Value> variables;
  variables["messages"] = jinja::Value::FromJson(messages, MarkedText::kFromUser);
  variables["add_generation_prompt"] = jinja::Value(true);
  variables["bos_token"] = jinja::Value::Trusted("<s>");
  return variables;
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const std::string source(bytes.Until('\0')), content(bytes.Rest());
  if (source.find(kUsers) != std::string::npos || source.find("\\u") != std::string::npos) return 0;
  try {
    const jinja::Body body = jinja::Parse(source);
    const MarkedText out = jinja::Render(body, Variables(content), FuzzLimits());
    QUIRE_CHECK(out.text.size() == out.marks.size(), "{} bytes, {} marks", out.text.size(), out.marks.size());
    for (size_t i = 0; i < out.text.size(); ++i) {
      QUIRE_CHECK(out.text[i] != kUsers || out.marks[i] == MarkedText::kFromUser, "byte {} lost its mark", i);
    }
  } catch (const Error& error) {
    QUIRE_CHECK(std::string_view(error.what()).starts_with("template:"), "no place: {}", error.what());
  }
  return 0;
}
