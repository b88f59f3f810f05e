#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace quire {

/// Tells where a draft comes from.
enum class DraftSource : uint8_t {
  kPrediction,  // the text that the client predicted (`prediction`)
  kText,        // the prompt and the tokens generated until now
  kAnswers,     // earlier answers to the same client
  kModel,       // a smaller model beside the served one
  kLayer,       // a prediction layer of the served model's files
};
inline constexpr size_t kDraftSources = 5;
/// The most tokens of one draft.
inline constexpr int kMostDrafts = 64;

/// Returns the source's name in metrics and reports. The names are those of the methods of --speculative-config.
constexpr const char* NameOf(DraftSource source) {
  constexpr const char* kNames[kDraftSources] = {"prediction", "ngram", "suffix", "draft_model", "mtp"};
  return kNames[static_cast<size_t>(source)];
}

/// Counts verified drafts. A draft token is accepted when it becomes a token of the answer, so draft tokens after the
/// answer's end are not accepted.
struct DraftCounts {
  int64_t drafts = 0, tokens = 0, accepted = 0;       // number of drafts; draft tokens; accepted tokens
  std::array<int64_t, kMostDrafts> accepted_at = {};  // entry i: number of drafts whose token i was accepted

  /// Counts a verified draft of `count` tokens. The first `right` tokens were accepted.
  void Add(int count, int right) {
    ++drafts;
    tokens += count;
    accepted += right;
    for (int i = 0; i < std::min(right, kMostDrafts); ++i) ++accepted_at[static_cast<size_t>(i)];
  }
  void Add(const DraftCounts& other) {
    drafts += other.drafts;
    tokens += other.tokens;
    accepted += other.accepted;
    for (size_t i = 0; i < accepted_at.size(); ++i) accepted_at[i] += other.accepted_at[i];
  }
};

/// Counts one request's draft tokens, and how many of them became part of the answer.
struct DraftTally {
  int64_t tokens = 0, accepted = 0;
};

}  // namespace quire
