// Tests of requests that pool prompts: parsing of their bodies, settings in the model's files, bounds, and answers made
// of vectors or scores. Also tests unknown fields and sampling defaults.
#include "coordinator/api/requests/pooling_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "comm/model/formats/mapped_file.h"
#include "coordinator/api/models/pooling_settings.h"
#include "coordinator/api/openai/call_preparer.h"
#include "coordinator/api/openai/pooled_answer.h"
#include "coordinator/api/requests/known_fields.h"
#include "coordinator/http/api_error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

const RequestLimits kPoolingLimits{.vocab_size = 1000, .max_model_len = 64};
const PoolingOptions kVectors{.pooling = Pooling::kLast, .hidden = 8};
const PoolingOptions kAnswers{.no_pooling = "none", .hidden = 8, .by_answer = true, .answers = {5, 6}};
using Parse = GenerateCall(const RequestBody&, const RequestLimits&, const PoolingOptions&, PoolingTerms&);

GenerateCall ParseBody(Parse& parse, const Json& body, const PoolingOptions& options, PoolingTerms& terms,
                       const RequestLimits& limits = kPoolingLimits) {
  const std::string text = DumpJson(body);
  return parse(RequestBody(text), limits, options, terms);
}

/// Returns the name of the field that is refused, or "" when the request is accepted.
std::string Fault(Parse& parse, const Json& body, const PoolingOptions& options = kVectors,
                  const RequestLimits& limits = kPoolingLimits) {
  PoolingTerms terms;
  try {
    ParseBody(parse, body, options, terms, limits);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param.empty() ? error.what() : error.param;
  }
  return "";
}

TEST(PoolingRequestTest, EmbeddingInputs_AreTextsOrTokens) {
  PoolingTerms terms;
  GenerateCall call = ParseBody(ParseEmbeddingRequest, {{"input", {"a", "b"}}, {"dimensions", 3}}, kVectors, terms);
  EXPECT_EQ(call.prompts.size(), 2u);
  EXPECT_EQ(terms.dimensions, 3);
  EXPECT_TRUE(call.only_prompt() && call.ignore_eos);
  EXPECT_EQ(call.sampling.pooling, Pooling::kLast);
  call = ParseBody(ParseEmbeddingRequest, {{"input", {5, 6}}, {"encoding_format", "base64"}}, kVectors, terms);
  EXPECT_EQ(std::get<std::vector<TokenId>>(call.prompts.at(0)), (std::vector<TokenId>{5, 6}));
  EXPECT_TRUE(terms.base64);
  for (const auto& [field, value] :
       std::vector<std::pair<const char*, Json>>{{"input", nullptr},
                                                 {"input", Json::array()},
                                                 {"input", 5},
                                                 {"input", {1000}},
                                                 {"input", {{1}, 2}},
                                                 {"dimensions", 0},
                                                 {"dimensions", 9},
                                                 {"encoding_format", "int8"},
                                                 {"normalize", 1},
                                                 {"input", Json(std::vector<std::string>(2049, "a"))},
                                                 {"truncate_prompt_tokens", 0}}) {
    Json body = {{"input", "a"}};
    body[field] = value;
    EXPECT_EQ(Fault(ParseEmbeddingRequest, body), field) << value;
  }
  EXPECT_EQ(Fault(ParseEmbeddingRequest, {{"input", Json(std::vector<std::string>(2048, "a"))}}), "");
  EXPECT_NE(Fault(ParseEmbeddingRequest, {{"input", "a"}}, kAnswers), "") << "there is no pooling";
}

TEST(PoolingRequestTest, Pairs_BecomeQueriesThenDocuments_WhenScoredByCosine) {
  PoolingTerms terms;
  const Json body = {{"query", "q"}, {"documents", {"a", Json{{"text", "b"}}}}, {"top_n", 1}};
  const GenerateCall call = ParseBody(ParseRerankRequest, body, kVectors, terms);
  ASSERT_EQ(call.prompts.size(), 3u);
  EXPECT_EQ(std::get<std::string>(call.prompts[0]), "q");
  EXPECT_EQ(terms.num_queries, 1u);
  EXPECT_EQ(terms.top_n, 1u);
  EXPECT_EQ(terms.documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Fault(ParseRerankRequest, {{"documents", {"a"}}}), "query");
  EXPECT_EQ(Fault(ParseRerankRequest, {{"query", "q"}}), "documents");
  EXPECT_EQ(Fault(ParseRerankRequest, {{"query", "q"}, {"documents", Json::array()}}), "documents");
  EXPECT_EQ(Fault(ParseRerankRequest, {{"query", "q"}, {"documents", "a"}, {"instruction", "i"}}), "instruction");
  EXPECT_EQ(Fault(ParseScoreRequest, {{"text_1", {"a", "b"}}, {"text_2", {"a", "b", "c"}}}), "text_1");
  EXPECT_EQ(Fault(ParseScoreRequest, {{"text_1", "a"}}), "text_2");
  EXPECT_EQ(Fault(ParseScoreRequest, {{"queries", {"a", "b"}}, {"documents", {"c", "d"}}}), "");
}

