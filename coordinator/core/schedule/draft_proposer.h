#pragma once

#include <vector>

#include "comm/base/types.h"
#include "coordinator/core/blocks/draft_counts.h"
#include "coordinator/core/request.h"
#include "coordinator/core/schedule/earlier_answers.h"

namespace quire {

/// Options of speculative decoding: the step that computes a sequence's last token also computes draft tokens, which
/// may follow it. Answers do not depend on these options.
struct DraftOptions {
  int num_tokens = 0;            // drafts of one sequence in a step, at most kMostDrafts; 0: no speculation
  int min_match = 2;             // fewest equal tokens that make a match (RepeatProposer)
  int max_match = 8;             // equal tokens beyond this number make a match no better
  int max_batch = 8;             // no drafts in a step that computes more sequences than this
  bool from_text = true;         // drafts from the sequence itself
  bool from_answers = false;     // drafts from earlier answers to the same client
  bool from_predictions = true;  // drafts from what the client predicts
  /// A sequence has drafts only while it can pay for them with the time that its earlier drafts saved and with a small
  /// credit (DraftPace::Affordable). Sequences with a prediction need not pay.
  bool must_pay = false;
  /// Drafts from the draft model or the prediction layer that the workers have, for requests without a prediction.
  bool from_model = false;
  DraftSource model_source = DraftSource::kModel;  // kModel: a draft model, kLayer: a prediction layer
  int model_max_len = 0;                           // longest sequence, in tokens, that the model or layer reads
};

/// Guesses the next tokens of a sequence.
class DraftProposer {
 public:
  virtual ~DraftProposer() = default;

  /// False when sequences of the request never get a draft.
  virtual bool MayGuess(const Request& /*request*/) const { return true; }
  /// Sets `guess` to at most `most` tokens (most >= 1) that may follow the sequence; leaves it empty when there is no
  /// draft. Returns the tokens' source. The result depends only on the arguments and on earlier answers, so that a
  /// replay plans the same steps. A wrong draft costs time and changes no answer.
  virtual DraftSource Propose(const Request& request, const Sequence& sequence, int most,
                              std::vector<TokenId>& guess) = 0;
};

/// Searches the client's prediction, the sequence itself and earlier answers for a position whose preceding tokens
/// equal the sequence's last tokens. The tokens after that position become the draft. The longest match is taken; among
/// equally long matches, one in the prediction is preferred, then one in the sequence. Tokens beyond max_match do not
/// make a match longer.
class RepeatProposer final : public DraftProposer {
 public:
  /// `answers`: earlier answers from which drafts may come; null: none. `answers` must outlive the proposer.
  explicit RepeatProposer(const DraftOptions& options, const EarlierAnswers* answers = nullptr)
      : options_(options), answers_(answers) {}
  bool MayGuess(const Request& request) const override;
  DraftSource Propose(const Request& request, const Sequence& sequence, int most, std::vector<TokenId>& guess) override;

 private:
  CommonPart InText(std::span<const TokenId> text) const;
  CommonPart InPrediction(std::span<const TokenId> prediction, std::span<const TokenId> generated) const;

  DraftOptions options_;
  const EarlierAnswers* answers_;
};

}  // namespace quire
