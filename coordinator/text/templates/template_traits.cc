#include "coordinator/text/templates/template_traits.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/text/templates/adapted_conversation.h"

namespace quire {

namespace {

using Render = std::function<std::string(const Conversation&)>;

OrderedJson Ask() { return {{"role", "user"}, {"content", "ask"}}; }

OrderedJson AskAgain() { return {{"role", "user"}, {"content", "probe_again"}}; }

/// Returns a tool list with one tool. Its function has these members besides the name.
OrderedJson Offered(const char* members) {
  return OrderedJson::parse(std::string(R"([{"type":"function","function":{"name":"probe_name")") + members + "}}]");
}

OrderedJson WholeTool() {
  return Offered(R"(,"description":"d","parameters":{"type":"object","properties":)"
                 R"({"probe_key":{"type":"string","description":"d"}},"required":["probe_key"]})");
}

OrderedJson Call(const std::string& id, const std::string& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", "probe_name"}, {"arguments", arguments}}}};
}

/// Returns a conversation with a question, an answer with these calls, and the calls' results.
Conversation Called(const OrderedJson& calls) {
  Conversation called;
  called.tools = WholeTool();
  called.messages = OrderedJson::array({Ask()});
  called.messages.push_back({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}});
  for (const OrderedJson& call : calls) {
    called.messages.push_back(
        {{"role", "tool"}, {"tool_call_id", call["id"]}, {"name", "probe_name"}, {"content", "done"}});
  }
  return called;
}

// Some templates require ids of nine letters or digits.
constexpr const char* kShortId = "abcdefghi";
constexpr const char* kArguments = R"({"probe_key": "probe_value"})";

/// Finds a template's traits one after another. Each test adapts its conversation to the traits found before.
class Prober {
 public:
  explicit Prober(const Render& render) : render_(render) {}

  TemplateTraits Find(bool of_tools) {
    FindLaterSystem();
    if (!of_tools) return found_;
    Conversation offer;
    offer.messages = OrderedJson::array({Ask()});
    offer.tools = WholeTool();
    found_.tools = Shows(offer, found_, {"probe_name"});
    if (!found_.tools) {
      Try(&TemplateTraits::system_tools, offer, {"probe_name"});
      found_.tools = found_.system_tools;
    }
    if (found_.tools) FindToolTraits(offer);
    Conversation silent;
    silent.messages = {Ask(), {{"role", "assistant"}, {"content", ""}}, AskAgain()};
    Try(&TemplateTraits::speaking_answers, silent, {"probe_again"});
    FindCalls();
    if (found_.tool_calls) FindCallTraits();
    return found_;
  }

 private:
  bool Shows(const Conversation& conversation, const TemplateTraits& traits,
             std::initializer_list<const char*> texts) const {
    try {
      const std::string text = render_(AdaptedTo(traits, conversation));
      const auto has = [&](const char* what) { return text.find(what) != std::string::npos; };
      return std::ranges::all_of(texts, has) && !has("'probe_key'");  // Python's repr of an object is not JSON
    } catch (const Error&) {
      return false;
    }
  }

  /// Sets the trait if the rendered conversation contains all `texts` only when the conversation is adapted to this
  /// trait.
  void Try(bool TemplateTraits::*trait, const Conversation& conversation, std::initializer_list<const char*> texts) {
    TemplateTraits with = found_;
    with.*trait = true;
    if (!Shows(conversation, found_, texts) && Shows(conversation, with, texts)) found_ = with;
  }

  void FindToolTraits(Conversation offer) {
    const char* const parts[] = {
        "",
        R"(,"description":null,"parameters":null)",
        R"(,"description":"d")",
        R"(,"parameters":{"type":"object","properties":{}})",
        R"(,"description":"d","parameters":{})",
        R"(,"description":"d","parameters":{"type":"object","properties":{},"required":null})"};
    for (const char* part : parts) {
      offer.tools = Offered(part);
      Try(&TemplateTraits::whole_tools, offer, {"probe_name"});
    }
    const char* const schemas[] = {R"({"type":"string"})",
                                   R"({"anyOf":[{"type":"string"},{"type":"null"}]})",
                                   R"({"type":["string","null"]})",
                                   R"({"type":"object"})",
                                   R"({"type":"array"})",
                                   "true",
                                   R"({"type":"object","properties":{"a":{"type":"array"}},)"
                                   R"("additionalProperties":false})"};
    for (const std::string schema : schemas) {
      offer.tools = Offered((R"(,"description":"d","parameters":{"type":"object","properties":{"probe_key":)" + schema +
                             R"(},"required":[]})")
                                .c_str());
      Try(&TemplateTraits::whole_properties, offer, {"probe_name"});
    }
  }