TEST(PoolingRequestTest, Pairs_BecomeOnePromptEach_WhenScoredByAnswer) {
  PoolingTerms terms;
  const Json body = {{"text_1", "q"}, {"text_2", {"a", "b"}}, {"instruction", "i"}};
  const GenerateCall call = ParseBody(ParseScoreRequest, body, kAnswers, terms);
  ASSERT_EQ(call.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::string>(call.prompts[1]), "<Instruct>: i\n<Query>: q\n<Document>: b");
  EXPECT_TRUE(call.framed && terms.by_answer);
  EXPECT_EQ(call.sampling.allowed_tokens, kAnswers.answers);
  EXPECT_EQ(call.sampling.logprob_tokens, kAnswers.answers);
  EXPECT_EQ(call.sampling.pooling, Pooling::kNone);
  const std::string large(3 << 10, 'q');
  EXPECT_EQ(
      Fault(ParseRerankRequest, {{"query", large}, {"documents", Json(std::vector<std::string>(2000, "a"))}}, kAnswers),
      "query");
  EXPECT_EQ(Fault(ParseRerankRequest, {{"query", large}, {"documents", "a"}}, kAnswers), "");
  EXPECT_EQ(Fault(ParseRerankRequest, {{"query", "q"}, {"documents", "a"}, {"instruction", std::string(4097, 'i')}},
                  kAnswers),
            "instruction");
}

const auto kLabels =
    std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"\"bad\"", "good", "so"});
const PoolingOptions kClasses{.pooling = Pooling::kCls,
                              .no_pooling = "a classifier",
                              .hidden = 3,
                              .labels = kLabels,
                              .class_scale = ClassScale::kSoftmax,
                              .row = 8};
const PoolingOptions kTokens{
    .pooling = Pooling::kMean, .hidden = 8, .row = 4, .sparse = true, .colbert = true, .opening = 1, .closing = 2};

TEST(PoolingRequestTest, Classes_AreThoseOfAClassifier_AndPlainNumbersOnRequest) {
  PoolingTerms terms;
  GenerateCall call = ParseBody(ParseClassifyRequest, {{"input", {"a", "b"}}}, kClasses, terms);
  EXPECT_EQ(call.prompts.size(), 2u);
  EXPECT_EQ(call.sampling.pooling, Pooling::kCls);
  EXPECT_EQ(terms.class_scale, ClassScale::kSoftmax);
  for (const char* field : {"use_activation", "activation"}) {
    ParseBody(ParseClassifyRequest, {{"input", "a"}, {field, false}}, kClasses, terms);
    EXPECT_EQ(terms.class_scale, ClassScale::kNone) << field;
  }
  EXPECT_NE(Fault(ParseClassifyRequest, {{"input", "a"}}, kVectors), "") << "no classifier";
  EXPECT_EQ(Fault(ParseClassifyRequest, Json::object(), kClasses), "input");
}

