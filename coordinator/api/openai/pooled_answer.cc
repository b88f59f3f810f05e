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

std::string NumbersText(const std::vector<float>& numbers) { return fmt::format("[{}]", fmt::join(numbers, ",")); }

/// Returns the entry for prompt `index`, which has one vector, in answers of /v1/embeddings and /pooling.
std::string VectorText(size_t index, const PoolingTerms& terms, std::vector<float> vector) {
  const bool pools = terms.kind == PoolingTerms::Kind::kPooling;
  if (terms.labels != nullptr) ScaleClasses(terms.class_scale, vector);
  FitVector(terms.dimensions, terms.normalize, vector);
  const std::string numbers = terms.base64 ? '"' + Base64Of(vector) + '"' : NumbersText(vector);
  return fmt::format(R"({}{{"object":"{}","index":{},"{}":{}}})", index > 0 ? "," : "", pools ? "pooling" : "embedding",
                     index, pools ? "data" : "embedding", numbers);
}

/// Returns the entry for prompt `index` in an answer of /classify. If several classes have the largest number, the
/// first of them is the label.
std::string ClassText(size_t index, const PoolingTerms& terms, std::vector<float> numbers) {
  const auto best = static_cast<size_t>(std::ranges::max_element(numbers) - numbers.begin());
  ScaleClasses(terms.class_scale, numbers);
  return fmt::format(R"({}{{"index":{},"label":{},"probs":{},"num_classes":{}}})", index > 0 ? "," : "", index,
                     DumpJson(terms.labels->at(best)), NumbersText(numbers), numbers.size());
}

/// The range [begin, end) of a prompt's tokens that an answer reports. The range leaves out the tokens terms.opening
/// and terms.closing at the prompt's ends.
struct ReportedTokens {
  size_t begin, end;
};

ReportedTokens ReportedOf(const PoolingTerms& terms, size_t index, size_t num_tokens) {
  ReportedTokens reported{0, num_tokens};
  if (terms.prompts.empty()) return reported;
  const std::vector<TokenId>& prompt = terms.prompts.at(index);
  if (terms.opening && prompt.front() == *terms.opening) reported.begin = 1;
  if (terms.closing && reported.end > reported.begin && prompt.back() == *terms.closing) --reported.end;
  return reported;
}

/// Returns the entry for prompt `index`, with a weight for every reported token.
std::string WeightsText(size_t index, const PoolingTerms& terms, const std::vector<float>& weights) {
  const auto [begin, end] = ReportedOf(terms, index, weights.size());
  const std::span given = std::span(weights).subspan(begin, end - begin);
  std::string ids;
  if (!terms.prompts.empty())
    ids = fmt::format(R"(,"token_ids":[{}])",
                      fmt::join(std::span(terms.prompts[index]).subspan(begin, end - begin), ","));
  return fmt::format(R"({}{{"object":"pooling","index":{},"data":[{}]{}}})", index > 0 ? "," : "", index,
                     fmt::join(given, ","), ids);
}

/// Appends the entry for prompt `index`, with a vector for every reported token. Each vector becomes one of `parts`.
void AddRows(size_t index, const std::shared_ptr<const PoolingTerms>& terms, std::vector<float> numbers,
             std::vector<PartedText::Part>& parts) {
  const auto row = static_cast<size_t>(terms->row);
  const auto [begin, end] = ReportedOf(*terms, index, numbers.size() / row);
  parts.push_back(
      {[index] { return fmt::format(R"({}{{"object":"pooling","index":{},"data":[)", index > 0 ? "," : "", index); },
       kEnvelopeBytes});
  const auto all = std::make_shared<const std::vector<float>>(std::move(numbers));
  for (size_t token = begin; token < end; ++token) {
    auto make = [all, terms, row, token, first = token == begin] {
      const auto from = all->begin() + static_cast<ptrdiff_t>(token * row);
      std::vector<float> vector(from, from + static_cast<ptrdiff_t>(row));
      FitVector(terms->dimensions, terms->normalize, vector);
      return (first ? "" : ",") + NumbersText(vector);
    };
    parts.push_back({std::move(make), kEnvelopeBytes + kMostOfNumber * row});
  }
  parts.push_back({[] { return std::string("]}"); }, kEnvelopeBytes});
}

/// Returns an answer with a list `data`, which has one entry for each prompt.
std::shared_ptr<PiecewiseText> ListAnswer(const AnswerHead& head, PoolingTerms given,
                                          std::vector<std::vector<float>> vectors, const Usage& usage) {
  const auto terms = std::make_shared<const PoolingTerms>(std::move(given));
  size_t bytes = kEnvelopeBytes;
  std::vector<PartedText::Part> parts;
  auto opening = [head] {
    const Json begin = {{"id", head.id}, {"object", "list"}, {"created", head.created}, {"model", head.model}};
    return fmt::format("{{{},\"data\":[", Members(begin));
  };
  parts.push_back({std::move(opening), kEnvelopeBytes + head.id.size() + kEscapedBytes * head.model.size()});
  size_t longest_label = 0;
  if (terms->labels != nullptr) longest_label = std::ranges::max(*terms->labels, {}, &std::string::size).size();
  for (size_t i = 0; i < vectors.size(); ++i) {
    bytes += vectors[i].size() * kNumberBytes;
    if (terms->row > 0 && !terms->weights) {
      AddRows(i, terms, std::move(vectors[i]), parts);
      continue;
    }
    if (terms->kind == PoolingTerms::Kind::kClasses) bytes += longest_label;
    const size_t most = kEnvelopeBytes + kEscapedBytes * longest_label + 2 * kMostOfNumber * vectors[i].size();
    auto entry = [i, terms, vector = std::move(vectors[i])]() mutable {
      if (terms->weights) return WeightsText(i, *terms, vector);
      return terms->kind == PoolingTerms::Kind::kClasses ? ClassText(i, *terms, std::move(vector))
                                                         : VectorText(i, *terms, std::move(vector));
    };
    parts.push_back({std::move(entry), most});
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

/// Returns the answer of /v1/rerank: the best terms.top_n documents (0: all) by score, best first. Documents with equal
/// scores are in the order of the request.
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

void ScaleClasses(ClassScale scale, std::vector<float>& numbers) {
  if (scale == ClassScale::kNone) return;
  const double most = *std::ranges::max_element(numbers);
  double sum = 0;
  for (const float number : numbers) sum += std::exp(number - most);
  for (float& number : numbers) {
    number = static_cast<float>(scale == ClassScale::kSigmoid ? 1 / (1 + std::exp(-double{number}))
                                                              : std::exp(number - most) / sum);
  }
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
  if (terms.kind != PoolingTerms::Kind::kRerank && terms.kind != PoolingTerms::Kind::kScore)
    return ListAnswer(head, std::move(terms), std::move(vectors), usage);
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