  void FindLaterSystem() {
    const OrderedJson later = {{"role", "system"}, {"content", "probe_later"}};
    const OrderedJson answer = {{"role", "assistant"}, {"content", "answer"}};
    Conversation said;
    said.messages = OrderedJson::array({Ask()});
    if (!Shows(said, found_, {})) return;  // the template shows no conversation at all
    FindRoles();
    said.messages = {{{"role", "system"}, {"content", "first"}}, Ask(), later};
    Try(&TemplateTraits::system_first, said, {"probe_later"});
    said.messages = {Ask(), later, answer, Ask(), later};
    Try(&TemplateTraits::system_first, said, {"probe_later"});
  }

  void FindRoles() {
    Conversation said;
    said.messages = {{{"role", "system"}, {"content", "probe_system"}}, Ask()};
    found_.shows_system = Shows(said, found_, {"probe_system"});
    said.messages = {
        Ask(),
        {{"role", "assistant"}, {"content", "answer"}},
        {{"role", "tool"}, {"tool_call_id", kShortId}, {"name", "probe_name"}, {"content", "probe_result"}},
        {{"role", "assistant"}, {"content", "answer"}},
        AskAgain()};
    found_.tool_results = Shows(said, found_, {"probe_result", "probe_again"});
  }

  void FindCalls() {
    const Conversation called = Called(OrderedJson::array({Call(kShortId, kArguments)}));
    for (const bool null_content : {false, true}) {
      for (const bool text_arguments : {false, true}) {
        TemplateTraits tried = found_;
        tried.null_content = null_content;
        tried.text_arguments = text_arguments;
        tried.tool_calls = true;
        if (!Shows(called, tried, {"probe_value"})) continue;
        found_ = tried;
        return;
      }
    }
  }

  void FindCallTraits() {
    for (const char* text : {R"({"probe_key": "probe_cut)", "[\"probe_cut\"]", "probe_cut"})
      Try(&TemplateTraits::object_arguments, Called(OrderedJson::array({Call(kShortId, text)})), {"probe_cut"});
    Try(&TemplateTraits::object_arguments, Called(OrderedJson::array({Call(kShortId, "")})), {"probe_name"});
    Try(&TemplateTraits::short_ids, Called(OrderedJson::array({Call("call_0123456789abcdef", kArguments)})),
        {"probe_value"});
    FindNamedIds();
    Conversation words = Called(OrderedJson::array({Call(kShortId, kArguments)}));
    words.messages[1]["content"] = "probe_words";
    Try(&TemplateTraits::words_apart, words, {"probe_value"});
    for (const char* name : {"reasoning_content", "reasoning", "thinking"}) words.messages[1][name] = "probe_thoughts";
    Try(&TemplateTraits::words_or_thoughts, words, {"probe_value"});
    Conversation interrupted = Called(OrderedJson::array({Call(kShortId, kArguments)}));
    interrupted.messages.push_back(AskAgain());
    Try(&TemplateTraits::answered_results, interrupted, {"probe_value", "probe_again"});
    const OrderedJson two = {Call(kShortId, kArguments), Call("jklmnopqr", R"({"probe_key": "probe_second"})")};
    Try(&TemplateTraits::one_call, Called(two), {"probe_value", "probe_second"});
  }

  /// Finds the trait named_ids: some of Kimi's templates show a call's id in place of its function's name.
  void FindNamedIds() {
    Conversation called = Called(OrderedJson::array({Call("call_0123456789abcdef", kArguments)}));
    called.tools = nullptr;
    called.messages[2].erase("name");
    if (Shows(called, found_, {"probe_name"})) return;
    Try(&TemplateTraits::named_ids, called, {"functions.probe_name:0", "probe_value"});
  }

  const Render& render_;
  TemplateTraits found_;
};

}  // namespace

TemplateTraits FindTraits(const Render& render, bool of_tools) { return Prober(render).Find(of_tools); }

}  // namespace quire