TEST(PoolingRequestTest, TaskField_ChoosesVectorsOrWeightsOfTokens_InsteadOfTheWholePrompts) {
  const auto pooling = [](const Json& body, const PoolingOptions& options, PoolingTerms& terms) {
    return ParseBody(ParsePoolingRequest, body, options, terms).sampling.pooling;
  };
  PoolingTerms vectors, classes, rows, weights, colbert;
  EXPECT_EQ(pooling({{"input", "a"}}, kVectors, vectors), Pooling::kLast);
  EXPECT_EQ(vectors.row, 0);
  EXPECT_EQ(pooling({{"input", "a"}}, kClasses, classes), Pooling::kCls);
  EXPECT_EQ(classes.labels, kLabels);
  EXPECT_EQ(pooling({{"input", "a"}, {"task", "token_embed"}}, kClasses, rows), Pooling::kAll);
  EXPECT_EQ(rows.row, 8);
  EXPECT_EQ(pooling({{"input", "a"}, {"task", "token_embed"}, {"dimensions", 4}}, kTokens, colbert), Pooling::kColbert);
  EXPECT_TRUE(colbert.row == 4 && colbert.opening && !colbert.closing);
  EXPECT_EQ(pooling({{"input", "a"}, {"task", "token_classify"}}, kTokens, weights), Pooling::kSparse);
  EXPECT_TRUE(weights.row == 1 && weights.weights && weights.opening && weights.closing);
  for (const auto& [field, value] :
       std::vector<std::pair<const char*, Json>>{{"dimensions", 5}, {"encoding_format", "base64"}}) {
    EXPECT_EQ(Fault(ParsePoolingRequest, {{"input", "a"}, {"task", "token_embed"}, {field, value}}, kTokens), field);
  }
  EXPECT_EQ(Fault(ParsePoolingRequest, {{"input", "a"}, {"task", "token_classify"}, {"dimensions", 1}}, kTokens),
            "dimensions");
  EXPECT_EQ(Fault(ParsePoolingRequest, {{"input", "a"}, {"task", "token_classify"}}, kClasses), "task");
  EXPECT_EQ(Fault(ParsePoolingRequest, {{"input", "a"}, {"normalize", true}}, kClasses), "normalize");
  EXPECT_EQ(Fault(ParsePoolingRequest, {{"input", "a"}, {"use_activation", true}}, kVectors), "use_activation");
  EXPECT_EQ(Fault(ParsePoolingRequest, {{"input", "a"}, {"task", "plugin"}}, kVectors), "task");
  PoolingOptions none = kVectors;
  none.no_tokens = "only encoders do";
  EXPECT_THAT(Fault(ParsePoolingRequest, {{"input", "a"}, {"task", "token_embed"}}, none),
              testing::HasSubstr("only encoders"));
}

TEST(PooledAnswerTest, ScaleClasses_MakesProbabilities_AlsoOfLargeNumbers) {
  std::vector<float> numbers = {1000, 1000, -1000};
  ScaleClasses(ClassScale::kSoftmax, numbers);
  EXPECT_EQ(numbers, (std::vector<float>{0.5f, 0.5f, 0}));
  numbers = {0, 1000, -1000};
  ScaleClasses(ClassScale::kSigmoid, numbers);
  EXPECT_EQ(numbers, (std::vector<float>{0.5f, 1, 0}));
  numbers = {3, -4};
  ScaleClasses(ClassScale::kNone, numbers);
  EXPECT_EQ(numbers, (std::vector<float>{3, -4}));
}

TEST(PooledAnswerTest, FitVector_CutsToTheDimensionsAndNormalises) {
  std::vector<float> vector = {3, 4, 12};
  FitVector(2, true, vector);
  EXPECT_EQ(vector, (std::vector<float>{0.6f, 0.8f}));
  vector = {3, 4, 12};
  FitVector(2, false, vector);
  EXPECT_EQ(vector, (std::vector<float>{3, 4}));
  vector = {0, 0};
  FitVector(0, true, vector);
  EXPECT_EQ(vector, (std::vector<float>{0, 0})) << "no direction";
}

TEST(PooledAnswerTest, Base64Of_EncodesLittleEndianFloats) {
  EXPECT_EQ(Base64Of({}), "");
  EXPECT_EQ(Base64Of({1.0f}), "AACAPw==");
  EXPECT_EQ(Base64Of({1.0f, -2.0f}), "AACAPwAAAMA=");
  EXPECT_EQ(Base64Of({1.0f, -2.0f, 0.5f}), "AACAPwAAAMAAAAA/");
}

TEST(PooledAnswerTest, PairScores_AreCosinesOrProbabilitiesOfAnswers) {
  PoolingTerms terms;
  terms.num_queries = 1;
  const std::vector<double> cosines = PairScores(terms, {{1, 0}, {0, 5}, {3, 0}, {1, 1}});
  ASSERT_EQ(cosines.size(), 3u);
  EXPECT_NEAR(cosines[0], 0, 1e-6);
  EXPECT_NEAR(cosines[1], 1, 1e-6);
  EXPECT_NEAR(cosines[2], std::sqrt(0.5), 1e-6);
  terms.num_queries = 2;
  const std::vector<double> pairs = PairScores(terms, {{1, 0}, {0, 1}, {1, 0}, {-1, 0}});
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_NEAR(pairs[0], 1, 1e-6);
  EXPECT_NEAR(pairs[1], 0, 1e-6);
  terms.by_answer = true;
  const auto log_of = [](double p) { return static_cast<float>(std::log(p)); };
  EXPECT_NEAR(PairScores(terms, {{log_of(0.1), log_of(0.3)}}).at(0), 0.75, 1e-6) << "no, then yes";
}

