#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/openai/openai_response.h"
#include "coordinator/api/requests/pooling_request.h"
#include "coordinator/http/piecewise_text.h"

namespace quire {

/// Returns the JSON text of an answer of a call that pools prompts. `vectors` are in the prompts' order. `envelope` has
/// the id, model and time.
std::shared_ptr<PiecewiseText> PooledAnswer(const Json& envelope, PoolingTerms terms,
                                            std::vector<std::vector<float>> vectors, const Usage& usage);

/// Keeps the first `dimensions` numbers (0: all), then scales to length 1 if `normalize`. A zero vector stays as it is.
void FitVector(int dimensions, bool normalize, std::vector<float>& vector);

/// Returns the score of each pair: with by_pair, the model's own score, or its sigmoid if terms.sigmoid is set; with
/// by_answer, the probability of "yes" where only "yes" and "no" are possible; otherwise the cosine of the pair's two
/// embeddings.
std::vector<double> PairScores(const PoolingTerms& terms, std::vector<std::vector<float>> vectors);

/// Replaces a classifier's logits by the probabilities that `scale` makes of them; kNone changes nothing.
void ScaleClasses(ClassScale scale, std::vector<float>& numbers);

/// Returns the numbers' little-endian bytes in base64.
std::string Base64Of(const std::vector<float>& vector);

}  // namespace quire
