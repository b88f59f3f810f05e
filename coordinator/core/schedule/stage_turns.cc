#include "coordinator/core/schedule/stage_turns.h"

#include <algorithm>

namespace quire {

void StageTurns::TakeTurns(bool together, StepDraft& draft) {
  const bool in_pipeline = limits_.num_stages > 1 && !together;
  draft.in_turns = draft.in_company || in_pipeline;
  if (!draft.in_turns) return;
  ready_.clear();
  drawing_.clear();
  for (Request* request : running_.requests()) {
    const bool decodes = request->beams == nullptr && request->LeaderAtWork() == nullptr;
    for (Sequence& sequence : request->sequences) {
      sequence.sits_out = false;
      if (!in_pipeline || !decodes || request->TokensToCompute(sequence) != 1) continue;
      (sequence.num_pending > 0 ? drawing_ : ready_).push_back(&sequence);
    }
  }
  const size_t stages = static_cast<size_t>(limits_.num_stages);
  const size_t part = (ready_.size() + drawing_.size() + stages - 1) / stages;
  size_t places = part;
  if (!draft.ahead && !ready_.empty()) {
    ready_.erase(ready_.begin());  // the most senior decode
    places = std::max<size_t>(1, part - 1);
  }
  for (std::vector<Sequence*>* decodes : {&ready_, &drawing_}) {
    std::ranges::stable_sort(*decodes, {}, &Sequence::last_step);
    for (Sequence* sequence : *decodes) {
      const bool turn = places > 0 && sequence->num_pending <= 1;
      sequence->sits_out = !turn;
      places -= turn;
    }
    if (!decodes->empty()) places = 0;
  }
}

}  // namespace quire
