// Input: a sequence of plans for a worker, most of them sensible. A plan that the checks and the sequence table accept
// must never reach outside the tables.
#include "comm/base/error.h"
#include "comm/wire/messages.h"
#include "tests/fuzz/byte_source.h"
#include "worker/engine/sequence_table.h"

namespace quire {
namespace {

constexpr PlanLimits kLimits = {.num_blocks = 24,
                                .num_host_blocks = 6,
                                .block_size = 4,
                                .max_running = 6,
                                .max_step_tokens = 32,
                                .max_model_len = 48,
                                .vocab_size = 50,
                                .state_blocks = 2,
                                .max_guess = 4,
                                .max_draft_rows = 32,
                                .pass_stages = 3};

class PlanMaker {
 public:
  PlanMaker(fuzz::ByteSource& bytes, const SequenceTable& table) : bytes_(bytes), table_(table) {}

  StepPlan Make(StepId step) {
    plan_ = StepPlan{};
    plan_.epoch = 1;
    plan_.step = step;
    for (uint32_t count = bytes_.Below(6); count > 0; --count) Add();
    ComputeKnown();
    if (bytes_.Below(8) == 7) Spoil();
    return plan_;
  }

 private:
  int32_t Block() { return 1 + static_cast<int32_t>(bytes_.Below(kLimits.num_blocks - 1)); }
  int32_t HostBlock() { return 1 + static_cast<int32_t>(bytes_.Below(kLimits.num_host_blocks - 1)); }
  SlotId Slot() { return bytes_.Below(kLimits.max_running); }

  void Add() {
    switch (bytes_.Below(8)) {
      case 0:
        return plan_.released.push_back(Slot());
      case 1:
      case 2:
        return plan_.added.push_back(Sequence());
      case 3:
        return plan_.branches.push_back({Slot(), Slot(), static_cast<TokenId>(bytes_.Below(50))});
      case 4:
        return plan_.tables.push_back({Slot(), bytes_.Below(13), static_cast<BlockId>(bytes_.Below(24))});
      case 5:
        return plan_.copies.push_back({Block(), Block()});
      case 6:
        return plan_.states.push_back({Slot(), {Block(), Block()}});
      default:
        bytes_.Flag() ? plan_.swap_outs.push_back({Block(), HostBlock()})
                      : plan_.swap_ins.push_back({HostBlock(), Block()});
    }
  }

  AddedSequence Sequence() {
    AddedSequence a;
    a.slot = Slot();
    a.tokens.assign(1 + bytes_.Below(20), static_cast<TokenId>(bytes_.Below(50)));
    a.num_prompt_tokens = static_cast<int32_t>(a.tokens.size());
    const auto blocks = (a.tokens.size() + 3) / 4;
    for (size_t i = 0; i < blocks; ++i) a.blocks.push_back(Block());
    a.state = {Block(), Block()};
    if (bytes_.Below(4) == 3)
      a.num_computed = static_cast<int32_t>(bytes_.Below(static_cast<uint32_t>(a.tokens.size())));
    return a;
  }

  /// Continues some of the sequences that the table or the plan knows: with all known tokens, or with a part of them.
  void ComputeKnown() {
    for (SlotId slot = 0; slot < static_cast<SlotId>(kLimits.max_running); ++slot) {
      int computed = -1, known = 0;
      int64_t passed = 0;
      if (table_.Has(slot)) {
        computed = table_.at(slot).num_computed, known = static_cast<int>(table_.at(slot).tokens.size());
        passed = table_.at(slot).num_passed;
      }
      for (const AddedSequence& a : plan_.added) {
        if (a.slot == slot) computed = a.num_computed, known = static_cast<int>(a.tokens.size());
      }
      if (computed < 0 || bytes_.Below(4) == 0) continue;
      if (computed == 0 && (passed > 0 || bytes_.Below(4) == 0)) {
        const int left = 3 * known - static_cast<int>(passed);
        plan_.slices.push_back({slot, static_cast<int32_t>(passed),
                                bytes_.Flag() ? left : 1 + static_cast<int>(bytes_.Below(40)), known, 3});
        continue;
      }
      const int rest = known - computed;
      const uint32_t kind = rest == 1 ? bytes_.Below(4) : 1;
      if (kind > 1) {
        plan_.decodes.push_back(slot);
      } else if (kind == 0) {
        plan_.drafts.push_back(
            {slot, std::vector<TokenId>(1 + bytes_.Below(6), static_cast<TokenId>(bytes_.Below(50)))});
      } else {
        plan_.chunks.push_back({slot, computed, bytes_.Flag() ? rest : 1 + static_cast<int>(bytes_.Below(8))});
      }
      plan_.position_sum += static_cast<uint64_t>(computed);
    }
    OrderGuesses();
  }

