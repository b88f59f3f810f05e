// Reads JSON schemas, one on each line. For each schema, prints the server's reason for refusing it, or some allowed
// texts. The texts are chosen at random from a small vocabulary; texts that do not end are left out.
// coordinator/schemas_test.py runs this program.
#include <spdlog/spdlog.h>

#include <iostream>
#include <optional>
#include <random>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/grammar/grammar_compiler.h"
#include "coordinator/api/requests/structured_output.h"

namespace quire {
namespace {

constexpr TokenId kStop = 0;
constexpr int kWalks = 8, kLongest = 400;

/// Returns a vocabulary of all single bytes and some longer tokens.
Vocabulary WalkersVocabulary() {
  Vocabulary vocabulary{{""}, {kStop}};
  for (int byte = 0; byte < 256; ++byte) vocabulary.bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* more : {"\"a", "\":", "\",", "{\"", "ab", "12", "true", "null", "\"}", "]}", "-1", "0.5", "e1",
                           "\xc3\xa9", "\\n", "\\u00", "\xed\xa0\x80"})
    vocabulary.bytes.emplace_back(more);
  return vocabulary;
}

bool Closes(const std::string& bytes) { return bytes == "\"" || bytes == "}" || bytes == "]"; }

/// Chooses tokens at random, preferably tokens that end the text. Returns nullopt if the text has not ended after
/// kLongest tokens.
std::optional<std::string> Walk(const std::shared_ptr<const CompiledGrammar>& grammar, const Vocabulary& vocabulary,
                                std::mt19937& random) {
  GrammarMatcher matcher(grammar);
  std::vector<TokenId> tokens;
  std::string text;
  for (int step = 0; step < kLongest; ++step) {
    QUIRE_CHECK(matcher.Follow(tokens), "after {}", text);
    std::vector<uint32_t> allowed(matcher.num_words());
    matcher.Allow(allowed);
    const auto may_come = [&](size_t token) { return (allowed[token / 32] >> token % 32 & 1) != 0; };
    std::vector<TokenId> all, closing, no_blanks;
    for (size_t token = 1; token < vocabulary.bytes.size(); ++token) {
      if (!may_come(token)) continue;
      const std::string& bytes = vocabulary.bytes[token];
      all.push_back(static_cast<TokenId>(token));
      if (Closes(bytes)) closing.push_back(static_cast<TokenId>(token));
      if (bytes.find_first_not_of(" \t\r\n") != std::string::npos) no_blanks.push_back(static_cast<TokenId>(token));
    }
    const bool may_end = may_come(kStop);
    QUIRE_CHECK(may_end || !all.empty(), "nothing may come after {}", text);
    if (may_end && (all.empty() || random() % 2 == 0)) return text;
    const auto& from = !closing.empty() && random() % 3 == 0     ? closing
                       : !no_blanks.empty() && random() % 8 != 0 ? no_blanks
                                                                 : all;
    tokens.push_back(from[random() % from.size()]);
    text += vocabulary.bytes[static_cast<size_t>(tokens.back())];
  }
  return std::nullopt;
}

Json Answer(const std::string& schema, GrammarCompiler& compiler, const Vocabulary& vocabulary, std::mt19937& random) {
  try {
    const auto grammar = compiler.Compile(SchemaGrammar(OrderedJson::parse(schema), "schema", SchemaPromise::kExact));
    Json texts = Json::array();
    for (int walk = 0; walk < kWalks; ++walk) {
      if (const auto text = Walk(grammar, vocabulary, random)) texts.push_back(*text);
    }
    return {{"texts", texts}};
  } catch (const std::runtime_error& error) {  // ApiError from reading, Error from compiling
    return {{"refused", error.what()}};
  }
}

}  // namespace
}  // namespace quire

int main() {
  spdlog::set_level(spdlog::level::off);  // remarks about schemas would mix with the answers
  const quire::Vocabulary vocabulary = quire::WalkersVocabulary();
  quire::GrammarCompiler compiler(vocabulary, static_cast<int>(vocabulary.bytes.size()));
  std::mt19937 random(1);
  for (std::string schema; std::getline(std::cin, schema);)
    std::cout << quire::DumpJson(quire::Answer(schema, compiler, vocabulary, random)) << "\n";
}
