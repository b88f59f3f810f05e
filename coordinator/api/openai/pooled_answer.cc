#include "coordinator/api/openai/pooled_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace quire {

namespace {

/// The members that identify an answer.
struct AnswerHead {
  std::string id, model;
  int64_t created;
};

constexpr size_t kNumberBytes = 12;     // usual bytes of a number's text, with the comma
constexpr size_t kMostOfNumber = 16;    // most bytes of a number's text, with the comma
constexpr size_t kEnvelopeBytes = 512;  // bytes of an answer without its data
constexpr size_t kScoreBytes = 64;      // bytes of a score's entry without its document

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"total_tokens", usage.prompt_tokens},
          {"completion_tokens", 0},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

/// Returns the members of an object, without its braces.
std::string Members(const Json& more) {
  const std::string text = DumpJson(more);
  return text.substr(1, text.size() - 2);
}

std::string EmbeddingText(size_t index, const PoolingTerms& terms, std::vector<float> vector) {
  FitVector(terms.dimensions, terms.normalize, vector);
  const std::string numbers = terms.base64 ? '"' + Base64Of(vector) + '"' : fmt::format("[{}]", fmt::join(vector, ","));
  return fmt::format(R"({}{{"object":"embedding","index":{},"embedding":{}}})", index > 0 ? "," : "", index, numbers);
}

std::shared_ptr<PiecewiseText> EmbeddingsAnswer(const AnswerHead& head, const PoolingTerms& terms,
                                                std::vector<std::vector<float>> vectors, const Usage& usage) {
  size_t bytes = kEnvelopeBytes;
  std::vector<PartedText::Part> parts;
  auto opening = [head] {
    const Json begin = {{"id", head.id}, {"object", "list"}, {"created", head.created}, {"model", head.model}};
    return fmt::format("{{{},\"data\":[", Members(begin));
  };
  parts.push_back({std::move(opening), kEnvelopeBytes + head.id.size() + kEscapedBytes * head.model.size()});
  for (size_t i = 0; i < vectors.size(); ++i) {
    bytes += vectors[i].size() * kNumberBytes;
    const size_t most = kEnvelopeBytes + kMostOfNumber * vectors[i].size();
    auto embedding = [i, terms, vector = std::move(vectors[i])]() mutable {
      return EmbeddingText(i, terms, std::move(vector));
    };
    parts.push_back({std::move(embedding), most});
  }
  auto end = [usage] { return fmt::format("],{}}}", Members({{"usage", UsageJson(usage)}})); };
  parts.push_back({std::move(end), kEnvelopeBytes});
  return std::make_shared<PartedText>(std::move(parts), bytes);
}

Json ScoresJson(const AnswerHead& head, const std::vector<double>& scores, const Usage& usage) {
  Json data = Json::array();
  for (size_t i = 0; i < scores.size(); ++i) data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
  return {{"id", head.id},       {"object", "list"},        {"created", head.created},
          {"model", head.model}, {"data", std::move(data)}, {"usage", UsageJson(usage)}};
}

/// Returns the answer of /v1/rerank: documents by score, best first; equal scores keep the documents' order.
Json RankingJson(const AnswerHead& head, const PoolingTerms& terms, const std::vector<double>& scores,
                 const Usage& usage) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return scores[i]; });
  if (terms.top_n > 0) order.resize(std::min(order.size(), terms.top_n));
  Json results = Json::array();
  for (const size_t i : order) {
    Json result = {{"index", i}, {"relevance_score", scores[i]}};
    if (!terms.documents.empty()) result["document"] = {{"text", terms.documents[i]}};
    results.push_back(std::move(result));
  }
  return {{"id", head.id}, {"model", head.model}, {"results", std::move(results)}, {"usage", UsageJson(usage)}};
}

}  // namespace

void FitVector(int dimensions, bool normalize, std::vector<float>& vector) {
  if (dimensions > 0) vector.resize(std::min(vector.size(), static_cast<size_t>(dimensions)));
  if (!normalize) return;
  double squares = 0;
  for (const float value : vector) squares += double{value} * value;
  if (squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& value : vector) value = static_cast<float>(value * scale);
}

std::vector<double> PairScores(const PoolingTerms& terms, std::vector<std::vector<float>> vectors) {
  std::vector<double> scores;
  if (terms.by_pair) {
    for (const auto& answer : vectors)
      scores.push_back(terms.sigmoid ? 1 / (1 + std::exp(-double{answer[0]})) : double{answer[0]});
    return scores;
  }
  if (terms.by_answer) {
    for (const auto& answer : vectors) scores.push_back(1 / (1 + std::exp(double{answer[0]} - answer[1])));
    return scores;
  }
  for (auto& vector : vectors) FitVector(0, true, vector);
  for (size_t i = terms.num_queries; i < vectors.size(); ++i) {
    const std::vector<float>& query = vectors[terms.num_queries == 1 ? 0 : i - terms.num_queries];
    scores.push_back(std::inner_product(query.begin(), query.end(), vectors[i].begin(), 0.0));
  }
  return scores;
}

std::string Base64Of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  const auto bytes = std::as_bytes(std::span(vector));
  constexpr int kForm = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), kForm), '\0');
  ::sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                      kForm);
  text.pop_back();  // the terminating zero
  return text;
}

std::shared_ptr<PiecewiseText> PooledAnswer(const Json& envelope, PoolingTerms terms,
                                            std::vector<std::vector<float>> vectors, const Usage& usage) {
  AnswerHead head{envelope.at("id").get<std::string>(), envelope.at("model").get<std::string>(),
                  envelope.at("created").get<int64_t>()};
  if (terms.kind == PoolingTerms::Kind::kEmbeddings) return EmbeddingsAnswer(head, terms, std::move(vectors), usage);
  size_t bytes = kEnvelopeBytes + kScoreBytes * vectors.size();
  size_t most = bytes;
  for (const std::string& document : terms.documents) {
    bytes += document.size();
    most += document.size() + SpelledBytes(document);  // a JSON tree, and its text
  }
  for (const auto& vector : vectors) bytes += vector.size();  // a few operations per number
  auto make = [head = std::move(head), terms = std::move(terms), vectors = std::move(vectors), usage]() mutable {
    const std::vector<double> scores = PairScores(terms, std::move(vectors));
    return DumpJson(terms.kind == PoolingTerms::Kind::kRerank ? RankingJson(head, terms, scores, usage)
                                                              : ScoresJson(head, scores, usage));
  };
  return std::make_shared<PartedText>(std::vector<PartedText::Part>{{std::move(make), most}}, bytes);
}

}  // namespace quire
