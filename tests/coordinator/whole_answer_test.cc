// Tests the texts of answers that are not streamed, when they are made in one call and when they are made piece by
// piece. Also tests the estimates of their sizes.
#include "coordinator/api/openai/whole_answer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "coordinator/api/openai/answer_memory.h"

namespace quire {
namespace {

class WholeAnswerTest : public testing::TestWithParam<bool> {
 protected:
  ResponseBuilder Builder() const { return {tokenizer_, GetParam(), "id-1", "model", 17}; }
  /// Returns the choices with different texts, tokens and finish reasons; the texts need escaping.
  std::vector<AnswerChoice> Choices(size_t count, size_t tokens, size_t top) const {
    std::vector<AnswerChoice> choices(count);
    for (size_t c = 0; c < count; ++c) {
      choices[c].text = "ch\"oice\n" + std::to_string(c) + std::string(c * 50, 'x');
      choices[c].finished = c % 2 == 0 ? FinishReason::kStop : FinishReason::kLength;
      for (size_t t = 0; t < tokens; ++t) {
        ReportedToken token{static_cast<TokenId>(c + t), -0.5f * static_cast<float>(t), {}, 3 * t};
        for (size_t k = 0; k < top; ++k)
          token.top.emplace_back(static_cast<TokenId>(300 + k), -1.0f - static_cast<float>(k));
        choices[c].tokens.push_back(std::move(token));
      }
    }
    return choices;
  }
  std::string Text(size_t piece, size_t count, size_t tokens, bool with_logprobs, size_t* longest = nullptr) const {
    WholeAnswer answer(Builder(), Choices(count, tokens, 4), with_logprobs, {5, 6, 1});
    std::string text;
    while (!answer.done()) {
      const std::string next = answer.Next(piece);
      if (longest != nullptr) *longest = std::max(*longest, next.size());
      text += next;
    }
    return text;
  }