TEST(PooledAnswerTest, AnswerBodies_AreWrittenInPieces) {
  const Json envelope = {{"id", "embd-1"}, {"object", "x"}, {"created", 7}, {"model", "m"}};
  const Usage usage{.prompt_tokens = 9, .cached_tokens = 4};
  const auto whole = [&](PoolingTerms terms, std::vector<std::vector<float>> vectors) {
    const auto answer = PooledAnswer(envelope, std::move(terms), std::move(vectors), usage);
    std::string text;
    while (!answer->done()) {
      const size_t most = answer->most_bytes();
      text += answer->Next(1);
      EXPECT_LE(answer->made_bytes(), most);
    }
    return Json::parse(text);
  };
  PoolingTerms terms;
  Json answer = whole(terms, {{3, 4}, {0, 2}});
  EXPECT_EQ(answer["id"], "embd-1");
  EXPECT_EQ(answer["data"].size(), 2u);
  EXPECT_EQ(answer["data"][1], (Json{{"object", "embedding"}, {"index", 1}, {"embedding", {0.0, 1.0}}}));
  EXPECT_EQ(answer["usage"]["total_tokens"], 9);
  terms.kind = PoolingTerms::Kind::kRerank;
  terms.num_queries = 1;
  terms.documents = {"far", "near", "nearest"};
  terms.top_n = 2;
  answer = whole(terms, {{1, 0}, {0, 1}, {1, 1}, {2, 0}});
  ASSERT_EQ(answer["results"].size(), 2u);
  EXPECT_EQ(answer["results"][0]["index"], 2);
  EXPECT_EQ(answer["results"][1]["document"]["text"], "near");
  terms.kind = PoolingTerms::Kind::kScore;
  EXPECT_EQ(whole(terms, {{1, 0}, {2, 0}})["data"][0]["object"], "score");

  answer = whole({.kind = PoolingTerms::Kind::kClasses, .labels = kLabels}, {{0, 2, 1}, {3, -1, 0}});
  EXPECT_EQ(answer["data"][0], (Json{{"index", 0}, {"label", "good"}, {"probs", {0.0, 2.0, 1.0}}, {"num_classes", 3}}));
  EXPECT_EQ(answer["data"][1]["label"], "\"bad\"") << "a label may need escapes";
  answer = whole({.kind = PoolingTerms::Kind::kPooling, .normalize = false}, {{3, 4}});
  EXPECT_EQ(answer["data"][0], (Json{{"object", "pooling"}, {"index", 0}, {"data", {3.0, 4.0}}}));
  PoolingTerms rows{.kind = PoolingTerms::Kind::kPooling, .row = 2, .opening = 1, .prompts = {{1, 7, 2}, {7}, {1}}};
  answer = whole(rows, {{9, 9, 3, 4, 0, 2}, {5, 0}, {1, 1}});
  EXPECT_EQ(answer["data"][0]["data"].dump(), "[[0.6,0.8],[0,1]]") << "without the opening token";
  EXPECT_EQ(answer["data"][1]["data"].dump(), "[[1,0]]");
  EXPECT_EQ(answer["data"][2]["data"], Json::array()) << "nothing else is there";
  rows.row = 1, rows.weights = true, rows.closing = 2;
  answer = whole(rows, {{0.5f, 3, 0.25f}, {5}, {1}});
  EXPECT_EQ(answer["data"][0], (Json{{"object", "pooling"}, {"index", 0}, {"data", {3.0}}, {"token_ids", {7}}}));
  EXPECT_EQ(answer["data"][2]["token_ids"], Json::array());
}

TEST(PooledAnswerTest, EstimatedBytes_CountALabelForEachPrompt) {
  const auto estimated = [](const std::string& label) {
    const auto labels = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"a", label});
    const Json envelope = {{"id", "embd-1"}, {"object", "x"}, {"created", 7}, {"model", "m"}};
    const PoolingTerms terms{.kind = PoolingTerms::Kind::kClasses, .labels = labels};
    return PooledAnswer(envelope, terms, {{0, 2}, {3, 1}, {1, 2}}, {})->estimated_bytes();
  };
  EXPECT_EQ(estimated(std::string(1001, 'b')), estimated("b") + 3 * 1000);
}

