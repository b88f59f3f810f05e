// Input: tokens and stop strings. The text of the tokens must come in pieces of whole characters and equal the text
// decoded in one piece. Stop strings must be found however the pieces are cut.
#include "comm/base/error.h"
#include "coordinator/text/stop_matcher.h"
#include "coordinator/text/tokenizer/byte_level.h"
#include "coordinator/text/tokenizer/detokenizer.h"
#include "coordinator/text/utf8.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

/// Returns a tokenizer whose token i is byte i. Some further tokens are whole or broken characters.
const Tokenizer& ByteTokenizer() {
  static const Tokenizer tokenizer = [] {
    TokenizerData data;
    for (int byte = 0; byte < 256; ++byte)
      data.tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
    for (const char* more : {"\xe2\x82", "\xac ", "\xf0\x9f\x98", "stop", "<|end|>"}) {
      data.tokens.push_back(BytesToAlphabet(more));
    }
    data.added.push_back({260, "<|end|>", true});
    return Tokenizer(std::move(data));
  }();
  return tokenizer;
}

/// Returns the text up to the first stop string, which is included if `include` is set. The search is a simple one.
std::string CutAtStop(const std::string& text, const std::vector<std::string>& stops, bool include) {
  size_t first = std::string::npos, length = 0;
  for (const std::string& stop : stops) {
    if (const size_t at = text.find(stop); at < first) first = at, length = stop.size();
  }
  return first == std::string::npos ? text : text.substr(0, first + (include ? length : 0));
}

void CheckStops(const std::vector<std::string>& pieces, const std::vector<std::string>& stops, bool include) {
  StopMatcher matcher(stops, include);
  std::string shown, whole;
  bool stopped = false;
  for (const std::string& piece : pieces) {
    const StopMatcher::Output out = matcher.Push(piece);
    whole += piece;
    shown += out.text;
    stopped = out.stopped;
    QUIRE_CHECK(whole.starts_with(shown), "\"{}\" does not begin with \"{}\"", whole, shown);
    if (stopped) break;
  }
  if (!stopped) shown += matcher.Finish();
  QUIRE_CHECK(shown == CutAtStop(whole, stops, include), "\"{}\" of \"{}\"", shown, whole);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const bool include = bytes.Flag(), skip_special = bytes.Flag();
  std::vector<std::string> stops;
  for (uint32_t count = bytes.Below(4); count > 0; --count) {
    if (const std::string_view stop = bytes.Until('\0'); !stop.empty()) stops.emplace_back(stop);
  }
  const Tokenizer& tokenizer = ByteTokenizer();
  Detokenizer detokenizer(tokenizer, skip_special);
  std::vector<TokenId> tokens;
  std::vector<std::string> pieces;
  std::string text;
  while (!bytes.empty()) {
    tokens.push_back(static_cast<TokenId>(bytes.Below(300)) - 10);
    pieces.push_back(detokenizer.Push(tokens.back()));
    QUIRE_CHECK(IsValidUtf8(pieces.back()), "a piece that is no UTF-8");
  }
  pieces.push_back(detokenizer.Finish());
  for (const std::string& piece : pieces) text += piece;
  QUIRE_CHECK(IsValidUtf8(text) && text == Decode(tokenizer, tokens, skip_special), "\"{}\"", text);
  CheckStops(pieces, stops, include);
  return 0;
}
