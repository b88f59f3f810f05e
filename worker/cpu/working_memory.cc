#include "worker/cpu/working_memory.h"

#include <algorithm>

#include "worker/cpu/cpu_activations.h"
#include "worker/cpu/draft_stack.h"
#include "worker/cpu/expert_activations.h"
#include "worker/cpu/guesser_sizes.h"
#include "worker/cpu/kept_rows.h"
#include "worker/cpu/latents.h"
#include "worker/cpu/mixers.h"
#include "worker/cpu/prediction_stack.h"
#include "worker/cpu/sampler.h"
#include "worker/model/mapped_pages.h"
#include "worker/model/rope_table.h"
#include "worker/sampling/draw.h"

namespace quire {

namespace {

constexpr int64_t kFloat = sizeof(float);

// These sizes were measured on Debian 12 with Open MPI 4.1 and are rounded up. kProcessBytes is what a process takes
// for the program and its libraries (which processes partly share), for connections, stacks and the model's
// description, and for memory that the allocator does not give back. In a group of several ranks, each rank takes
// kSharedBytesOfARank more, for shared memory in which the ranks add up sums.
constexpr int64_t kProcessBytes = 24 << 20, kSharedBytesOfARank = 1 << 20;
// Each token of the vocabulary takes this many bytes in the messages and in xgrammar. The number was measured.
constexpr int64_t kBytesPerToken = 200;

int64_t RopeBytes(const ModelSpec& spec, int64_t max_model_len) {
  int64_t numbers = 0;
  for (int64_t rope = 0; rope < std::ssize(spec.ropes); ++rope) {
    const int tables = spec.ropes[static_cast<size_t>(rope)].query_growth != 0 ? 2 : 1;
    numbers += tables * RopeTableSize(spec, rope, max_model_len);
  }
  return numbers * kFloat;
}

/// Returns the bytes of the kernels' buffers of rows, which stay allocated between calls: rows of products as integers,
/// gathered rows of experts, and each thread's part of attention.
int64_t KernelBytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes) {
  constexpr int64_t kRowsOfATile = 32, kSlotsOfASpan = 2048;  // rows and cached tokens of an item of attention
  const int64_t head = LargestHead(spec), heads = std::max<int64_t>(16, shard.heads.size());
  int64_t widest = std::max(spec.hidden_size, heads * head);
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) widest = std::max(widest, shard.layer(layer).mlp.size());
  int64_t rows = sizes.max_step_tokens, gathered = 0;
  if (spec.num_mixture_layers() > 0) {
    rows *= std::max<int64_t>(1, spec.mixture.experts_per_token);
    gathered = rows * spec.hidden_size * kFloat;
  }
  const int64_t of_number = sizeof(int16_t) + sizeof(int8_t);  // with the scales of 32 numbers
  const int64_t of_thread = (kRowsOfATile * heads * (2 * head + 8) + kSlotsOfASpan * head) * kFloat;
  return rows * widest * of_number + gathered + sizes.threads * of_thread;
}

/// Returns the bytes of a decoder's buffers, where at most `draw_rows` rows have logits at the same time.
int64_t DecoderBytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes, int64_t draw_rows) {
  const int64_t tokens = sizes.max_step_tokens;
  int64_t bytes = CpuActivations::Bytes(spec, shard, tokens) + ExpertActivations::Bytes(spec, shard, tokens) +
                  CpuLatents::Bytes(spec, shard, tokens) + CpuMixers::Bytes(spec, shard, sizes) +
                  KeptRows::MostBytes(spec, shard, sizes) + RopeBytes(spec, sizes.max_model_len) +
                  KernelBytes(spec, shard, sizes);
  if (spec.predicts) bytes += 2 * tokens * spec.hidden_size * kFloat;
  if (shard.is_last()) bytes += draw_rows * shard.vocab.size() * kFloat;
  return bytes;
}

/// Returns the bytes that sampling takes in addition to the logits: what ranks exchange, and each thread's rows of the
/// whole vocabulary; 0 before the last stage.
int64_t SamplerBytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes, int64_t draw_rows) {
  constexpr int64_t kCopiesOfARow = 8;  // the joined row, weights and their sums, tokens in order
  if (!shard.is_last()) return 0;
  const int64_t exchanged = sizes.cut().stage_size() > 1 ? 2 * draw_rows * shard.vocab.size() : 0;
  return (exchanged + sizes.threads * kCopiesOfARow * spec.vocab_size) * kFloat;
}

int64_t GuesserBytes(const EngineSizes& sizes) {
  if (sizes.draft.files == nullptr) return 0;
  const ModelSpec& spec = sizes.draft.files->spec();
  EngineSizes passes = sizes;
  passes.draft_rows = 0;
  passes.max_step_tokens = spec.predicts ? PredictionStack::kRowsAtOnce : DraftStack::kRowsAtOnce;
  if (!spec.predicts) passes.max_model_len = sizes.draft.max_model_len;
  return DecoderBytes(spec, GuesserShard(sizes), passes, MostGuessedSequences(sizes));
}

}  // namespace

WorkingMemory WorkingMemoryOf(const ModelFiles& files, const RankShard& shard, const EngineSizes& sizes) {
  const ModelSpec& spec = files.spec();
  const int most_drawn = std::min(sizes.max_step_tokens, std::max(sizes.max_running, sizes.draft_rows));
  const int64_t draw_rows = std::clamp(most_drawn, kScoredAtOnce, Sampler::kDrawnAtOnce);
  WorkingMemory memory;
  memory.process_bytes = kProcessBytes + spec.vocab_size * kBytesPerToken;
  if (sizes.cut().num_ranks() > 1) memory.process_bytes += kSharedBytesOfARank;
  memory.step_bytes =
      DecoderBytes(spec, shard, sizes, draw_rows) + SamplerBytes(spec, shard, sizes, draw_rows) + GuesserBytes(sizes);
  memory.file_bytes = MappedPages::MostBytes(files);
  if (sizes.draft.files != nullptr) memory.file_bytes += MappedPages::MostBytes(*sizes.draft.files);
  return memory;
}

}  // namespace quire
