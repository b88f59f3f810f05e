#include "coordinator/cli/explain_paging.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "coordinator/core/blocks/block_manager.h"

namespace quire {

namespace {

constexpr int kBlockSize = 4, kNumBlocks = 12, kPrompt = 7, kTotal = 20;

/// Lets a block manager serve sequences, and describes each step in words.
class Walkthrough {
 public:
  std::string Tell() {
    Intro();
    DecodeToTwentyTokens();
    ForkAndCopyOnWrite();
    EndAndFindAgain();
    return std::move(text_);
  }

 private:
  template <class... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  Sequence NewSequence(int choice) const {
    Sequence s;
    s.choice = choice;
    for (int i = 0; i < kPrompt; ++i) s.tokens.push_back(100 + i);
    s.num_prompt_tokens = kPrompt;
    s.contents.root = blocks_.prefixes().Root("");
    s.contents.Restart();
    return s;
  }

  /// Computes tokens up to `end` and reports the effect.
  void Compute(Sequence& s, int end) {
    const size_t held = s.blocks.size();
    while (s.num_tokens() < end) s.tokens.push_back(200 + s.num_tokens());
    plan_.Clear();
    blocks_.Grow(s, end, plan_);
    for (const auto& [from, to] : plan_.copies) {
      Say("             block {} is shared, so its content is copied to block {} before the write", from, to);
    }
    blocks_.Computed(s, end - s.num_computed);
    const BlockId last = s.blocks.back();
    Say("  {:>2} tokens: table [{}], block {} has {} of {} filled{}; {} of {} blocks in use", end,
        fmt::join(s.blocks, " "), last, blocks_.fill().tokens(last), kBlockSize,
        s.blocks.size() > held ? " (newly opened)" : "", blocks_.pool().num_held(), blocks_.num_usable());
  }

  void Intro() {
    Say("The KV cache is {} blocks of {} tokens. A sequence's block table maps its tokens to blocks;", kNumBlocks,
        kBlockSize);
    Say("token i lives in block table[i / {}], at offset i % {}.\n", kBlockSize, kBlockSize);
  }

  void DecodeToTwentyTokens() {
    Say("A prompt of {} tokens is computed, then {} more tokens are drawn one by one:", kPrompt, kTotal - kPrompt);
    for (int end = kPrompt; end <= kTotal; ++end) Compute(first_, end);
    const int contiguous = 2048;
    Say("  {} tokens took {} blocks: {} slots are empty. One region for {} tokens would leave {} empty.\n", kTotal,
        first_.blocks.size(), static_cast<int>(first_.blocks.size()) * kBlockSize - kTotal, contiguous,
        contiguous - kTotal);
  }

  void ForkAndCopyOnWrite() {
    Say("A second sample goes on from token {}: it shares every block until it writes.", kTotal - 1);
    // The copy has the first sequence's tokens; only its next token may differ.
    blocks_.Fork(first_, second_);
    second_.tokens = first_.tokens;
    for (const BlockId block : {first_.blocks.front(), first_.blocks.back()}) {
      Say("  block {} now has {} owners", block, blocks_.pool().ref_count(block));
    }
    Compute(second_, kTotal + 1);
    Compute(first_, kTotal + 1);
    Say("  At a block boundary nothing needs copying: each opened a block of its own. Inside a block:");
    blocks_.Fork(first_, third_);
    third_.tokens = first_.tokens;
    Compute(third_, kTotal + 2);
    Compute(first_, kTotal + 2);
    Say("  The last owner of a block writes in place.\n");
  }

  void EndAndFindAgain() {
    for (Sequence* s : {&first_, &second_, &third_}) blocks_.Free(*s);
    Say("All three end: {} blocks are free again, {} of them still hold full blocks that can be found by their hash.",
        blocks_.num_free(), blocks_.pool().num_cached());
    Sequence again = NewSequence(0);
    while (again.num_tokens() < kTotal) again.tokens.push_back(200 + again.num_tokens());
    const int cached = blocks_.prefixes().Attach(again, again.num_tokens());
    Say("The same {} tokens come again: {} are taken from the cache (blocks [{}]); the last is always computed,",
        again.num_tokens(), cached, fmt::join(again.blocks, " "));
    Say("because the next token is drawn from it.");
    blocks_.Free(again);
  }

  static BlockManagerOptions Options() {
    BlockManagerOptions options;
    options.num_blocks = kNumBlocks + 1;
    options.block_size = kBlockSize;
    return options;
  }

  BlockManager blocks_{Options()};
  StepPlan plan_;
  Sequence first_ = NewSequence(0), second_ = NewSequence(1), third_ = NewSequence(2);
  std::string text_;
};

}  // namespace

std::string ExplainPaging() { return Walkthrough().Tell(); }

}  // namespace quire
