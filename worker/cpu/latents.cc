#include "worker/cpu/latents.h"

#include <algorithm>

#include "kernels/cpu/thread_pool.h"
#include "kernels/expert_matmul.h"
#include "kernels/head_norm.h"
#include "worker/cpu/buffer_list.h"
#include "worker/cpu/cpu_activations.h"

namespace quire {

namespace {

/// The numbers of elements of the buffers.
struct Counts {
  int64_t in = 0, queries = 0, products = 0, start = 0, part_of_row = 0, values = 0;
};

Counts CountsOf(const LatentAttention& latent, int64_t heads, int64_t max_tokens) {
  if (latent.rank == 0) return {};
  const int64_t together = std::min(max_tokens, kRowsTogether);
  return {.in = max_tokens * (latent.query_rank + latent.rotated_dim + latent.rank),
          .queries = max_tokens * heads * latent.query_dim(),
          .products = together * heads * std::max(latent.rank, latent.value_dim),
          .start = heads + 1,
          .part_of_row = together * heads,
          .values = max_tokens * heads * latent.value_dim};
}

}  // namespace

CpuLatents::CpuLatents(const ModelSpec& spec, const RankShard& shard, const kernels::CpuStream& stream,
                       kernels::Activations activations, int64_t max_tokens)
    : latent_(spec.latent),
      heads_(shard.heads.size()),
      head_dim_(latent_.rotated_dim + latent_.rank),
      interleaved_(spec.interleaved_rope_rows),
      stream_(stream),
      activations_(activations) {
  const Counts counts = CountsOf(latent_, heads_, max_tokens);
  ResizeBuffer(in_, counts.in);
  ResizeBuffer(queries_, counts.queries);
  ResizeBuffer(products_, counts.products);
  ResizeBuffer(start_, counts.start);
  ResizeBuffer(part_of_row_, counts.part_of_row);
  ResizeBuffer(values_, counts.values);
}

int64_t CpuLatents::Bytes(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens) {
  const Counts counts = CountsOf(spec.latent, shard.heads.size(), max_tokens);
  const int64_t numbers = counts.in + counts.queries + counts.products + counts.values;
  return numbers * static_cast<int64_t>(sizeof(float)) +
         (counts.start + counts.part_of_row) * static_cast<int64_t>(sizeof(int32_t));
}

void CpuLatents::PutRotated(const float* from, float* to) const {
  const int64_t dims = latent_.rotated_dim, half = dims / 2;
  if (!interleaved_) {
    std::copy_n(from, dims, to);
    return;
  }
  for (int64_t i = 0; i < half; ++i) {
    to[i] = from[2 * i];
    to[half + i] = from[2 * i + 1];
  }
}

void CpuLatents::Project(const LatentWeights& w, const float* x, int64_t tokens, float* qkv) {
  const int64_t hidden = w.in[0].cols, query_dim = latent_.query_dim(), rotated = latent_.rotated_dim;
  const int64_t before = latent_.query_rank, stride = before + head_dim_;
  const auto multiply = [&](const float* from, int64_t from_stride, const Matrices& by, float* to, int64_t to_stride) {
    kernels::Matmul(stream_, {from, from_stride, by.data(), std::ssize(by), to, to_stride, tokens, activations_});
  };
  const auto norm = [&](float* from, const std::vector<float>& weight) {
    kernels::HeadNorm(stream_, {from, weight.data(), tokens, 1, std::ssize(weight), stride,
                                static_cast<float>(latent_.norm_epsilon)});
  };
  multiply(x, hidden, w.in, in_.data(), stride);
  if (before > 0) {
    norm(in_.data(), w.query_norm);
    multiply(in_.data(), stride, w.query, queries_.data(), heads_ * query_dim);
  } else {
    multiply(x, hidden, w.query, queries_.data(), heads_ * query_dim);
  }
  norm(in_.data() + before, w.norm);
  const int64_t width = (heads_ + 1) * head_dim_, rank = latent_.rank;
  for (int64_t first = 0; first < tokens; first += kRowsTogether) {
    const int64_t count = std::min(kRowsTogether, tokens - first);
    MultiplyByHead(w.keys, queries_.data() + first * heads_ * query_dim, query_dim, count);
    stream_.pool().ForRange(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float* to = qkv + (first + i) * width;
        const float* query = queries_.data() + (first + i) * heads_ * query_dim + latent_.key_dim;
        for (int64_t h = 0; h < heads_; ++h, to += head_dim_, query += query_dim) {
          PutRotated(query, to);
          std::copy_n(products_.data() + (h * count + i) * rank, rank, to + rotated);
        }
        const float* cached = in_.data() + (first + i) * stride + before;
        PutRotated(cached + rank, to);
        std::copy_n(cached, rank, to + rotated);
      }
    });
  }
}

void CpuLatents::MakeValues(const LatentWeights& w, const float* attended, int64_t tokens) {
  const int64_t width = heads_ * head_dim_, dim = latent_.value_dim;
  for (int64_t first = 0; first < tokens; first += kRowsTogether) {
    const int64_t count = std::min(kRowsTogether, tokens - first);
    MultiplyByHead(w.values, attended + first * width + latent_.rotated_dim, head_dim_, count);
    stream_.pool().ForRange(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float* to = values_.data() + (first + i) * heads_ * dim;
        for (int64_t h = 0; h < heads_; ++h) std::copy_n(products_.data() + (h * count + i) * dim, dim, to + h * dim);
      }
    });
  }
}

void CpuLatents::MultiplyByHead(const Matrices& weights, const float* x, int64_t apart, int64_t tokens) {
  // ExpertMatmul multiplies each head by a matrix of its own: heads play the part of experts that every token has
  // chosen.
  for (int64_t h = 0; h < heads_; ++h) {
    start_[static_cast<size_t>(h)] = static_cast<int32_t>(h * tokens);
    for (int64_t i = 0; i < tokens; ++i)
      part_of_row_[static_cast<size_t>(h * tokens + i)] = static_cast<int32_t>(i * heads_ + h);
  }
  start_.back() = static_cast<int32_t>(heads_ * tokens);
  kernels::ExpertMatmul(stream_, {.x = x,
                                  .x_stride = apart,
                                  .pair_of_row = part_of_row_.data(),
                                  .pairs_per_x_row = 1,
                                  .start = start_.data(),
                                  .weights = weights.data(),
                                  .num_experts = heads_,
                                  .num_weights = 1,
                                  .bias = nullptr,
                                  .y = products_.data(),
                                  .activations = activations_});
}

}  // namespace quire