  const Tokenizer tokenizer_{TokenizerDataFromHf(std::string(QUIRE_TEST_DATA) + "/tokenizers/gpt2")};
};

TEST_P(WholeAnswerTest, Answer_IsTheSame_InPiecesOfAnySize) {
  for (const bool with_logprobs : {false, true}) {
    const std::string whole = Text(SIZE_MAX, 5, 7, with_logprobs);
    for (const size_t piece : {1, 10, 100, 1000}) EXPECT_EQ(Text(piece, 5, 7, with_logprobs), whole);
    const Json json = ParseJson(whole, "answer");
    ASSERT_EQ(json["choices"].size(), 5u);
    EXPECT_EQ(json["usage"]["total_tokens"], 11);
    EXPECT_EQ(json["id"], "id-1");
    EXPECT_EQ(json["choices"][3]["index"], 3);
    EXPECT_EQ(json["choices"][3]["finish_reason"], "length");
    const Json& choice = json["choices"][2];
    EXPECT_EQ((GetParam() ? choice["message"]["content"] : choice["text"]), "ch\"oice\n2" + std::string(100, 'x'));
    EXPECT_EQ(choice["logprobs"].is_null(), !with_logprobs);
  }
}

TEST_P(WholeAnswerTest, Logprobs_EqualTheLogprobsOfStreams) {
  const std::vector<AnswerChoice> choices = Choices(1, 6, 4);
  const std::vector<ReportedToken> tokens(choices[0].tokens.begin(), choices[0].tokens.end());
  // DumpJson replaces bytes that are not valid UTF-8.
  const Json chunk = ParseJson(DumpJson(Builder().Chunk(0, false, "", tokens, true, std::nullopt)), "chunk");
  const Json whole = ParseJson(Text(SIZE_MAX, 1, 6, true), "answer");
  EXPECT_EQ(whole["choices"][0]["logprobs"], chunk["choices"][0]["logprobs"]);
  EXPECT_EQ(Builder().LogprobLists().size(), GetParam() ? 1u : 4u);
  const Json& first =
      GetParam() ? chunk["choices"][0]["logprobs"]["content"] : chunk["choices"][0]["logprobs"]["tokens"];
  EXPECT_EQ(first.size(), 6u);
}

/// Returns a prompt of three tokens; the first token has no score.
std::shared_ptr<AnswerPrompt> SomePrompt(int num_echoed_top, int num_listed_top) {
  auto prompt = std::make_shared<AnswerPrompt>();
  prompt->num_echoed_top = num_echoed_top;
  prompt->num_listed_top = num_listed_top;
  prompt->tokens.push_back({300, std::nanf(""), {}, 0});
  prompt->tokens.push_back({301, -2.5f, {{302, -0.5f}, {303, -1.5f}, {304, -2.0f}}, 1, 7});
  prompt->tokens.push_back({302, -0.25f, {{302, -0.25f}, {303, -4.0f}, {304, -5.0f}}, 2, 1});
  return prompt;
}

TEST_P(WholeAnswerTest, PromptLogprobs_AreListedOncePerCompletionChoice_AndOncePerChat) {
  for (const size_t piece : {size_t{1}, SIZE_MAX}) {
    std::vector<AnswerChoice> choices = Choices(2, 1, 0);
    for (AnswerChoice& choice : choices) choice.prompt = SomePrompt(-1, 2);
    WholeAnswer answer(Builder(), std::move(choices), false, {5, 6, 1});
    std::string text;
    while (!answer.done()) text += answer.Next(piece);
    const Json json = ParseJson(text, "answer");
    EXPECT_EQ(json.contains("prompt_logprobs"), GetParam());
    EXPECT_EQ(json["choices"][1].contains("prompt_logprobs"), !GetParam());
    const Json& list = GetParam() ? json["prompt_logprobs"] : json["choices"][1]["prompt_logprobs"];
    ASSERT_EQ(list.size(), 3u);
    EXPECT_TRUE(list[0].is_null());
    EXPECT_EQ(list[1].size(), 3u) << "its own, and two";
    EXPECT_EQ(list[1]["301"]["rank"], 7);
    EXPECT_EQ(list[1]["301"]["logprob"], -2.5f);
    EXPECT_EQ(list[1]["303"]["rank"], 2);
    EXPECT_EQ(list[2].size(), 2u) << "its own is one of them";
    EXPECT_TRUE(json["choices"][1]["logprobs"].is_null());
  }
}

TEST_P(WholeAnswerTest, EchoedTokens_PrecedeTheTokensOfAChoice) {
  if (GetParam()) return;  // chats do not echo prompts
  std::vector<AnswerChoice> choices = Choices(1, 2, 1);
  const auto prompt = SomePrompt(1, -1);
  prompt->text = "said ";
  choices[0].prompt = prompt;
  WholeAnswer answer(Builder(), std::move(choices), true, {5, 6, 1});
  const Json json = ParseJson(answer.Next(SIZE_MAX), "answer");
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["text"], "said ch\"oice\n0");
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json({nullptr, -2.5f, -0.25f, -0.0f, -0.5f}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1, 2, 0, 3}));
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1].size(), 1u) << "as many as were asked for";
}

TEST_P(WholeAnswerTest, SharedPrompt_IsCountedOnce) {
  std::vector<AnswerChoice> choices(8);
  const int64_t without = RecordBytes(choices);
  const auto prompt = SomePrompt(3, -1);
  for (AnswerChoice& choice : choices) choice.prompt = prompt;
  const int64_t with = RecordBytes(choices) - without;
  EXPECT_GT(with, static_cast<int64_t>(3 * sizeof(ReportedToken)));
  EXPECT_LT(with, 1000);
}

