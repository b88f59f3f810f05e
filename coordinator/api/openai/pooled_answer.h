#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/http/piecewise_text.h"
#include "coordinator/api/openai/openai_response.h"
#include "coordinator/api/requests/pooling_request.h"

namespace quire {

/// The JSON text of the answer to a call whose prompts, in their order, came to these vectors. envelope: its id, model
/// and time.
std::shared_ptr<PiecewiseText> PooledAnswer(const Json& envelope, PoolingTerms terms,
                                            std::vector<std::vector<float>> vectors, const Usage& usage);

/// The first `dimensions` numbers (0: all), with a length of 1 if `normalize`; a vector without length stays as it is.
void FitVector(int dimensions, bool normalize, std::vector<float>& vector);

/// Of every pair its score: the cosine of the angle between its vectors, or how likely yes is where only no and yes
/// are.
std::vector<double> PairScores(const PoolingTerms& terms, std::vector<std::vector<float>> vectors);

/// The little-endian bytes of the numbers in base64.
std::string Base64Of(const std::vector<float>& vector);

}  // namespace quire
