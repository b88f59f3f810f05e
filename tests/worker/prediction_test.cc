// Compares the drafts of prediction layers (multi-token prediction) with those of an independent implementation
// (tests/golden/make_mtp_golden.py), after every token and for every way in which tokens come into the cache.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/base/json.h"
#include "comm/collective/lone_collective.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/prediction_model.h"
#include "tests/support/thread_group.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;
constexpr int kGuess = 3;

struct Known {
  Tokens prompt, tokens;
  std::vector<Tokens> drafts;  // entry i: the draft when tokens[i] is the last token; its end may be missing

  Tokens All() const {
    Tokens all = prompt;
    all.insert(all.end(), tokens.begin(), tokens.end());
    return all;
  }
};

std::vector<Known> ReadKnown(const std::string& name) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/mtp_" + name + ".json";
  const Json json = ParseJson(ReadTextFile(path, 1 << 20), path, {.max_depth = 8, .max_nodes = 100'000});
  std::vector<Known> cases;
  for (const Json& c : json.at("cases"))
    cases.push_back(
        {c.at("prompt").get<Tokens>(), c.at("tokens").get<Tokens>(), c.at("drafts").get<std::vector<Tokens>>()});
  return cases;
}

/// Runs plans on one rank that has the whole model and its prediction layer.
class OneRank {
 public:
  OneRank(const ModelFiles& files, const ModelFiles& layer, int block_size)
      : block_size_(block_size), sizes_(SizesOf(layer, block_size)), executor_(MakeExecutor(files)) {
    const RankEngine& engine = executor_.engine();
    state_blocks_ = static_cast<int>((engine.state_bytes() + engine.block_bytes() - 1) / engine.block_bytes());
    executor_.AllocateBlocks(8000, 100, state_blocks_);
  }

  int block_size() const { return block_size_; }
  std::vector<BlockId> NewBlocks(size_t count) {
    std::vector<BlockId> blocks;
    while (blocks.size() < count) blocks.push_back(next_block_++);
    return blocks;
  }
  StepPlan Next() {
    StepPlan plan;
    plan.epoch = 1;
    plan.step = ++step_;
    return plan;
  }
  /// Begins a sequence, in place of the previous sequence. `blocks` already hold the keys and values of the first
  /// `computed` tokens.
  void Begin(StepPlan& plan, const Tokens& tokens, int num_prompt_tokens, int computed, std::vector<BlockId> blocks) {
    if (slot_ > 0) plan.released = {slot_ - 1};
    const std::vector<BlockId> state = NewBlocks(static_cast<size_t>(state_blocks_));
    blocks_ = std::move(blocks);
    plan.added = {{.slot = slot_++,
                   .num_prompt_tokens = num_prompt_tokens,
                   .num_computed = computed,
                   .tokens = tokens,
                   .blocks = blocks_,
                   .sampling = {.temperature = 0},
                   .state = state}};
  }
  StepResult Chunk(StepPlan plan, int start, int count) {
    Reach(plan, start + count);
    plan.chunks = {{slot_ - 1, start, count}};
    plan.position_sum = static_cast<uint64_t>(start);
    return executor_.Execute(EncodePlan(plan));
  }
  /// Computes the sequence's last token, at `position`, and then `drafts`. Also orders a draft from the prediction
  /// layer.
  StepResult Decode(int position, const Tokens& drafts = {}) {
    StepPlan plan = Next();
    Reach(plan, position + 1 + static_cast<int>(drafts.size()));
    if (drafts.empty()) {
      plan.decodes = {slot_ - 1};
    } else {
      plan.drafts = {{slot_ - 1, drafts}};
    }
    plan.guesses = {{slot_ - 1, kGuess}};
    plan.position_sum = static_cast<uint64_t>(position);
    StepResult result = executor_.Execute(EncodePlan(plan));
    // The rank has dropped the blocks behind the block of the last token that the step returned.
    const size_t reached =
        (static_cast<size_t>(position) + result.tokens.size()) / static_cast<size_t>(block_size_) + 1;
    if (!drafts.empty()) blocks_.resize(std::min(blocks_.size(), reached));
    return result;
  }
  const std::vector<BlockId>& blocks() const { return blocks_; }
  StepExecutor& executor() { return executor_; }

 private:
  static EngineSizes SizesOf(const ModelFiles& layer, int block_size) {
    return {.block_size = block_size,
            .max_step_tokens = 300,
            .max_running = 40,
            .max_model_len = 400,
            .shares = {1},
            .draft = {.files = &layer, .num_tokens = kGuess, .max_sequences = 4, .max_model_len = 400},
            .draft_rows = 40 * (1 + kGuess)};
  }
  StepExecutor MakeExecutor(const ModelFiles& files) {
    return {files.spec(), sizes_, 0, MakeCpuEngine(files, sizes_, alone_)};
  }
  /// Adds the blocks that the sequence needs for its first `length` tokens.
  void Reach(StepPlan& plan, int length) {
    while (std::ssize(blocks_) * block_size_ < length) {
      blocks_.push_back(next_block_++);
      plan.tables.push_back({slot_ - 1, static_cast<uint32_t>(blocks_.size() - 1), blocks_.back()});
    }
  }

  int block_size_, state_blocks_ = 0;
  LoneCollective alone_;
  EngineSizes sizes_;
  StepExecutor executor_;
  StepId step_ = 0;
  SlotId slot_ = 0;
  BlockId next_block_ = 1;
  std::vector<BlockId> blocks_;
};

/// Expects the draft after tokens[last], as far as the golden data have it. Returns the number of compared tokens.
int ExpectGuess(const StepResult& result, const Known& known, size_t last, const std::string& where) {
  const Tokens guess = result.guesses.empty() ? Tokens() : result.guesses.front().tokens;
  EXPECT_EQ(guess.size(), static_cast<size_t>(kGuess)) << where << ", after token " << last;
  const Tokens& right = known.drafts[last];
  const size_t count = std::min(guess.size(), right.size());
  EXPECT_EQ(Tokens(guess.begin(), guess.begin() + static_cast<ptrdiff_t>(count)),
            Tokens(right.begin(), right.begin() + static_cast<ptrdiff_t>(count)))
      << where << ", after token " << last;
  return static_cast<int>(count);
}

/// Decodes from tokens[last] on, and compares every token and draft. Every third step has two draft tokens; only the
/// first of them is right. Returns the number of compared draft tokens.
int Follow(OneRank& rank, const Known& known, size_t last, const std::string& where) {
  int compared = 0;
  const auto prompt = static_cast<int>(known.prompt.size());
  while (last + 3 < known.tokens.size()) {
    const bool drafts = last % 3 == 2;
    const Tokens wrong = {known.tokens[last + 1], (known.tokens[last + 2] + 1) % 50};
    const StepResult result = rank.Decode(prompt + static_cast<int>(last), drafts ? wrong : Tokens());
    Tokens drawn;
    for (const SampledToken& token : result.tokens) drawn.push_back(token.token);
    last += drafts ? 2 : 1;
    EXPECT_EQ(drawn, drafts ? Tokens({known.tokens[last - 1], known.tokens[last]}) : Tokens{known.tokens[last]})
        << where;
    compared += ExpectGuess(result, known, last, where);
  }
  return compared;
}

/// Begins a sequence with the prompt, and computes the prompt's first `count` tokens in chunks of at most `most`.
void ComputePrompt(OneRank& rank, const Known& known, int most, int count) {
  StepPlan plan = rank.Next();
  rank.Begin(plan, known.prompt, static_cast<int>(known.prompt.size()), 0, {});
  for (int start = 0; start < count; start += most) {
    rank.Chunk(start == 0 ? std::move(plan) : rank.Next(), start, std::min(most, count - start));
  }
}
void ComputePrompt(OneRank& rank, const Known& known, int most = 300) {
  ComputePrompt(rank, known, most, static_cast<int>(known.prompt.size()));
}

/// The parameter is a model with a layer in tests/golden/mtp.
class PredictionTest : public testing::TestWithParam<const char*> {
 protected:
  test::PredictionModel model_{GetParam()};
  ModelFiles files_ = model_.Open(), layer_ = model_.OpenPrediction();
  std::vector<Known> cases_ = ReadKnown(GetParam());

  /// Compares all cases, with prompts that are cut into chunks of different lengths and with two sizes of blocks.
  void ExpectReference(const ModelFiles& files, const ModelFiles& layer) {
    int compared = 0;
    for (const int block_size : {16, 5}) {
      OneRank rank(files, layer, block_size);
      for (const int most : {300, 64, 7}) {
        for (const Known& known : cases_) {
          ComputePrompt(rank, known, most);
          compared +=
              Follow(rank, known, 0,
                     fmt::format("{} tokens in chunks of {}, blocks of {}", known.prompt.size(), most, block_size));
        }
      }
    }
    EXPECT_GT(compared, 1200) << "the reference has enough clear cases";
  }
};
/// Tests models without recurrent states, in which blocks alone hold what was computed.
class PredictionBlocksTest : public PredictionTest {};

TEST_P(PredictionTest, Guesses_EqualTheReference_HoweverThePromptIsCut) { ExpectReference(files_, layer_); }

/// Tests a prediction layer from a GGUF file, which has the same numbers as the layer's safetensors file.
class PredictionGgufTest : public PredictionTest {};

TEST_P(PredictionGgufTest, Guesses_EqualTheReference_WithAGgufFile) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/models/" + GetParam() + ".mtp.gguf";
  ExpectReference(ModelFiles::Open(path), ModelFiles::OpenPrediction(path));
}

