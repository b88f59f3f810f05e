#include "kernels/cuda/latent_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cuda/decode_reference.h"
#include "kernels/cuda/latent/latent_write.h"
#include "tests/kernels/numbers.h"

namespace quire::kernels {

namespace {

using reference::ReadNumber;
using reference::WriteNumber;

constexpr int32_t kPoison = 1 << 30;  // a block id that no pool holds
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kSpareRows = 2;  // rows after those of the last sequence; they belong to no sequence

int64_t BlocksOf(const LatentShape& s, int32_t context) { return (context + s.block_size - 1) / s.block_size; }

int64_t TotalBlocks(const LatentShape& s) {
  int64_t blocks = s.first_block + 2;  // two blocks stay free
  for (const LatentChunk& chunk : s.chunks) blocks += BlocksOf(s, chunk.context);
  return blocks;
}

int64_t LongestTable(const LatentShape& s) {
  int64_t blocks = 0;
  for (const LatentChunk& chunk : s.chunks) blocks = std::max(blocks, BlocksOf(s, chunk.context));
  return blocks + 1;
}

}  // namespace

LatentCase::LatentCase(LatentShape shape, uint64_t seed)
    : shape_(std::move(shape)),
      query_stride_(int64_t{shape_.heads} * shape_.head_size() + 8),
      out_stride_(int64_t{shape_.heads} * shape_.rank + 8),
      table_stride_(LongestTable(shape_)),
      num_blocks_(TotalBlocks(shape_)),
      queries_((NumRows() + kSpareRows) * query_stride_ * ByteSize(shape_.dtype)),
      out_((NumRows() + kSpareRows) * out_stride_ * ByteSize(shape_.dtype)),
      pool_(num_blocks_ * BlockElements() * ByteSize(shape_.CachedType())),
      tables_((NumSeqs() + 1) * table_stride_, kPoison),
      table_rows_(NumSeqs()),
      query_start_(NumSeqs() + 1),
      contexts_(NumSeqs()),
      head_start_(std::vector<int32_t>{0, shape_.heads}),
      work_(WorkSize().Words(), kPoison),
      tiles_(PrefillTileCapacity(NumRows(), NumSeqs(), shape_.heads, TileRows(), Split())),
      merges_(Split().MaxMerges()),
      workspace_(std::max(Split().WorkspaceFloats(TileRows(), shape_.rank), WorkSize().WorkspaceFloats(shape_.rank)),
                 std::numeric_limits<float>::quiet_NaN()) {
  Fill(seed);
  Plan();
}

int64_t LatentCase::NumRows() const {
  int64_t rows = 0;
  for (const LatentChunk& chunk : shape_.chunks) rows += chunk.queries;
  return rows;
}

DecodeWorkSize LatentCase::WorkSize() const {
  const int32_t tiles = (shape_.heads + kDecodeRows - 1) / kDecodeRows;
  return {std::max(shape_.num_ctas, 1), static_cast<int32_t>(NumSeqs()) * tiles};
}

PagedCache LatentCase::Cache() const {
  const float scale = shape_.fp8_cache ? 0.5f : 1.0f;
  return {pool_.data(),       nullptr,           BlockElements(),     BlockElements(), 1,
          shape_.head_size(), shape_.block_size, shape_.CachedType(), scale,           scale};
}

int64_t LatentCase::At(int64_t seq, int64_t position, int64_t d) const {
  const int64_t block = tables_[TableRow(seq) * table_stride_ + position / shape_.block_size];
  return reference::KeyIndex(Cache(), block, 0, position % shape_.block_size, d);
}

void LatentCase::Fill(uint64_t seed) {
  test::Random random(seed);
  const int64_t number = ByteSize(shape_.CachedType()), first = shape_.first_block * BlockElements();
  if (first > 0) pool_.Open(0, BlockElements() * number);  // every pool has a block 0
  pool_.Open(first * number, (num_blocks_ * BlockElements() - first) * number);
  for (int64_t i = first; i < num_blocks_ * BlockElements(); ++i)
    WriteNumber(pool_.data(), shape_.CachedType(), i, kNaN);
  for (int64_t i = 0; i < queries_.size() / ByteSize(shape_.dtype); ++i)
    WriteNumber(queries_.data(), shape_.dtype, i, kNaN);
  for (int64_t i = 0; i < out_.size() / ByteSize(shape_.dtype); ++i) WriteNumber(out_.data(), shape_.dtype, i, kNaN);
  std::vector<int32_t> blocks(static_cast<size_t>(num_blocks_ - shape_.first_block));
  std::iota(blocks.begin(), blocks.end(), static_cast<int32_t>(shape_.first_block));
  for (size_t i = blocks.size(); i > 1; --i)
    std::swap(blocks[i - 1], blocks[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  int64_t row = 0;
  for (int64_t s = 0; s < NumSeqs(); ++s) {
    const LatentChunk& chunk = shape_.chunks[static_cast<size_t>(s)];
    contexts_[s] = chunk.context;
    table_rows_[s] = static_cast<int32_t>(TableRow(s));
    for (int64_t end = row + chunk.queries; row < end; ++row) {
      for (int64_t i = 0; i < int64_t{shape_.heads} * shape_.head_size() && chunk.context > 0; ++i)
        WriteNumber(queries_.data(), shape_.dtype, row * query_stride_ + i, 2 * random.Signed());
    }
    query_start_[s + 1] = static_cast<int32_t>(row);
    if (chunk.queries == 0) continue;  // nothing of the sequence may be read
    for (int64_t b = 0; b < BlocksOf(shape_, chunk.context); ++b) {
      tables_[TableRow(s) * table_stride_ + b] = blocks.back();
      blocks.pop_back();
    }
    for (int64_t t = 0; t < chunk.context; ++t) {
      for (int64_t d = 0; d < shape_.head_size(); ++d)
        WriteNumber(pool_.data(), shape_.CachedType(), At(s, t, d), 2 * random.Signed());
    }
  }
}

void LatentCase::Plan() {
  const std::span<const int32_t> heads = head_start_.span();
  if (shape_.decodes) {
    PlanDecode(WorkSize(), contexts_.span(), heads, 0, work_.span());
    num_merges_ = work_[0];
    return;
  }
  const PrefillPlan plan = PlanPrefill({query_start_.span(), contexts_.span(), heads, TileRows(), 0, Split()},
                                       tiles_.span(), merges_.span());
  num_merges_ = plan.num_merges;
}

void LatentCase::Cut(int32_t queries, int32_t context) {
  query_start_[0] = context - queries;
  query_start_[1] = context;
  contexts_[0] = context;
  Plan();
}

void LatentCase::Run() const {
  if (shape_.decodes) {
    return LatentDecode(CudaStream{},
                        {.dtype = shape_.dtype,
                         .queries = queries_.data(),
                         .query_stride = query_stride_,
                         .out = out_.data(),
                         .out_stride = out_stride_,
                         .cache = Cache(),
                         .block_tables = tables_.data(),
                         .table_stride = table_stride_,
                         .table_rows = shape_.resident_table ? table_rows_.data() : nullptr,
                         .alibi_slopes = nullptr,
                         .scale = shape_.scale,
                         .soft_cap = 0,
                         .work = work_.data(),
                         .work_size = WorkSize(),
                         .stages = 2,
                         .combine = num_merges_ > 0,
                         .workspace = workspace_.data()},
                        shape_.rank);
  }
  LatentPrefill(CudaStream{},
                {.dtype = shape_.dtype,
                 .queries = queries_.data(),
                 .query_stride = query_stride_,
                 .out = out_.data(),
                 .out_stride = out_stride_,
                 .cache = Cache(),
                 .block_tables = tables_.data(),
                 .table_stride = table_stride_,
                 .table_rows = shape_.resident_table ? table_rows_.data() : nullptr,
                 .query_start = query_start_.data(),
                 .context_len = contexts_.data(),
                 .head_start = head_start_.data(),
                 .alibi_slopes = nullptr,
                 .tiles = tiles_.data(),
                 .num_tiles = static_cast<int32_t>(tiles_.size()),
                 .scale = shape_.scale,
                 .soft_cap = 0,
                 .window = 0,
                 .merges = merges_.data(),
                 .num_merges = static_cast<int32_t>(num_merges_),
                 .workspace = workspace_.data()},
                shape_.rank, TileRows());
}

std::vector<float> LatentCase::Output() const {
  std::vector<float> out;
  for (int64_t row = 0; row < NumRows(); ++row) {
    for (int64_t i = 0; i < int64_t{shape_.heads} * shape_.rank; ++i)
      out.push_back(static_cast<float>(ReadNumber(out_.data(), shape_.dtype, row * out_stride_ + i)));
  }
  return out;
}

std::vector<double> LatentCase::Cached(int64_t seq) const {
  const double stored = Cache().k_scale;
  std::vector<double> numbers;
  for (int64_t t = 0; t < contexts_[seq]; ++t) {
    for (int64_t d = 0; d < shape_.head_size(); ++d)
      numbers.push_back(stored * ReadNumber(pool_.data(), shape_.CachedType(), At(seq, t, d)));
  }
  return numbers;
}

void LatentCase::Expect(const std::vector<double>& cached, int64_t seq, int64_t row, int64_t head,
                        std::vector<double>& out, std::vector<double>& spreads) const {
  const int64_t size = shape_.head_size(), rank = shape_.rank, context = contexts_[seq];
  const int64_t seen = context - query_start_[seq + 1] + row + 1;
  out.assign(static_cast<size_t>(rank), context > 0 ? 0 : shape_.decodes ? 0 : kNaN);
  spreads.assign(static_cast<size_t>(rank), 0);
  if (context == 0) return;
  std::vector<double> query, scores;
  for (int64_t d = 0; d < size; ++d)
    query.push_back(ReadNumber(queries_.data(), shape_.dtype, row * query_stride_ + head * size + d));
  for (int64_t t = 0; t < seen; ++t) {
    const double* const key = cached.data() + t * size;
    double score = 0;
    for (int64_t d = 0; d < size; ++d) score += query[static_cast<size_t>(d)] * key[d];
    scores.push_back(score * shape_.scale);
  }
  const double max = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - max);
  for (int64_t t = 0; t < seen; ++t) {
    const double weight = scores[static_cast<size_t>(t)] / sum;
    const double* const latent = cached.data() + t * size + size - rank;
    for (int64_t d = 0; d < rank; ++d) {
      const double part = weight * latent[d];
      out[static_cast<size_t>(d)] += part;
      spreads[static_cast<size_t>(d)] += part * part;
    }
  }
  for (double& spread : spreads) spread = std::sqrt(spread);
}

std::string LatentCase::Wrong() const {
  const double unit = shape_.dtype == NumberType::kF32 ? 0.0 : shape_.dtype == NumberType::kF16 ? 0x1p-11 : 0x1p-8;
  const double sums = 1e-5 * std::max(1.0f, shape_.scale);  // a score is an fp32 sum of hundreds of products
  std::vector<double> expected, spreads;
  for (int64_t s = 0; s < NumSeqs(); ++s) {
    if (query_start_[s] == query_start_[s + 1]) continue;
    const std::vector<double> cached = Cached(s);
    for (int64_t row = query_start_[s]; row < query_start_[s + 1]; ++row) {
      for (int64_t head = 0; head < shape_.heads; ++head) {
        Expect(cached, s, row, head, expected, spreads);
        for (int64_t d = 0; d < shape_.rank; ++d) {
          const double got = ReadNumber(out_.data(), shape_.dtype, row * out_stride_ + head * shape_.rank + d);
          const double want = expected[static_cast<size_t>(d)];
          const bool same = std::isnan(want)
                                ? std::isnan(got)
                                : std::abs(got - want) <=
                                      reference::AttentionBound(unit, sums, want, spreads[static_cast<size_t>(d)]);
          if (!same) {
            return Name() + ": row " + std::to_string(row) + ", head " + std::to_string(head) + ", number " +
                   std::to_string(d) + " is " + std::to_string(got) + " instead of " + std::to_string(want);
          }
        }
      }
    }
  }
  for (int64_t i = 0; i < out_.size() / ByteSize(shape_.dtype); ++i) {
    const bool written = !std::isnan(ReadNumber(out_.data(), shape_.dtype, i));
    if (written && (i / out_stride_ >= NumRows() || i % out_stride_ >= int64_t{shape_.heads} * shape_.rank))
      return Name() + ": writes outside the results, at " + std::to_string(i);
  }
  return "";
}

std::string LatentCase::Name() const {
  std::string chunks;
  for (const LatentChunk& c : shape_.chunks)
    chunks.append(" ").append(std::to_string(c.queries)).append("/").append(std::to_string(c.context));
  return std::string(LayoutOf(shape_.dtype).name) + (shape_.fp8_cache ? ", fp8 cache" : "") +
         (shape_.decodes ? ", decodes" : ", tiles of " + std::to_string(TileRows())) + ", " +
         std::to_string(shape_.rotated_dim) + " + " + std::to_string(shape_.rank) + " numbers, " +
         std::to_string(shape_.heads) + " heads, block_size " + std::to_string(shape_.block_size) +
         ", queries/context" + chunks + ", " + std::to_string(num_merges_) + " splits";
}

namespace {

/// The tokens of WrongWrites, and what LatentWrite makes of them in fp64.
class WriteTokens {
 public:
  static constexpr int32_t kHeads = 3, kBlock = 8, kKeyDim = 24;
  static constexpr int64_t kTokens = 4, kPositions = 50;
  static constexpr float kEpsilon = 0.3f;
  static constexpr double kUntouched = 9;

  WriteTokens(const LatentWriteShape& shape, uint64_t seed) : WriteTokens(shape, test::Random(seed)) {}

  int32_t size() const { return s_.rotated_dim + s_.rank; }
  int32_t query_dim() const { return kKeyDim + s_.rotated_dim; }
  bool is_padding(int64_t token) const { return slots_[token] < 0; }

  void Run() const {
    LatentWrite(CudaStream{}, {.dtype = s_.dtype,
                               .rows = rows_.data(),
                               .norm = norm_.data(),
                               .epsilon = kEpsilon,
                               .queries = queries_.data(),
                               .out = out_.data(),
                               .num_heads = kHeads,
                               .query_dim = query_dim(),
                               .rotated_dim = s_.rotated_dim,
                               .rank = s_.rank,
                               .interleaved = s_.interleaved,
                               .cos_sin = cos_sin_.data(),
                               .positions = positions_.data(),
                               .slots = slots_.data(),
                               .num_tokens = kTokens,
                               .cache = Cache()});
  }

  /// Returns the index in the pool of number d of the token's row.
  int64_t PoolAt(int64_t token, int32_t d) const {
    return reference::KeyIndex(Cache(), slots_[token] / kBlock, 0, slots_[token] % kBlock, d);
  }
  double Cached(int64_t at) const { return pool_[at] * Cache().k_scale; }
  int64_t pool_count() const { return pool_.count; }
  double ExpectedCached(int64_t token, int32_t d) const {
    if (d < s_.rotated_dim) return Rotated(rows_, token * size() + s_.rank, token, d);
    double squares = 0;
    for (int64_t i = 0; i < s_.rank; ++i) squares += rows_[token * size() + i] * rows_[token * size() + i];
    const int32_t i = d - s_.rotated_dim;
    return rows_[token * size() + i] / std::sqrt(squares / s_.rank + kEpsilon) * norm_[i];
  }
  double Query(int64_t token, int32_t head, int32_t d) const { return out_[(token * kHeads + head) * size() + d]; }
  double ExpectedQuery(int64_t token, int32_t head, int32_t d) const {
    if (d >= s_.rotated_dim || is_padding(token)) return kUntouched;
    return Rotated(queries_, (token * kHeads + head) * query_dim() + kKeyDim, token, d);
  }
  /// True if `got` differs from `want` by no more than the rounding to this type allows, relative to max(1, |want|).
  static bool Near(double got, double want, NumberType type) {
    const double unit = type == NumberType::kF32    ? 2e-6
                        : type == NumberType::kF16  ? 0x1p-10
                        : type == NumberType::kBF16 ? 0x1p-7
                                                    : 0x1p-4;
    return std::abs(got - want) <= unit * std::max(1.0, std::abs(want));
  }
  NumberType cached() const { return s_.fp8_cache ? NumberType::kFp8E4M3 : s_.dtype; }

 private:
  WriteTokens(const LatentWriteShape& shape, test::Random random)
      : s_(shape),
        rows_(Numbers::Of(s_.dtype, kTokens * size(), random)),
        norm_(Numbers::Of(s_.dtype, s_.rank, random)),
        queries_(Numbers::Of(s_.dtype, kTokens * kHeads * query_dim(), random)),
        out_(s_.dtype, kTokens * kHeads * size()),
        pool_(cached(), 4 * kBlock * size()),
        cos_sin_(random.Floats(kPositions * s_.rotated_dim)),
        positions_(std::vector<int32_t>{7, 0, 49, 3}),
        slots_(std::vector<int64_t>{30, 9, -1, 24}) {
    for (int64_t i = 0; i < pool_.count; ++i) pool_.Set(i, kUntouched);
    for (int64_t i = 0; i < out_.count; ++i) out_.Set(i, kUntouched);
  }

  PagedCache Cache() const {
    const float scale = s_.fp8_cache ? 0.5f : 1.0f;
    return {pool_.data(), nullptr, kBlock * size(), kBlock * size(), 1, size(), kBlock, cached(), scale, scale};
  }
  double Rotated(const Numbers& from, int64_t first, int64_t token, int32_t d) const {
    const int32_t half = s_.rotated_dim / 2, i = d % half;
    const double a = from[first + (s_.interleaved ? 2 * i : i)];
    const double b = from[first + (s_.interleaved ? 2 * i + 1 : i + half)];
    const int64_t row = positions_[token] * int64_t{s_.rotated_dim};
    const double cos = cos_sin_[row + i], sin = cos_sin_[row + half + i];
    return d < half ? a * cos - b * sin : b * cos + a * sin;
  }

  LatentWriteShape s_;
  Numbers rows_, norm_, queries_, out_, pool_;
  simt::DeviceBuffer<float> cos_sin_;
  simt::DeviceBuffer<int32_t> positions_;
  simt::DeviceBuffer<int64_t> slots_;
};

}  // namespace

std::string WrongWrites(const LatentWriteShape& shape, uint64_t seed) {
  const WriteTokens tokens(shape, seed);
  tokens.Run();
  const auto where = [&](const char* what, int64_t token, int32_t d, double got, double want) {
    return std::string(LayoutOf(shape.dtype).name) + (shape.fp8_cache ? ", fp8 cache" : "") + ": number " +
           std::to_string(d) + " of " + what + " of token " + std::to_string(token) + " is " + std::to_string(got) +
           " instead of " + std::to_string(want);
  };
  std::vector<bool> written(static_cast<size_t>(tokens.pool_count()));
  for (int64_t t = 0; t < WriteTokens::kTokens; ++t) {
    for (int32_t d = 0; d < tokens.size(); ++d) {
      for (int32_t head = 0; head < WriteTokens::kHeads; ++head) {
        const double got = tokens.Query(t, head, d), want = tokens.ExpectedQuery(t, head, d);
        if (!WriteTokens::Near(got, want, shape.dtype)) return where("a query", t, d, got, want);
      }
      if (tokens.is_padding(t)) continue;
      const int64_t at = tokens.PoolAt(t, d);
      written[static_cast<size_t>(at)] = true;
      const double got = tokens.Cached(at), want = tokens.ExpectedCached(t, d);
      if (!WriteTokens::Near(got, want, tokens.cached())) return where("the row", t, d, got, want);
    }
  }
  for (int64_t i = 0; i < tokens.pool_count(); ++i) {
    const double kept = WriteTokens::kUntouched * (shape.fp8_cache ? 0.5 : 1);
    if (!written[static_cast<size_t>(i)] && tokens.Cached(i) != kept)
      return "number " + std::to_string(i) + " of the pool belongs to no token and has changed";
  }
  return "";
}

}  // namespace quire::kernels
