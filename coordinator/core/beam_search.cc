#include "coordinator/core/beam_search.h"

#include <algorithm>
#include <cmath>

namespace quire {

namespace {

constexpr float kOutOfTheRace = -1e9f;  // HF's score for a beam that must not win

}  // namespace

BeamSearch::BeamSearch(const BeamOptions& options, std::vector<TokenId> stop_token_ids, int max_tokens)
    : options_(options),
      stop_token_ids_(std::move(stop_token_ids)),
      max_tokens_(max_tokens),
      running_(static_cast<size_t>(options.width)) {
  // All beams are equal at first, so only beam 0 may give continuations.
  for (size_t i = 1; i < running_.size(); ++i) running_[i].score = kOutOfTheRace;
}

bool BeamSearch::Stops(TokenId token) const {
  return std::ranges::find(stop_token_ids_, token) != stop_token_ids_.end();
}

Beam BeamSearch::Extend(const Candidate& candidate) const {
  Beam beam = running_[static_cast<size_t>(candidate.parent)];
  beam.tokens.push_back(candidate.token);
  beam.logprobs.push_back(candidate.logprob);
  beam.score = candidate.score;
  return beam;
}

void BeamSearch::Finish(const Candidate& candidate) {
  Beam beam = Extend(candidate);
  beam.stopped = Stops(candidate.token);
  beam.score /= std::pow(static_cast<float>(beam.tokens.size()), options_.length_penalty);
  const auto place = std::ranges::upper_bound(finished_, beam.score, std::greater<>(), &Beam::score);
  finished_.insert(place, std::move(beam));
  if (finished_.size() > running_.size()) finished_.pop_back();
}

bool BeamSearch::IsOver(int length) const {
  if (length >= max_tokens_) return true;
  if (finished_.size() < running_.size()) return false;
  if (options_.early_stopping == EarlyStopping::kYes) return true;
  const bool longest = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
  const auto best_length = static_cast<float>(longest ? max_tokens_ : length);
  const float best_score = std::ranges::max(running_, {}, &Beam::score).score;
  return !(best_score / std::pow(best_length, options_.length_penalty) > finished_.back().score);
}

std::vector<BeamSearch::Step> BeamSearch::Advance(std::span<const Candidates* const> candidates) {
  const auto width = running_.size();
  const int length = static_cast<int>(running_.front().tokens.size()) + 1;
  std::vector<Candidate> all;
  for (size_t i = 0; i < width; ++i) {
    for (const auto& [token, logprob] : *candidates[i]) {
      all.push_back(
          {static_cast<int>(i), token, logprob, running_[i].score + logprob, Stops(token) || length >= max_tokens_});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::score);
  for (size_t i = 0; i < std::min(width, all.size()); ++i) {
    if (all[i].ends) Finish(all[i]);
  }
  for (Candidate& candidate : all) {
    if (candidate.ends) candidate.score += kOutOfTheRace;
  }
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::score);
  all.resize(std::min(width, all.size()));
  while (all.size() < width) all.push_back({0, all.front().token, 0, 2 * kOutOfTheRace, false});
  std::vector<Beam> next(width);
  std::vector<Step> steps(width, {-1, 0});
  const auto place = [&](size_t index, const Candidate& candidate) {
    next[index] = Extend(candidate);
    steps[index] = {candidate.parent, candidate.token};
  };
  // The first child of a beam gets its parent's index; further children get the indices of beams that have no child.
  std::vector<const Candidate*> others;
  for (const Candidate& candidate : all) {
    const auto parent = static_cast<size_t>(candidate.parent);
    steps[parent].parent < 0 ? place(parent, candidate) : others.push_back(&candidate);
  }
  for (size_t index = 0; index < width && !others.empty(); ++index) {
    if (steps[index].parent >= 0) continue;
    place(index, *others.back());
    others.pop_back();
  }
  running_ = std::move(next);
  if (IsOver(length)) return {};
  return steps;
}

std::vector<Beam> BeamSearch::Result() const {
  const size_t count = std::min(finished_.size(), static_cast<size_t>(options_.num_returned));
  return {finished_.begin(), finished_.begin() + static_cast<ptrdiff_t>(count)};
}

}  // namespace quire