  /// Adds orders to the plan: the draft model must make drafts for some of the sequences that decode.
  void OrderGuesses() {
    const auto order = [this](SlotId slot) {
      if (slot % 2 == 0) plan_.guesses.push_back({slot, 1 + static_cast<int32_t>(slot) % 4});
    };
    for (const SlotId slot : plan_.decodes) order(slot);
    for (const Draft& draft : plan_.drafts) order(draft.slot);
  }

  /// Replaces one number of the plan with an odd value.
  void Spoil() {
    constexpr int32_t kOdd[] = {INT32_MAX, INT32_MIN, -1, 0, 1 << 30, 48, 24, 6};
    const int32_t value = kOdd[bytes_.Below(8)];
    const auto count = static_cast<uint32_t>(value);
    switch (bytes_.Below(9)) {
      case 0:
        if (!plan_.chunks.empty()) plan_.chunks[0].start = value;
        break;
      case 1:
        if (!plan_.chunks.empty()) plan_.chunks[0].count = value;
        break;
      case 2:
        if (!plan_.chunks.empty()) plan_.chunks[0].slot = count;
        break;
      case 3:
        if (!plan_.added.empty()) plan_.added[0].num_computed = value;
        break;
      case 4:
        if (!plan_.added.empty()) plan_.added[0].blocks[0] = value;
        break;
      case 5:
        if (!plan_.tables.empty()) plan_.tables[0].index = count;
        break;
      case 6:
        if (!plan_.branches.empty()) plan_.branches[0].parent = count;
        break;
      case 7:
        if (!plan_.slices.empty()) plan_.slices[0].count = value;
        break;
      default:
        if (!plan_.swap_ins.empty()) plan_.swap_ins[0].source = value;
    }
  }

  fuzz::ByteSource& bytes_;
  const SequenceTable& table_;
  StepPlan plan_;
};

/// Aborts when the forward pass would access a position or block outside the member's tables.
void CheckMember(const SequenceState& s, const BatchMember& member) {
  const int begin = member.in_slices() ? 0 : member.start;
  const int end = begin + (member.in_slices() ? member.slice.tokens : member.count);
  QUIRE_CHECK(begin >= 0 && end > begin && member.slice.end() <= member.slice.whole() &&
                  end <= static_cast<int>(s.tokens.size()),
              "slot {}", member.slot);
  QUIRE_CHECK(static_cast<int>(s.state.size()) == kLimits.state_blocks, "slot {}: a state of {} blocks", member.slot,
              s.state.size());
  for (const BlockId block : s.state) QUIRE_CHECK(block > 0 && block < kLimits.num_blocks, "state block {}", block);
  for (int p = begin; p < end; ++p) {
    const auto index = static_cast<size_t>(p / kLimits.block_size);
    QUIRE_CHECK(index < s.blocks.size(), "slot {}: position {} has no block", member.slot, p);
    const BlockId block = s.blocks[index];
    QUIRE_CHECK(block > 0 && block < kLimits.num_blocks, "slot {}: block {}", member.slot, block);
  }
}

void CheckTable(const SequenceTable& table) {
  for (SlotId slot = 0; slot < static_cast<SlotId>(kLimits.max_running); ++slot) {
    if (!table.Has(slot)) continue;
    const SequenceState& s = table.at(slot);
    const int held = static_cast<int>(s.blocks.size()) * kLimits.block_size;
    QUIRE_CHECK(s.num_computed >= 0 && s.num_computed <= held, "slot {}: {} computed", slot, s.num_computed);
    QUIRE_CHECK(s.num_computed < static_cast<int>(s.tokens.size()), "slot {}: nothing to compute", slot);
    QUIRE_CHECK(held < kLimits.max_model_len + kLimits.block_size, "slot {}: {} blocks", slot, s.blocks.size());
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  SequenceTable table(kLimits.max_running, kLimits.block_size, kLimits.max_model_len);
  PlanMaker maker(bytes, table);
  for (StepId step = 1; !bytes.empty() && step <= 16; ++step) {
    const StepPlan plan = maker.Make(step);
    try {
      const StepPlan received = DecodePlan(EncodePlan(plan), kLimits);
      QUIRE_CHECK(received.chunks == plan.chunks && received.added == plan.added && received.drafts == plan.drafts &&
                      received.slices == plan.slices && received.guesses == plan.guesses,
                  "the plan changed on its way");
      const std::vector<BatchMember> batch = table.Apply(received);
      for (const BatchMember& member : batch) CheckMember(table.at(member.slot), member);
      std::vector<SampledToken> tokens;
      for (const BatchMember& member : batch) {
        for (int row = 0; row < member.num_rows(); ++row)
          tokens.push_back({member.slot, static_cast<TokenId>(bytes.Below(50)), 0, {}});
      }
      table.KeepVerified(batch, tokens);
      table.Resolve(table.Advance(batch), tokens);
      CheckTable(table);
    } catch (const Error&) {
      return 0;  // a worker would end now
    }
  }
  return 0;
}