TEST_P(WholeAnswerTest, Next_ReturnsAtMostTheRequestedBytes_PlusMostBytes) {
  std::vector<AnswerChoice> choices = Choices(3, 0, 0);
  for (AnswerChoice& choice : choices) choice.text = std::string(100'000, '\1');  // \u0001
  WholeAnswer answer(Builder(), std::move(choices), false, {5, 6, 1});
  for (size_t most = answer.most_bytes(); !answer.done(); most = answer.most_bytes())
    EXPECT_LE(answer.Next(kPieceBytes).size(), most + kPieceBytes);
}

TEST_P(WholeAnswerTest, Pieces_HaveLessThan12000Bytes_When10000AreRequested) {
  size_t longest = 0;
  const std::string text = Text(10'000, 20, 200, true, &longest);
  EXPECT_GT(text.size(), 200'000u);
  EXPECT_LT(longest, 12'000u);
}

TEST_P(WholeAnswerTest, AnswerWithoutTokens_HasALogprobsObject_WhenLogprobsAreAskedFor) {
  const Json json = ParseJson(Text(1, 1, 0, true), "answer");
  EXPECT_TRUE(json["choices"][0]["logprobs"].is_object());
}

INSTANTIATE_TEST_SUITE_P(Endpoints, WholeAnswerTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& chat) { return chat.param ? "chat" : "text"; });

TEST(AnswerMemoryTest, EstimatedBytes_GrowWithEveryPartOfAnAnswer) {
  PreparedCall plain;
  plain.longest_prompt = 100;
  const auto more = [&](const std::function<void(PreparedCall&)>& change) {
    PreparedCall other;
    other.longest_prompt = 100;
    change(other);
    return HeldBytes(other, 50) + TextBytes(other, 50) - HeldBytes(plain, 50) - TextBytes(plain, 50);
  };
  EXPECT_GT(more([](PreparedCall& p) { p.longest_prompt = 200; }), 0);
  EXPECT_GT(more([](PreparedCall& p) { p.call.n = p.call.best_of = 2; }), 0);
  EXPECT_GT(more([](PreparedCall& p) { p.num_prompts = 2; }), 0);
  EXPECT_GT(more([](PreparedCall& p) { p.call.num_top_logprobs = 0; }), 50 * 8);
  EXPECT_GT(more([](PreparedCall& p) { p.call.num_top_logprobs = 20; }), 50 * 20 * 8);
  EXPECT_GE(more([](PreparedCall& p) { p.call.tools_bytes = 1000; }), 1000);
  EXPECT_GE(more([](PreparedCall& p) { p.call.sampling.grammar.text.resize(1000); }), 3000);
  EXPECT_GT(HeldBytes(plain, 51), HeldBytes(plain, 50));
  PreparedCall stream;
  stream.longest_prompt = 100;
  stream.call.stream = true;
  stream.call.num_top_logprobs = 20;
  EXPECT_EQ(TextBytes(stream, 50), 0);
  EXPECT_LT(HeldBytes(stream, 4000), 64 << 10) << "a stream keeps no answer";
}

TEST(AnswerMemoryTest, RecordBytes_AreWithinTheEstimatedBytes) {
  PreparedCall prepared;
  prepared.longest_prompt = 1;
  prepared.call.num_top_logprobs = 20;
  prepared.call.n = prepared.call.best_of = 3;
  std::vector<AnswerChoice> choices(3);
  for (AnswerChoice& choice : choices) {
    for (int t = 0; t < 1000; ++t) {
      ReportedToken token;
      token.top.resize(20);
      choice.tokens.push_back(std::move(token));
    }
    choice.text.resize(10'000);
  }
  EXPECT_LE(RecordBytes(choices) + kSendBytes, HeldBytes(prepared, 1000) + TextBytes(prepared, 1000));
}

TEST(PartedTextTest, Parts_AreMadeWhenNeeded_AndReturnedInPieces) {
  const auto source = std::make_shared<std::string>(1000, 'x');
  std::vector<PartedText::Part> parts;
  parts.push_back({[] { return std::string("begin "); }, 6});
  parts.push_back({[] { return std::string(); }, 0});
  parts.push_back({[source] { return *source; }, 1000});
  parts.push_back({[] { return std::string(" end"); }, 4});
  PartedText text(std::move(parts), 1010);
  EXPECT_EQ(text.most_bytes(), 6u);
  EXPECT_EQ(text.Next(6), "begin ");
  EXPECT_EQ(text.made_bytes(), 0u) << "what was given is held no more";
  EXPECT_EQ(text.Next(10), std::string(10, 'x'));
  EXPECT_EQ(source.use_count(), 1) << "nor what a part was made of";
  EXPECT_EQ(text.most_bytes(), 1000u);
  EXPECT_EQ(text.made_bytes(), 1000u);
  std::string rest;
  while (!text.done()) {
    const std::string piece = text.Next(64);
    EXPECT_LE(piece.size(), 64u);
    rest += piece;
  }
  EXPECT_EQ(rest, std::string(990, 'x') + " end");
}

}  // namespace
}  // namespace quire
