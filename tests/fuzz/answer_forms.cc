// Input: a form of calls, a form of reasoning, and a text of words and markers. The parts of an answer must not depend
// on how its text was cut, no word may be lost, and the work must be bounded by the text's length.
#include <algorithm>
#include <optional>

#include "comm/base/error.h"
#include "coordinator/text/answers/answer_parser.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/tool.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

constexpr ReasoningStart kStarts[] = {ReasoningStart::kUndecided, ReasoningStart::kInside, ReasoningStart::kNone};

/// Inputs make calls of all forms from these texts. PiecesFrom also uses the markers of the input's own form.
constexpr const char* kWords[] = {"{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
                                  "{\"tool_name\": \"f\", \"parameters\": {}}",
                                  "f\n```json\n{}\n```",
                                  "f(a='x', b=[1])",
                                  "call:f{a:1}",
                                  "<function=f>\n<parameter=a>\nx\n</parameter>\n</function>",
                                  "<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n</invoke>",
                                  "functions.f:0",
                                  " to=functions.f",
                                  "<|channel|>commentary",
                                  "f<arg_key>a</arg_key><arg_value>x</arg_value>",
                                  "{\"a\": \"",
                                  "[",
                                  "]",
                                  "}",
                                  ", ",
                                  "f",
                                  "g",
                                  "\n",
                                  "  "};

std::shared_ptr<const ToolUse> Tools(bool strict) {
  auto use = std::make_shared<ToolUse>();
  const OrderedJson schema = OrderedJson::parse(
      R"({"type":"object","properties":{"a":{"type":["string","integer"]},"b":{"type":"array"},"c":{}}})");
  use->tools = {{"f", nullptr, schema, strict}, {"g", nullptr, nullptr, false}};
  return use;
}

/// Returns the formats with these names, which are separated by ", ".
template <class Format, class Named>
std::vector<Format> All(const std::string& names, Named named) {
  std::vector<Format> all;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(", ", at), names.size());
    all.push_back(*named(std::string_view(names).substr(at, end - at)));
    at = end + 2;
  }
  return all;
}

AnswerShape ShapeFrom(fuzz::ByteSource& bytes) {
  static const auto kTools = All<ToolFormat>(ToolFormatNames(), ToolFormatNamed);
  static const auto kReasoning = All<ReasoningFormat>(ReasoningFormatNames(), ReasoningFormatNamed);
  static const auto kFree = Tools(false), kStrict = Tools(true);
  AnswerShape shape;
  shape.format.tools = kTools[bytes.Below(static_cast<uint32_t>(kTools.size()))];
  shape.format.reasoning = kReasoning[bytes.Below(static_cast<uint32_t>(kReasoning.size()))];
  shape.start = kStarts[bytes.Below(3)];
  if (shape.format.tools != ToolFormat::kNone) shape.tools = bytes.Flag() ? kStrict : kFree;
  return shape;
}

/// Makes pieces of text from the input: plain bytes, and marks or known words where a byte chooses one.
std::vector<std::string> PiecesFrom(fuzz::ByteSource& bytes, const AnswerShape& shape) {
  const std::vector<std::string> marks = MarkersOf(shape.format);
  std::vector<std::string> pieces;
  while (!bytes.empty()) {
    const uint8_t byte = bytes.Byte();
    if (byte < 0x80) {
      pieces.emplace_back(1, static_cast<char>(byte));
    } else if (byte < 0xc0 && !marks.empty()) {
      pieces.push_back(marks[byte % marks.size()]);
    } else {
      pieces.emplace_back(kWords[byte % std::size(kWords)]);
    }
  }
  return pieces;
}

/// Joins neighbouring parts of the same kind and call, except for kCall and kBroken. Leaves out parts without text,
/// except for kCall.
AnswerParts Joined(const AnswerParts& parts) {
  AnswerParts joined;
  for (const AnswerPart& part : parts) {
    const bool continues = !joined.empty() && part.kind != AnswerPart::kCall && part.kind != AnswerPart::kBroken &&
                           joined.back().kind == part.kind && joined.back().call == part.call;
    if (continues) {
      joined.back().text += part.text;
    } else if (!part.text.empty() || part.kind == AnswerPart::kCall) {
      joined.push_back(part);
    }
  }
  return joined;
}