/// The second sequence takes the first blocks of the first one, and a copy of the block in which it continues.
TEST_P(PredictionBlocksTest, Guesses_EqualTheReference_AfterACachedPrefixAndACopiedBlock) {
  int compared = 0;
  for (const int block_size : {16, 5}) {
    OneRank rank(files_, layer_, block_size);
    for (const Known& known : cases_) {
      const auto length = static_cast<int>(known.prompt.size());
      for (const int computed : {(length - 1) / block_size * block_size, length - 1}) {
        if (computed == 0) continue;
        ComputePrompt(rank, known, 300, computed);
        const std::vector<BlockId> blocks = rank.blocks();
        const auto whole = static_cast<size_t>(computed / block_size);
        StepPlan plan = rank.Next();
        std::vector<BlockId> mine(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(whole));
        if (computed % block_size > 0) {
          mine.push_back(rank.NewBlocks(1).front());
          plan.copies = {{blocks[whole], mine.back()}};
        }
        rank.Begin(plan, known.prompt, length, computed, mine);
        rank.Chunk(std::move(plan), computed, length - computed);
        compared +=
            Follow(rank, known, 0, fmt::format("{} of {} tokens in blocks of {}", computed, length, block_size));
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST_P(PredictionBlocksTest, Guesses_EqualTheReference_AfterBlocksWentToTheHostAndBack) {
  OneRank rank(files_, layer_, 16);
  const Known& known = cases_.back();
  const Tokens all = known.All();
  const auto length = static_cast<int>(known.prompt.size());
  ComputePrompt(rank, known);
  constexpr int kLast = 10;  // tokens[kLast] is known and not computed when the sequence goes to the host
  for (int token = 0; token < kLast; ++token) rank.Decode(length + token);
  const std::vector<BlockId> blocks = rank.blocks(), back = rank.NewBlocks(blocks.size());
  std::vector<BlockCopyPair> out, in;
  for (size_t i = 0; i < blocks.size(); ++i) {
    out.push_back({blocks[i], static_cast<BlockId>(i + 1)});
    in.push_back({static_cast<BlockId>(i + 1), back[i]});
  }
  rank.executor().SwapOut(out);
  StepPlan plan = rank.Next();
  plan.swap_ins = in;
  rank.Begin(plan, {all.begin(), all.begin() + length + kLast + 1}, length, length + kLast, back);
  rank.Chunk(std::move(plan), length + kLast, 1);
  EXPECT_GT(Follow(rank, known, kLast + 1, "after"), 10);
}

/// Copies the served model's part of the sequence's blocks into the blocks `mine`, as when blocks come from another
/// worker. Continues the sequence in these blocks, and returns the drafts after each of the next tokens.
std::vector<Tokens> GuessesInBroughtBlocks(OneRank& rank, const Known& known, const std::vector<BlockId>& mine) {
  const auto length = static_cast<int>(known.prompt.size());
  ComputePrompt(rank, known);
  Follow(rank, known, 0, "before");
  const int computed = length + 2;
  const auto from = rank.executor().Lend(rank.blocks(), true).memory,
             to = rank.executor().LendToFill(mine, true).memory;
  for (size_t i = 0; i < to.size(); ++i) std::ranges::copy(from[i], to[i].begin());
  StepPlan plan = rank.Next();
  const Tokens all = known.All();
  rank.Begin(plan, {all.begin(), all.begin() + computed + 1}, length, computed, mine);
  rank.Chunk(std::move(plan), computed, 1);
  std::vector<Tokens> guesses;
  for (int position = computed + 1; position < length + 20; ++position) {
    const StepResult result = rank.Decode(position);
    EXPECT_EQ(result.tokens.front().token, known.tokens[static_cast<size_t>(position + 1 - length)]);
    guesses.push_back(result.guesses.empty() ? Tokens() : result.guesses.front().tokens);
  }
  return guesses;
}

/// Blocks from another worker contain nothing of the prediction layer. Drafts begin in the first block whose tokens are
/// all computed on this rank. The drafts depend only on the tokens from this block on, whatever the other blocks held
/// before.
TEST_P(PredictionBlocksTest, Guesses_BeginInTheNextBlock_WhenBlocksCameFromAnotherWorker) {
  OneRank rank(files_, layer_, 5);
  const Known& known = *std::ranges::find_if(cases_, [](const Known& k) { return k.prompt.size() >= 16; });
  const auto length = static_cast<int>(known.prompt.size());
  const int computed = length + 2, first_whole = (computed / 5 + 1) * 5;
  const auto count = static_cast<size_t>((computed + 4) / 5);
  const std::vector<Tokens> guesses = GuessesInBroughtBlocks(rank, known, rank.NewBlocks(count));
  for (size_t i = 0; i < guesses.size(); ++i) {
    const int last_known = computed + 2 + static_cast<int>(i);
    EXPECT_EQ(guesses[i].size(), last_known >= first_whole ? static_cast<size_t>(kGuess) : 0u)
        << "position " << last_known;
  }
  ComputePrompt(rank, cases_.back());
  std::vector<BlockId> used = rank.blocks();
  ASSERT_GE(used.size(), count);
  used.resize(count);
  EXPECT_EQ(GuessesInBroughtBlocks(rank, known, used), guesses) << "blocks of another text";
}

TEST_P(PredictionBlocksTest, Guesses_AreThoseOfTheNewText_WhenItsBlocksWereUsedBefore) {
  OneRank rank(files_, layer_, 16);
  ASSERT_GE(cases_.size(), 2u);
  const Known &longer = cases_.back(), &shorter = cases_[cases_.size() - 2];
  ComputePrompt(rank, longer);
  Follow(rank, longer, 0, "the first text");
  const std::vector<BlockId> blocks = rank.blocks();
  const auto length = static_cast<int>(shorter.prompt.size());
  StepPlan plan = rank.Next();
  rank.Begin(plan, shorter.prompt, length, 0, {blocks.begin(), blocks.begin() + (length + 15) / 16});
  for (int start = 0; start < length; start += 16)
    rank.Chunk(start == 0 ? std::move(plan) : rank.Next(), start, std::min(16, length - start));
  EXPECT_GT(Follow(rank, shorter, 0, "the second text"), 10);
}

INSTANTIATE_TEST_SUITE_P(Models, PredictionBlocksTest, testing::Values("deepseekv3", "glm4moe"),
                         [](const auto& model) { return std::string(model.param); });
INSTANTIATE_TEST_SUITE_P(Models, PredictionGgufTest, testing::Values("glm4moe"),
                         [](const auto& model) { return std::string(model.param); });
INSTANTIATE_TEST_SUITE_P(Models, PredictionTest,
                         testing::Values("deepseekv3", "glm4moe", "glm4moelite", "qwen3next", "qwen35"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace quire
