// Parser of calls that are written as JSON: by Hermes and Qwen, Llama 3, Mistral, Granite, Nemotron, Phi-4-mini and
// Command R, and in Quire's own format (kGeneric) by models that were taught no format.
#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/json_call.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

/// The texts with which a format surrounds its calls.
struct Manner {
  std::vector<std::string> opens;   // texts that are followed by calls
  std::vector<std::string> closes;  // texts that may end a call or a list; models may omit them
  bool lists = false;               // calls may form a JSON list
  bool named = false;               // a call may also be name[ARGS]{...}
  bool bare = false;                // a call may begin the answer; the next one follows directly or after ; or ,
  std::string_view name = "name";   // the member with the function's name
};

Manner MannerOf(ToolFormat format, bool has_grammar) {
  switch (format) {
    case ToolFormat::kLlama3Json:
      return {.opens = {"<|python_tag|>"}, .bare = true};
    case ToolFormat::kMistral:
      return {.opens = {"[TOOL_CALLS]"}, .lists = true, .named = true};
    case ToolFormat::kGranite:
      return {.opens = {"<|tool_call|>", "<tool_call>"}, .lists = true};
    case ToolFormat::kPhi4Mini:
      return {.opens = {"<|tool_call|>", "functools"}, .closes = {"<|/tool_call|>"}, .lists = true};
    case ToolFormat::kNemotron:
      return {.opens = {"<TOOLCALL>"}, .closes = {"</TOOLCALL>"}, .lists = true};
    case ToolFormat::kCommand3:
      return {.opens = {"<|START_ACTION|>"}, .closes = {"<|END_ACTION|>"}, .lists = true, .name = "tool_name"};
    case ToolFormat::kCommandR:
      return {.opens = {"Action: ```json", "Action:\n```json", "Action:```json"},
              .closes = {"```"},
              .lists = true,
              .name = "tool_name"};
    case ToolFormat::kGeneric:
      if (has_grammar) break;
      return {.opens = {"<tool_call>", "```json", "```tool_call"},
              .closes = {"</tool_call>", "```"},
              .lists = true,
              .bare = true};
    default:
      break;
  }
  return {.opens = {"<tool_call>"}, .closes = {"</tool_call>"}};
}

/// Returns the texts around calls. If a grammar constrains the calls, only the first opening text counts, because the
/// grammar knows no other opening text.
Manner MannerOf(ToolFormat format, const ToolUse& use) {
  Manner manner = MannerOf(format, use.has_grammar());
  if (use.has_grammar()) manner.opens.resize(1);
  return manner;
}

class JsonCallsParser : public StepParser {
 public:
  JsonCallsParser(ToolFormat format, std::shared_ptr<const ToolUse> tools)
      : StepParser(tools), manner_(MannerOf(format, *tools)), state_(manner_.bare ? State::kStart : State::kText) {}

  size_t held_bytes() const override { return StepParser::held_bytes() + call_.held_bytes(); }

 private:
  enum class State { kStart, kText, kOpened, kObject, kName, kCallId, kArguments, kAfter, kClose };

  bool Step() override {
    switch (state_) {
      case State::kStart:
        return Start();
      case State::kText: {
        const auto mark = PassUntil(manner_.opens, AnswerPart::kContent);
        if (!mark) return false;
        Attempt();
        Skip(manner_.opens[*mark].size());
        state_ = State::kOpened;
        return true;
      }
      case State::kOpened:
        return Opened();
      case State::kObject:
        return Object();
      case State::kName:
        return Name();
      case State::kCallId:
        return CallId();
      case State::kArguments:
        return ArgumentsOfName();
      case State::kAfter:
        return After();
      case State::kClose:
        return Close();
    }
    return false;
  }

  void BackToText() override {
    state_ = State::kText;
    in_list_ = false;
    call_ = JsonCall(manner_.name);
  }

  /// Parses the beginning of an answer, before any content. Returns false when more text is needed.
  bool Start() {
    const size_t first = EndOfSpace();
    if (first == rest().size() && first <= kMaxSpaceBytes) return false;
    if (first > kMaxSpaceBytes || !(rest()[first] == '{' || (manner_.lists && rest()[first] == '['))) {
      state_ = State::kText;
      return true;
    }
    Attempt();
    Skip(first);
    state_ = State::kOpened;
    return true;
  }