AnswerParts Parse(const AnswerShape& shape, const std::vector<std::string>& pieces, bool cut, size_t whole) {
  const auto parser = MakeAnswerParser(shape);
  AnswerParts parts;
  for (const std::string& piece : pieces) {
    parser->Push(piece, parts);
    QUIRE_CHECK(parser->held_bytes() <= 16 * whole + (64 << 10), "{} bytes are held of {}", parser->held_bytes(),
                whole);
  }
  parser->Finish(cut, parts);
  return Joined(parts);
}

/// Returns the text's letters, digits and signs, without white space.
std::string Words(const std::string& text) {
  std::string words;
  std::ranges::copy_if(text, std::back_inserter(words), [](char c) { return !IsJsonSpace(c); });
  return words;
}

/// Aborts unless calls are numbered in their order and every whole call has an object as its arguments. `cut`: the
/// answer was cut, so the last call need not be whole.
void CheckCalls(const AnswerParts& parts, bool cut) {
  int calls = 0;
  std::string arguments;
  const auto end = [&](bool whole) {
    QUIRE_CHECK(calls == 0 || !whole || IsJsonObject(arguments), "arguments that are no object: {}", arguments);
  };
  bool is_broken = false;
  for (const AnswerPart& part : parts) {
    if (part.kind == AnswerPart::kCall) {
      end(!is_broken);
      QUIRE_CHECK(part.call == calls, "call {} comes as {}", calls, part.call);
      ++calls;
      arguments.clear();
      is_broken = false;
    }
    if (part.kind == AnswerPart::kArguments) arguments += part.text;
    is_broken |= part.kind == AnswerPart::kBroken;
  }
  end(!is_broken && !cut);
}

/// Aborts when an answer without calls lost more of `text` than white space and markers of reasoning. Does not check
/// Harmony's formats.
void CheckWords(const AnswerShape& shape, const AnswerParts& parts, const std::string& text) {
  const bool harmony =
      shape.format.tools == ToolFormat::kHarmony || shape.format.reasoning == ReasoningFormat::kHarmony;
  if (harmony || std::ranges::any_of(parts, [](const AnswerPart& part) { return part.kind == AnswerPart::kCall; }))
    return;
  std::string shown, given = Words(text);
  for (const AnswerPart& part : parts) shown += Words(part.text);
  const ReasoningMarks thoughts = MarksOf(shape.format.reasoning);
  std::vector<std::string> marks = thoughts.open;
  marks.insert(marks.end(), thoughts.close.begin(), thoughts.close.end());
  for (const std::string& mark : {thoughts.response, thoughts.response_end}) {
    if (!mark.empty()) marks.push_back(mark);
  }
  size_t at = 0;
  for (size_t i = 0; i < given.size();) {
    const auto here = std::ranges::find_if(
        marks, [&](const std::string& mark) { return given.compare(i, Words(mark).size(), Words(mark)) == 0; });
    if (here != marks.end() && (at >= shown.size() || shown.compare(at, Words(*here).size(), Words(*here)) != 0)) {
      i += Words(*here).size();
      continue;
    }
    QUIRE_CHECK(at < shown.size() && shown[at] == given[i], "\"{}\" became \"{}\"", given, shown);
    ++at;
    ++i;
  }
  QUIRE_CHECK(at == shown.size(), "\"{}\" became \"{}\"", given, shown);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const AnswerShape shape = ShapeFrom(bytes);
  const bool cut = bytes.Flag();
  const uint32_t step = 1 + bytes.Below(7);
  if (shape.is_plain()) return 0;
  const std::vector<std::string> pieces = PiecesFrom(bytes, shape);
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  std::vector<std::string> cuts;
  for (size_t at = 0; at < text.size(); at += step) cuts.push_back(text.substr(at, step));
  const AnswerParts whole = Parse(shape, {text}, cut, text.size());
  QUIRE_CHECK(Parse(shape, pieces, cut, text.size()) == whole, "cut by words, \"{}\" has other parts", text);
  QUIRE_CHECK(Parse(shape, cuts, cut, text.size()) == whole, "cut by {}, \"{}\" has other parts", step, text);
  CheckCalls(whole, cut);
  CheckWords(shape, whole, text);
  return 0;
}