TEST(PoolingRequestTest, ModelsPrompts_AreBounded_ForAllInputsTogether) {
  PoolingOptions options = kVectors;
  options.prompts = {{"long", std::string(16 << 10, 'p')}, {"short", "p"}};
  const auto fault = [&](const char* name, size_t count) {
    return Fault(ParseEmbeddingRequest, {{"input", Json(std::vector<std::string>(count, "a"))}, {"prompt_name", name}},
                 options);
  };
  EXPECT_EQ(fault("short", 2048), "");
  EXPECT_EQ(fault("long", 256), "");
  EXPECT_EQ(fault("long", 257), "input");
}

TEST(PoolingRequestTest, ErrorForAnUnknownPrompt_NamesAFewPrompts_HoweverManyTheModelHas) {
  PoolingOptions options = kVectors;
  const auto error_of = [&] {
    PoolingTerms terms;
    return ErrorThrownBy<ApiError>([&] {
      ParseBody(ParseEmbeddingRequest, {{"input", "a"}, {"prompt_name", "?"}}, options, terms);
    });
  };
  options.prompts = {{"one", "p"}, {"two", "p"}};
  EXPECT_NE(error_of().find("must be one of one, two"), std::string::npos);
  for (int i = 0; i < 5000; ++i) options.prompts[std::to_string(10'000 + i) + std::string(1000, 'x')] = "p";
  EXPECT_LT(error_of().size(), 2000u);
  EXPECT_NE(error_of().find("and 4982 others"), std::string::npos);
}

/// A copy of a golden model. Tests may change its files.
class ChangedModel {
 public:
  explicit ChangedModel(const std::string& name) {
    std::filesystem::copy(std::string(QUIRE_TEST_DATA) + "/models/" + name, folder_ / "model",
                          std::filesystem::copy_options::recursive);
  }
  std::string PathOf(const std::string& file) const { return folder_ / ("model/" + file); }
  Json Read(const std::string& file) const { return ParseJson(ReadTextFile(PathOf(file), 1 << 20), file); }
  PoolingOptions Open() const {
    const ModelFiles files = ModelFiles::Open(folder_ / "model");
    return PoolingOf(files, Tokenizer(TokenizerDataOf(files)), Topology());
  }
  /// Overwrites `file` with `contents`, and returns the text of the error that Open() then throws.
  std::string Problem(const std::string& file, const Json& contents) const {
    WriteTextFile(PathOf(file), DumpJson(contents));
    return ErrorThrownBy([&] { Open(); });
  }

 private:
  TemporaryDirectory folder_;
};

TEST(PoolingSettingsTest, NamesOfClasses_AreRefused_WhenTheyAreNoTextsOrTooLong) {
  const ChangedModel model("distilbert_classes");
  const std::string path = model.PathOf("config.json");
  Json config = model.Read("config.json");
  config["id2label"]["1"] = std::string(1025, 'x');
  EXPECT_EQ(model.Problem("config.json", config),
            path + ": id2label: the name of class 1 has 1025 bytes, at most 1024 are allowed");
  for (const Json& wrong : {Json(7), Json(nullptr), Json::array({"a"})}) {
    config["id2label"]["1"] = wrong;
    EXPECT_EQ(model.Problem("config.json", config), path + ": id2label: the name of class 1 is no text");
  }
  config["id2label"]["1"] = std::string(1024, 'x');
  EXPECT_EQ(model.Problem("config.json", config), "");
  EXPECT_EQ(model.Open().labels->at(1).size(), 1024u);
  config["sbert_ce_default_activation_function"] = 5;
  EXPECT_EQ(model.Problem("config.json", config), path + ": sbert_ce_default_activation_function is no text");
}

TEST(PoolingSettingsTest, PromptsOfAModel_AreRefused_WhenTheyAreTooLong) {
  const ChangedModel model("bert");
  const std::string file = "config_sentence_transformers.json";
  EXPECT_EQ(model.Problem(file, {{"prompts", {{"query", std::string(16 << 10, 'x')}}}}), "");
  EXPECT_EQ(model.Problem(file, {{"prompts", {{"query", std::string((16 << 10) + 1, 'x')}}}}),
            model.PathOf(file) + ": the prompt query has 16385 bytes, at most 16384 are allowed");
}

TEST(CallPreparerTest, Echo_IsRefused_WhenTokensOfThePromptAreLongTexts) {
  TokenizerData data;
  data.tokens = {"a", std::string(64 << 10, 'b')};
  const Tokenizer tokenizer(data);
  const CallPreparer preparer({.model_name = "m",
                               .request = {.vocab_size = 2, .max_model_len = 4096},
                               .no_chat_reason = "none",
                               .most_choices = 16},
                              tokenizer, nullptr);
  const auto prepare = [&](TokenId token, int count, bool echo) {
    const Json body = {{"model", "m"},
                       {"prompt", std::vector<TokenId>(static_cast<size_t>(count), token)},
                       {"echo", echo},
                       {"max_tokens", 1}};
    return preparer.Prepare(DumpJson(body), Dialect::kCompletions, {}, 16, {});
  };
  const auto fault = [&](TokenId token, int count, bool echo) -> std::string {
    try {
      prepare(token, count, echo);
    } catch (const ApiError& error) {
      return error.param + ": " + error.what();
    }
    return "";
  };
  EXPECT_EQ(prepare(1, 256, true).echo.at(0).size(), size_t{16} << 20);
  EXPECT_THAT(fault(1, 257, true), testing::AllOf(testing::StartsWith("echo: "), testing::HasSubstr("16777216")));
  EXPECT_EQ(fault(1, 4000, false), "");
  EXPECT_EQ(fault(0, 4000, true), "");
}

TEST(UnknownFieldsTest, UnknownFields_AreRefused_AndTheNearestKnownNameIsFound) {
  EXPECT_EQ(NearestField("temprature", FieldsOf::kChat), "temperature");
  EXPECT_EQ(NearestField("max_tokes", FieldsOf::kCompletions), "max_tokens");
  EXPECT_EQ(NearestField("inputs", FieldsOf::kEmbeddings), "input");
  EXPECT_EQ(NearestField("xqzwvkj", FieldsOf::kChat), "");
  EXPECT_EQ(NearestField(std::string(100'000, 'a'), FieldsOf::kChat), "");
  EXPECT_TRUE(IsKnownField("mirostat", FieldsOf::kChat)) << "refused by name";
  EXPECT_FALSE(IsKnownField("messages", FieldsOf::kCompletions));
  RequestLimits strict = kPoolingLimits, lenient = kPoolingLimits;
  const UnknownFields refused(false), ignored(true);
  strict.unknown = &refused;
  lenient.unknown = &ignored;
  EXPECT_EQ(Fault(ParseEmbeddingRequest, {{"input", "a"}, {"inputs", 1}}, kVectors, strict), "inputs");
  EXPECT_EQ(Fault(ParseEmbeddingRequest, {{"input", "a"}, {"inputs", nullptr}, {"user", "u"}}, kVectors, strict), "");
  EXPECT_EQ(Fault(ParseEmbeddingRequest, {{"input", "a"}, {"inputs", 1}}, kVectors, lenient), "");
  const std::string body = R"({"prompt": "a", "temprature": 1})";
  EXPECT_THROW(ParseCompletionRequest(RequestBody(body), strict), ApiError);
  EXPECT_NO_THROW(ParseCompletionRequest(RequestBody(body), lenient));
}

TEST(SamplingDefaultsTest, FieldsOfTheRequest_OverrideDefaultsOfTheModel) {
  RequestLimits limits = kPoolingLimits;
  limits.defaults = {.temperature = 0.5f, .top_p = 0.9f, .min_p = 0.1f, .repetition_penalty = 1.2f, .top_k = 7};
  const auto parse = [&](const std::string& body) {
    return ParseCompletionRequest(RequestBody(body), limits).sampling;
  };
  const SamplingSpec plain = parse(R"({"prompt": "a"})");
  EXPECT_EQ(plain.temperature, 0.5f);
  EXPECT_EQ(plain.top_p, 0.9f);
  EXPECT_EQ(plain.min_p, 0.1f);
  EXPECT_EQ(plain.repetition_penalty, 1.2f);
  EXPECT_EQ(plain.top_k, 7);
  const SamplingSpec own =
      parse(R"({"prompt": "a", "temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1})");
  EXPECT_EQ(own.temperature, 0.0f);
  EXPECT_EQ(own.top_p, 1.0f);
  EXPECT_EQ(own.top_k, 0);
  EXPECT_EQ(own.min_p, 0.0f);
  EXPECT_EQ(own.repetition_penalty, 1.0f);
  EXPECT_EQ(parse(R"({"prompt": "a", "use_beam_search": true, "n": 2})").repetition_penalty, 1.0f);
}

}  // namespace
}  // namespace quire