  /// Parses the text after an opening text, or after a comma in a list.
  bool Opened() {
    if (!SkipSpace()) return false;
    const char c = rest()[0];
    if (c == '{') {
      call_ = JsonCall(manner_.name);
      known_ = false;
      state_ = State::kObject;
    } else if (c == '[' && manner_.lists && !in_list_) {
      in_list_ = true;
      Skip(1);
    } else if (manner_.named && !in_list_ && IsToolNameByte(c)) {
      state_ = State::kName;
    } else {
      Fail();
    }
    return true;
  }

  bool Object() {
    const std::string_view text = rest();
    size_t taken = 0;
    auto status = JsonCall::Status::kMore;
    bool ok = true;
    while (ok && taken < text.size() && status == JsonCall::Status::kMore) {
      status = call_.Next(text[taken]);
      if (status == JsonCall::Status::kError) break;
      ++taken;
      if (!call_.name() || known_) continue;
      known_ = ok = tools()->Find(*call_.name()) != nullptr;
    }
    Skip(taken);
    if (ok && !in_call() && call_.name() && call_.has_arguments()) ok = BeginCall(*call_.name());
    if (in_call()) Arguments(call_.TakeArguments());
    if (!ok || status == JsonCall::Status::kError) {
      Fail();
    } else if (status == JsonCall::Status::kDone) {
      EndCall();
      state_ = State::kAfter;
    } else {
      return false;
    }
    return true;
  }

  /// Parses the name in name[ARGS]{...}, name[CALL_ID]id[ARGS]{...} or name{...}
  bool Name() {
    const std::string_view text = rest();
    size_t length = 0;
    while (length < text.size() && IsToolNameByte(text[length])) ++length;
    if (length > kMaxToolNameBytes) return Fail();
    if (length == text.size()) return false;
    name_ = text.substr(0, length);
    const Match id = Peek("[CALL_ID]", length), arguments = Peek("[ARGS]", length);
    if (id == Match::kUnknown || arguments == Match::kUnknown) return false;
    Skip(length);
    if (id == Match::kYes) {
      Take("[CALL_ID]");
      state_ = State::kCallId;
      return true;
    }
    if (arguments == Match::kYes) Take("[ARGS]");
    if (arguments == Match::kNo && text[length] != '{') return Fail();
    BeginNamed();
    return true;
  }

  bool CallId() {
    if (!TakeUntil("[ARGS]")) return false;
    BeginNamed();
    return true;
  }

  void BeginNamed() {
    if (tools()->Find(name_) == nullptr) {
      Fail();
      return;
    }
    BeginArguments();
    state_ = State::kArguments;
  }

  bool ArgumentsOfName() {
    const Match whole = PassCall(name_);
    if (whole != Match::kYes) return whole == Match::kNo && Fail();
    state_ = State::kAfter;
    return true;
  }

  /// Parses the text after a complete call.
  bool After() {
    if (!SkipSpace()) return false;
    const char c = rest()[0];
    if (in_list_ && (c == ',' || c == ']')) {
      state_ = c == ',' ? State::kOpened : State::kClose;
      in_list_ = c == ',';
      if (in_list_) Attempt();
      Skip(1);
      return true;
    }
    if (manner_.bare && (c == ';' || c == ',' || c == '{')) return AfterBare(c);
    return Close();
  }

  /// Parses the closing text after a call or a list of calls.
  bool Close() {
    if (!manner_.closes.empty() && !SkipSpace()) return false;
    bool waits = false;
    for (const std::string& text : manner_.closes) {
      const Match closed = TakeClosing(text);
      waits = closed == Match::kNo ? waits : closed == Match::kUnknown;
      if (closed == Match::kYes) break;
    }
    if (waits) return false;
    BackToText();
    return true;
  }

  bool AfterBare(char c) {
    const size_t next = c == '{' ? 0 : EndOfSpace(1);
    if (next == rest().size() && next <= kMaxSpaceBytes) return false;
    if (next > kMaxSpaceBytes || rest()[next] != '{') {
      state_ = State::kText;
      return true;
    }
    Attempt();
    Skip(next);
    state_ = State::kOpened;
    return true;
  }

  Manner manner_;
  State state_;
  bool in_list_ = false;
  JsonCall call_;
  bool known_ = false;  // the name of call_ belongs to a tool
  std::string name_;
};

}  // namespace

std::unique_ptr<AnswerParser> MakeJsonCallsParser(ToolFormat format, std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<JsonCallsParser>(format, std::move(tools));
}

}  // namespace quire
