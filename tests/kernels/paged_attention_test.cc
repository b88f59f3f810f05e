#include "kernels/paged_attention.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "kernels/block_copy.h"
#include "kernels/cpu/attention_items.h"
#include "tests/kernels/reference.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"

namespace quire::kernels {
namespace {

using test::Random;

/// The type of a cache's numbers, how they are multiplied, and the tolerance of the comparison with the reference. The
/// reference rounds queries as the kernel does, but does not round the softmax weights.
struct Form {
  const char* name;
  NumberType type;
  Activations activations;
  double slack;  // added to each test's own tolerance
};

constexpr Form kForms[] = {{"F32", NumberType::kF32, Activations::kInt16, 0},
                           {"F16", NumberType::kF16, Activations::kInt16, 0},
                           {"Int8", NumberType::kInt8, Activations::kInt16, 0},
                           {"Bytes", NumberType::kInt8, Activations::kInt8, 1e-2}};
constexpr Form kFloats = kForms[0], kHalves = kForms[1], kBytesOfCache = kForms[2];

void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

/// A paged cache with shuffled blocks. Every float that no sequence owns is NaN, so that reading a wrong address
/// changes the result.
struct Case {
  Form form;
  int64_t block_size, head_dim;
  std::vector<int32_t> head_start;
  std::vector<int32_t> query_start{0}, context_len;
  std::vector<float> pool, queries, out;
  std::vector<int32_t> tables;
  int64_t num_blocks = 1, table_stride = 0, window = 0;
  std::vector<float> sinks;   // empty, or one for each query head
  std::vector<float> slopes;  // ALiBi slopes: empty, or one for each query head
  std::vector<float> bias;    // [query heads, 2 * reach + 1] numbers added by distance; or empty
  int64_t reach = 0;
  float soft_cap = 0;
  bool both_ways = false;
  std::vector<int32_t> context_begin;  // empty, or the first position of each sequence that is seen

  int64_t kv_heads() const { return static_cast<int64_t>(head_start.size()) - 1; }
  int64_t heads() const { return head_start.back(); }

  PagedAttentionParams Params() {
    auto* const bytes = reinterpret_cast<std::byte*>(pool.data());
    const int64_t half = kv_heads() * KvHeadBytes(form.type, head_dim, block_size);
    KvCacheView cache{bytes, bytes + half, 2 * half, kv_heads(), head_dim, block_size, form.type};
    return {queries.data(),
            heads() * head_dim,
            out.data(),
            heads() * head_dim,
            cache,
            tables.data(),
            table_stride,
            query_start.data(),
            context_len.data(),
            head_start.data(),
            static_cast<int64_t>(context_len.size()),
            heads(),
            0.3f,
            window,
            soft_cap,
            slopes.empty() ? nullptr : slopes.data(),
            form.activations,
            sinks.empty() ? nullptr : sinks.data(),
            both_ways,
            bias.empty() ? nullptr : bias.data(),
            reach,
            /*first_position=*/nullptr,
            context_begin.empty() ? nullptr : context_begin.data()};
  }

  /// Sets biases that are added to scores by the distance of query and key, from -new_reach to new_reach tokens,
  /// different for each head.
  void Lean(int64_t new_reach, uint64_t seed) {
    reach = new_reach;
    bias = Random(seed).Floats(heads() * (2 * reach + 1));
  }

  /// Sets ALiBi slopes, a different slope for each head.
  void Slope() {
    for (int64_t h = 0; h < heads(); ++h) slopes.push_back(std::exp2(-1.5f * static_cast<float>(h)));
  }

  /// Sets the window, and clears the table entries of blocks that no later query sees, as the server does.
  void Slide(int64_t new_window) {
    window = new_window;
    for (size_t s = 0; s < context_len.size(); ++s) {
      const int64_t first_seen = context_len[s] - (query_start[s + 1] - query_start[s]) - window + 1;
      for (int64_t b = 0; (b + 1) * block_size <= first_seen; ++b) {
        tables[s * static_cast<size_t>(table_stride) + static_cast<size_t>(b)] = 0;
      }
    }
  }
};

struct Lengths {
  int64_t context, queries;
};

Case MakeCase(const Form& form, int64_t block_size, int64_t head_dim, std::vector<int32_t> head_start,
              const std::vector<Lengths>& lengths, uint64_t seed) {
  Random random(seed);
  Case c{form, block_size, head_dim, std::move(head_start)};
  for (const auto& [context, queries] : lengths) {
    c.query_start.push_back(c.query_start.back() + static_cast<int32_t>(queries));
    c.context_len.push_back(static_cast<int32_t>(context));
    c.num_blocks += (context + block_size - 1) / block_size;
    c.table_stride = std::max(c.table_stride, (context + block_size - 1) / block_size);
  }
  std::vector<int32_t> free_ids;
  for (int64_t b = 1; b < c.num_blocks; ++b) free_ids.push_back(static_cast<int32_t>(b));
  for (size_t i = free_ids.size(); i > 1; --i)
    std::swap(free_ids[i - 1], free_ids[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);

  const int64_t row = c.kv_heads() * head_dim;
  c.pool.assign(static_cast<size_t>(c.num_blocks * 2 * c.kv_heads() * KvHeadBytes(form.type, head_dim, block_size) / 4),
                std::bit_cast<float>(0xffffffffu));  // NaN as one float and as two halves
  c.tables.assign(lengths.size() * static_cast<size_t>(c.table_stride), 0);
  c.queries = random.Floats(c.query_start.back() * c.heads() * head_dim);
  c.out.assign(c.queries.size(), -7.0f);
  CpuStream stream(1);
  for (size_t s = 0; s < lengths.size(); ++s) {
    std::vector<int64_t> slots;
    for (int64_t t = 0; t < lengths[s].context; ++t) {
      int32_t& block = c.tables[s * static_cast<size_t>(c.table_stride) + static_cast<size_t>(t / block_size)];
      if (t % block_size == 0) block = free_ids.back(), free_ids.pop_back();
      slots.push_back(block * block_size + t % block_size);
    }
    const auto keys = random.Floats(lengths[s].context * row), values = random.Floats(lengths[s].context * row);
    KvWrite(stream, {keys.data(), values.data(), row, slots.data(), lengths[s].context, c.Params().cache});
  }
  return c;
}

/// Returns what the tolerance grows by for kernels with AMX tiles and an fp16 cache; 0 for other kernels and caches.
/// These kernels round each query and softmax weight to the sum of two bf16 numbers, which has about 16 significant
/// bits.
double SlackOfTiles(const Form& form) {
  const std::string_view isa = CpuIsaName();
  return form.type == NumberType::kF16 && (isa == "avx512amx" || isa == "plaintiles") ? 3e-5 : 0;
}

void ExpectNearReference(Case& c, double tolerance, const std::string& what) {
  test::ExpectNear(c.out, reference::PagedAttention(c.Params()), tolerance + c.form.slack + SlackOfTiles(c.form), what);
}

class PagedAttentionTest : public testing::TestWithParam<Form> {};

const std::vector<std::vector<int32_t>> kGroupings = {
    {0, 1, 2, 3, 4},  // multi-head
    {0, 3, 6, 9},     // grouped, group of 3
    {0, 3, 5},        // uneven shard of the grouping above
    {0, 8},           // multi-query
    {0, 5, 9, 14},    // uneven groups of four and more, which AMX's tiles compute
};

TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_OverShapesAndLengths) {
  uint64_t seed = 0;
  for (const auto& grouping : kGroupings) {
    for (const int64_t head_dim : {64, 96, 80, 12}) {
      for (const int64_t block_size : {1, 8, 16, 17, 24, 64, 256}) {
        Case c = MakeCase(GetParam(), block_size, head_dim, grouping,
                          {{1, 1}, {33, 33}, {50, 1}, {70, 21}, {16, 16}, {17, 1}, {5, 0}, {129, 3}, {300, 2}}, ++seed);
        PagedAttention(CpuStream(2), c.Params());
        ExpectNearReference(c, 2e-6, "head_dim " + std::to_string(head_dim) + ", block " + std::to_string(block_size));
      }
    }
  }
}

/// A copy of numbers that ends where no memory is.
class GuardedCopy {
 public:
  explicit GuardedCopy(const std::vector<float>& numbers) {
    const size_t page = static_cast<size_t>(::getpagesize()), bytes = numbers.size() * sizeof(float);
    const size_t pages = (bytes + page - 1) / page * page;
    size_ = pages + page;
    memory_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = static_cast<std::byte*>(memory_) + (pages - bytes);
    std::memcpy(begin_, numbers.data(), bytes);
    ::mprotect(static_cast<std::byte*>(memory_) + pages, page, PROT_NONE);
  }
  ~GuardedCopy() { ::munmap(memory_, size_); }
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;
  std::byte* begin() const { return begin_; }

 private:
  void* memory_;
  std::byte* begin_;
  size_t size_;
};

TEST_P(PagedAttentionTest, PagedAttention_ReadsNothingBehindTheCache_ForHeadsOfAnySize) {
  for (const int64_t head_dim : {3, 8, 12, 20, 72}) {
    for (const int64_t block_size : {1, 8, 16, 17, 64}) {
      // Every slot of every block is read.
      Case c = MakeCase(GetParam(), block_size, head_dim, {0, 3, 5}, {{2 * block_size, 1}, {3 * block_size, 1}}, 5);
      const GuardedCopy pool(c.pool);
      PagedAttentionParams p = c.Params();
      p.cache.values = pool.begin() + (p.cache.values - p.cache.keys);
      p.cache.keys = pool.begin();
      PagedAttention(CpuStream(1), p);
      ExpectNearReference(c, 2e-6, "head_dim " + std::to_string(head_dim) + ", block " + std::to_string(block_size));
    }
  }
}

/// Expects that a prompt computed in pieces gives the same bits as the whole prompt. Each piece has the block table
/// that the server has at that time.
void ExpectChunksEqualWhole(const Form& form, int64_t block_size, int64_t head_dim, int64_t window,
                            const std::vector<int32_t>& grouping, bool adjusted = false) {
  Case whole = MakeCase(form, block_size, head_dim, grouping, {{77, 77}, {40, 1}}, 99);
  if (adjusted) {
    whole.Slope();
    whole.soft_cap = 0.9f;
    whole.sinks = Random(98).Floats(whole.heads());
  }
  whole.window = window;
  PagedAttention(CpuStream(3), whole.Params());
  for (const int64_t chunk : {1, 7, 16, 40}) {
    const int64_t width = whole.heads() * whole.head_dim;
    std::vector<float> pieces(static_cast<size_t>(77 * width));
    for (int64_t begin = 0; begin < 77; begin += chunk) {
      const int64_t count = std::min(chunk, 77 - begin);
      Case piece = whole;
      piece.query_start = {0, static_cast<int32_t>(count)};
      piece.context_len = {static_cast<int32_t>(begin + count)};
      if (window > 0) piece.Slide(window);
      PagedAttentionParams p = piece.Params();
      p.queries += begin * width;
      p.out = pieces.data() + begin * width;
      PagedAttention(CpuStream(1), p);
    }
    EXPECT_TRUE(std::equal(pieces.begin(), pieces.end(), whole.out.begin()))
        << "chunk " << chunk << ", window " << window << ", block " << block_size << ", head_dim " << head_dim;
  }
}

// A chunk of one query has few rows, and the whole prompt has many. The kernels for both must agree.
TEST_P(PagedAttentionTest, PagedAttention_GivesTheSameBits_WhenPromptsAreChunkedOrBatched) {
  for (const std::vector<int32_t>& grouping : {std::vector{0, 3, 6, 9}, std::vector{0, 5, 9}}) {
    const auto expect = [&](int64_t block_size, int64_t head_dim, int64_t window, bool adjusted = false) {
      ExpectChunksEqualWhole(GetParam(), block_size, head_dim, window, grouping, adjusted);
    };
    for (const int64_t window : {0, 1, 5, 16, 24, 33, 70}) expect(16, 64, window);
    for (const int64_t block_size : {1, 17, 64}) expect(block_size, 12, 24);
    for (const int64_t head_dim : {80, 70, 3}) expect(8, head_dim, 0);
    for (const int64_t window : {0, 24}) expect(32, 128, window);
    expect(256, 64, 0);
    for (const int64_t window : {0, 24}) expect(16, 64, window, true);
  }
}

// The context has many spans, and each kernel works on several of them at a time.
TEST_P(PagedAttentionTest, PagedAttention_GivesTheSameBits_WhenATokenFollowsALongPromptAlone) {
  for (const std::vector<int32_t>& grouping : {std::vector{0, 3, 6}, std::vector{0, 5, 9}}) {
    for (const int64_t window : {0, 150}) {
      Case whole = MakeCase(GetParam(), 16, 64, grouping, {{600, 600}}, 97);
      whole.window = window;
      PagedAttention(CpuStream(2), whole.Params());
      const int64_t width = whole.heads() * whole.head_dim;
      for (const int64_t position : {63, 64, 130, 383, 400, 599}) {
        Case alone = whole;
        alone.query_start = {0, 1};
        alone.context_len = {static_cast<int32_t>(position + 1)};
        PagedAttentionParams p = alone.Params();
        p.queries += position * width;
        PagedAttention(CpuStream(1), p);
        EXPECT_TRUE(std::equal(alone.out.begin(), alone.out.begin() + width, whole.out.begin() + position * width))
            << "position " << position << ", window " << window;
      }
    }
  }
}

// Prompts of a few tokens have few rows, and the other prompts have many.
TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_WhenQueriesSeeBothWays) {
  uint64_t seed = 700;
  for (const auto& grouping : kGroupings) {
    for (const int64_t block_size : {1, 8, 16, 17, 64}) {
      for (const int64_t window : {0, 1, 5, 40}) {
        Case c = MakeCase(GetParam(), block_size, window == 5 ? 12 : 64, grouping,
                          {{1, 1}, {3, 3}, {33, 33}, {70, 21}, {17, 17}, {129, 129}, {300, 2}}, ++seed);
        c.window = window;
        PagedAttention(CpuStream(1), c.Params());
        const std::vector<float> causal = c.out;
        c.both_ways = true;
        PagedAttention(CpuStream(2), c.Params());
        EXPECT_EQ(c.out == causal, window == 1) << "a window of one token has no later ones";
        ExpectNearReference(c, 4e-6, "window " + std::to_string(window) + ", block " + std::to_string(block_size));
      }
    }
  }
}

// An encoder's pass computes a text in slices, so attention gets pieces of the text, and queries see earlier and later
// tokens. The pieces must have the bits of the whole text.
TEST_P(PagedAttentionTest, PagedAttention_GivesTheSameBits_WhenATextIsCutAndQueriesSeeBothWays) {
  for (const int64_t window : {0, 1, 5, 24, 33}) {
    for (const int adjusted : {0, 1, 2}) {
      Case whole = MakeCase(GetParam(), 16, 64, {0, 3, 6, 9}, {{77, 77}, {40, 1}}, 99);
      whole.both_ways = true;
      whole.window = window;
      if (adjusted == 1) whole.Slope();
      if (adjusted == 2) whole.Lean(3, 98);
      PagedAttention(CpuStream(3), whole.Params());
      ExpectNearReference(whole, 4e-6, "window " + std::to_string(window));
      const int64_t width = whole.heads() * whole.head_dim;
      for (const int64_t count_at_once : {1, 7, 16, 40}) {
        std::vector<float> pieces(static_cast<size_t>(77 * width));
        for (int64_t begin = 0; begin < 77; begin += count_at_once) {
          const int64_t count = std::min(count_at_once, 77 - begin);
          Case piece = whole;
          piece.query_start = {0, static_cast<int32_t>(count)};
          piece.context_len = {77};
          const auto first = static_cast<int32_t>(begin);
          PagedAttentionParams p = piece.Params();
          p.first_position = &first;
          p.queries += begin * width;
          p.out = pieces.data() + begin * width;
          PagedAttention(CpuStream(1), p);
        }
        EXPECT_TRUE(std::equal(pieces.begin(), pieces.end(), whole.out.begin()))
            << count_at_once << " at once, window " << window << ", kind " << adjusted;
      }
    }
  }
}

TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_WithAlibiSlopes) {
  uint64_t seed = 500;
  for (const auto& grouping : kGroupings) {
    for (const int64_t block_size : {8, 16, 17, 64}) {
      for (const int64_t window : {0, 40}) {
        Case c = MakeCase(GetParam(), block_size, window == 0 ? 64 : 12, grouping,
                          {{1, 1}, {33, 33}, {70, 21}, {17, 1}, {129, 3}, {300, 2}}, ++seed);
        if (window > 0) c.Slide(window);
        PagedAttention(CpuStream(1), c.Params());
        const std::vector<float> level = c.out;
        c.Slope();
        PagedAttention(CpuStream(2), c.Params());
        EXPECT_NE(c.out, level);
        ExpectNearReference(c, 4e-6, "window " + std::to_string(window) + ", block " + std::to_string(block_size));
      }
    }
  }
}

TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_WithAlibiSlopesBothWays) {
  uint64_t seed = 550;
  for (const auto& grouping : kGroupings) {
    for (const int64_t block_size : {16, 17}) {
      Case c = MakeCase(GetParam(), block_size, 64, grouping, {{1, 1}, {3, 3}, {33, 33}, {70, 21}, {300, 2}}, ++seed);
      c.both_ways = true;
      c.Slope();
      PagedAttention(CpuStream(2), c.Params());
      ExpectNearReference(c, 4e-6, "block " + std::to_string(block_size));
    }
  }
}

TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_WithRelativePositionBiases) {
  uint64_t seed = 580;
  for (const auto& grouping : kGroupings) {
    for (const bool both_ways : {false, true}) {
      for (const int64_t reach : {3, 128}) {
        Case c = MakeCase(GetParam(), 16, 64, grouping, {{1, 1}, {3, 3}, {33, 33}, {70, 21}, {300, 2}}, ++seed);
        c.both_ways = both_ways;
        PagedAttention(CpuStream(1), c.Params());
        const std::vector<float> level = c.out;
        c.Lean(reach, seed);
        PagedAttention(CpuStream(2), c.Params());
        EXPECT_NE(c.out, level);
        ExpectNearReference(c, 4e-6, "reach " + std::to_string(reach));
      }
    }
  }
}

TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_WithASoftCapBeforeTheSlopes) {
  uint64_t seed = 600;
  for (const auto& grouping : kGroupings) {
    for (const bool slopes : {false, true}) {
      Case c = MakeCase(GetParam(), 16, 64, grouping, {{1, 1}, {33, 33}, {70, 21}, {300, 2}}, ++seed);
      if (slopes) c.Slope();
      PagedAttention(CpuStream(1), c.Params());
      const std::vector<float> plain = c.out;
      c.soft_cap = 0.4f;
      PagedAttention(CpuStream(2), c.Params());
      EXPECT_NE(c.out, plain);
      ExpectNearReference(c, 4e-6, slopes ? "with slopes" : "alone");
    }
  }
}

// One sink lies far below all scores, some lie among them, and the last takes all the weight.
TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_WithAttentionSinks) {
  uint64_t seed = 700;
  for (const auto& grouping : kGroupings) {
    for (const int64_t window : {0, 20}) {
      Case c = MakeCase(GetParam(), 16, 64, grouping, {{1, 1}, {33, 33}, {70, 21}, {300, 2}}, ++seed);
      c.window = window;
      PagedAttention(CpuStream(1), c.Params());
      const std::vector<float> plain = c.out;
      for (int64_t h = 0; h < c.heads(); ++h) c.sinks.push_back(h == 0 ? -200.0f : static_cast<float>(h) - 2);
      c.sinks.back() = 200;
      PagedAttention(CpuStream(2), c.Params());
      EXPECT_NE(c.out, plain);
      ExpectNearReference(c, 4e-6, "window " + std::to_string(window));
    }
  }
}

TEST_P(PagedAttentionTest, PagedAttention_WritesTheFirstNumbersOfEachHead_WhenOutDimSaysHowMany) {
  uint64_t seed = 750;
  for (const auto& grouping : kGroupings) {
    for (const int64_t size : {1, 37, 64}) {
      Case c = MakeCase(GetParam(), 16, 64, grouping, {{1, 1}, {33, 33}, {70, 21}, {300, 2}}, ++seed);
      PagedAttentionParams params = c.Params();
      PagedAttention(CpuStream(1), params);
      std::vector<double> expected;
      for (size_t i = 0; i < c.out.size(); ++i) {
        if (static_cast<int64_t>(i % 64) < size) expected.push_back(c.out[i]);
      }
      std::vector<float> out(expected.size(), -7.0f);
      params.out = out.data();
      params.out_dim = size;
      params.out_stride = c.heads() * size;
      PagedAttention(CpuStream(2), params);
      test::ExpectNear(out, expected, SlackOfTiles(c.form), std::to_string(size) + " numbers");
    }
  }
}

/// The cached keys and values before context_begin are NaN, so a query that saw one of them would give NaN.
TEST_P(PagedAttentionTest, PagedAttention_SeesNothingBeforeTheContextsBegin) {
  uint64_t seed = 800;
  for (const auto& grouping : kGroupings) {
    for (const int64_t block_size : {1, 8, 16, 17, 64}) {
      for (const int64_t window : {0, 40}) {
        Case c = MakeCase(GetParam(), block_size, 64, grouping,
                          {{2, 1}, {33, 32}, {70, 21}, {17, 1}, {129, 128}, {300, 2}, {200, 7}}, ++seed);
        c.window = window;
        PagedAttention(CpuStream(1), c.Params());
        const std::vector<float> whole = c.out;
        c.context_begin = {1, 1, 49, 16, 1, 160, 0};
        const std::vector<float> bad(static_cast<size_t>(c.kv_heads()) * 64, std::numeric_limits<float>::quiet_NaN());
        for (size_t s = 0; s < c.context_begin.size(); ++s) {
          for (int64_t at = 0; at < c.context_begin[s]; ++at) {
            const int32_t block =
                c.tables[s * static_cast<size_t>(c.table_stride) + static_cast<size_t>(at / block_size)];
            const int64_t slot = block * block_size + at % block_size;
            KvWrite(CpuStream(1), {bad.data(), bad.data(), std::ssize(bad), &slot, 1, c.Params().cache});
          }
        }
        PagedAttention(CpuStream(2), c.Params());
        EXPECT_NE(c.out, whole);
        ExpectNearReference(c, 4e-6, "window " + std::to_string(window) + ", block " + std::to_string(block_size));
      }
    }
  }
}

/// Makes sequence s begin with the first blocks[s] blocks of sequence 0.
void SharePrefix(Case& c, const std::vector<int64_t>& blocks) {
  for (size_t s = 0; s < blocks.size(); ++s)
    std::copy_n(c.tables.begin(), blocks[s], c.tables.begin() + static_cast<ptrdiff_t>(s) * c.table_stride);
}

/// Makes 27 sequences. Sequences 0, 1, 2, 4 and twenty more share 160 tokens, rounded down to whole blocks. Sequence 3
/// shares 80 tokens with these, sequence 6 none. Sequence 5 has too many queries to be computed together with the
/// sequences that share its prefix.
Case SharingCase(const Form& form, int64_t block_size, int64_t head_dim, std::vector<int32_t> head_start) {
  std::vector<Lengths> lengths = {{180, 1}, {200, 2}, {161, 1}, {100, 3}, {170, 1}, {190, 20}, {150, 1}};
  lengths.resize(27, {165, 1});
  Case c = MakeCase(form, block_size, head_dim, std::move(head_start), lengths, 94);
  std::vector<int64_t> shared(lengths.size(), 160 / block_size);
  shared[3] = 80 / block_size;
  shared[6] = 0;
  SharePrefix(c, shared);
  return c;
}

/// Computes attention for every sequence of the case separately.
void AttendOneByOne(Case& c) {
  for (size_t s = 0; s < c.context_len.size(); ++s) {
    PagedAttentionParams p = c.Params();
    const int32_t query_start[] = {0, p.query_start[s + 1] - p.query_start[s]};
    p.queries += p.query_start[s] * p.query_stride;
    p.out += p.query_start[s] * p.out_stride;
    p.block_tables += static_cast<int64_t>(s) * p.table_stride;
    p.context_len += s;
    p.query_start = query_start;
    p.num_sequences = 1;
    PagedAttention(CpuStream(1), p);
  }
}

TEST_P(PagedAttentionTest, PagedAttention_GivesTheSameBits_WhenSequencesShareAPrefix) {
  for (const int64_t block_size : {1, 16, 17, 64}) {
    for (const int64_t head_dim : {64, 12}) {
      for (const size_t grouping : {static_cast<size_t>(block_size % 4), size_t{4}}) {
        Case c = SharingCase(GetParam(), block_size, head_dim, kGroupings[grouping]);
        if (head_dim == 12) c.Slope();
        for (const int threads : {1, 3}) {
          PagedAttention(CpuStream(threads), c.Params());
          ExpectNearReference(c, 2e-6, "block " + std::to_string(block_size));
          const std::vector<float> together = c.out;
          AttendOneByOne(c);
          EXPECT_EQ(c.out, together) << threads << " threads, block " << block_size << ", head_dim " << head_dim;
        }
      }
    }
  }
}

// Alone, a sequence's single query has many rows, one for each head. In a group it goes through the shared prefix with
// few rows at a time.
TEST_P(PagedAttentionTest, PagedAttention_GivesTheSameBits_WhenSequencesOfManyHeadsShareAPrefix) {
  Case c = SharingCase(GetParam(), 16, 64, {0, 20});
  PagedAttention(CpuStream(1), c.Params());
  ExpectNearReference(c, 2e-6, "20 heads");
  const std::vector<float> together = c.out;
  AttendOneByOne(c);
  EXPECT_EQ(c.out, together);
}

TEST(AttentionItemsTest, Cut_GroupsSequences_WhenTheirFirstBlocksAreTheSame) {
  Case c = SharingCase(kFloats, 16, 64, {0, 3});
  AttentionItems items;
  items.Cut(c.Params(), 1);
  int64_t grouped = 0, queries = 0;
  for (const AttentionItem& item : items.list()) {
    int64_t of_item = 0;
    for (int64_t m = 0; m < item.num_members; ++m) of_item += item.members[m].num_queries;
    queries += of_item;
    if (item.num_members == 1) continue;
    EXPECT_LE(of_item, kAttentionTile);
    grouped += item.num_members;
    EXPECT_EQ(item.shared_blocks, 10);
  }
  EXPECT_EQ(queries, 49) << "every query once";
  EXPECT_EQ(grouped, 24) << "the one that shares half would cost the others more than it gains";

  c.window = 100;
  items.Cut(c.Params(), 1);
  for (const AttentionItem& item : items.list()) EXPECT_EQ(item.num_members, 1) << "windows end the sharing";
}

TEST(AttentionItemsTest, Cut_SplitsAPrompt_ByTheRowsOfItsWidestHead) {
  Case c = MakeCase(kFloats, 16, 64, {0, 3, 5, 9}, {{400, 300}}, 92);
  AttentionItems items;
  items.Cut(c.Params(), 1);
  std::vector<int64_t> next(3, 0);
  for (const AttentionItem& item : items.list()) {
    const AttentionMember& member = *item.members;
    EXPECT_EQ(member.first_query, next[static_cast<size_t>(item.kv_head)]);
    EXPECT_LE(member.num_queries * 4, kPrefillRows);
    next[static_cast<size_t>(item.kv_head)] += member.num_queries;
  }
  EXPECT_EQ(next, std::vector<int64_t>(3, 300));
  EXPECT_EQ(items.list().size(), 3u * 7u) << "tiles of 48 queries, as many as rows allow";
}

TEST(AttentionItemsTest, Cut_SplitsFewQueries_WhenTheyHaveVeryManyHeads) {
  Case c = MakeCase(kFloats, 16, 64, {0, 50}, {{40, 8}, {30, 1}}, 91);
  AttentionItems items;
  items.Cut(c.Params(), 1);
  int64_t queries = 0;
  for (const AttentionItem& item : items.list()) {
    EXPECT_LE(item.members->num_queries * 50, kPrefillRows);
    queries += item.members->num_queries;
  }
  EXPECT_EQ(queries, 9);
  PagedAttention(CpuStream(1), c.Params());
  ExpectNearReference(c, 2e-6, "50 heads");
}

TEST(AttentionItemsTest, Cut_MakesTwoItemsForEachThread_WhenSequencesShareAPrefix) {
  const std::vector<Lengths> lengths(8, {100, 1});
  Case c = MakeCase(kFloats, 16, 64, {0, 3}, lengths, 93);
  SharePrefix(c, std::vector<int64_t>(8, 6));
  AttentionItems items;
  for (const int threads : {1, 2, 4}) {
    items.Cut(c.Params(), threads);
    EXPECT_EQ(items.list().size(), threads == 1 ? 1u : static_cast<size_t>(2 * threads));
  }
}

TEST_P(PagedAttentionTest, PagedAttention_EqualsReference_WithAWindow_AndReadsNothingBeforeTheWindow) {
  uint64_t seed = 1000;
  for (const auto& grouping : kGroupings) {
    for (const int64_t block_size : {1, 8, 16, 17, 64}) {
      for (const int64_t window : {1, 2, 16, 24, 50, 128, 129, 1000}) {
        const int64_t head_dim = window % 2 == 0 ? 64 : 12;
        Case c =
            MakeCase(GetParam(), block_size, head_dim, grouping,
                     {{1, 1}, {33, 33}, {50, 1}, {70, 21}, {16, 16}, {17, 1}, {5, 0}, {129, 3}, {129, 70}}, ++seed);
        c.Slide(window);
        PagedAttention(CpuStream(2), c.Params());
        ExpectNearReference(c, 2e-6, "window " + std::to_string(window) + ", block " + std::to_string(block_size));
      }
    }
  }
}

TEST_P(PagedAttentionTest, PagedAttention_GivesTheSameBits_WhenTheWindowIsLongerThanTheContext) {
  Case c = MakeCase(GetParam(), 16, 64, {0, 3, 6, 9}, {{77, 77}, {40, 1}}, 98);
  PagedAttention(CpuStream(1), c.Params());
  const std::vector<float> full = c.out;
  c.window = 77;
  PagedAttention(CpuStream(1), c.Params());
  EXPECT_EQ(c.out, full);
}

TEST_P(PagedAttentionTest, PagedAttention_MasksSlotsBeforeTheWindow_InABlockThatTheWindowCuts) {
  Case c = MakeCase(GetParam(), 16, 64, {0, 3}, {{60, 2}},
                    97);  // the queries see positions 46 to 59: the last two slots of block 2 and all of block 3
  c.Slide(13);
  PagedAttention(CpuStream(1), c.Params());
  const std::vector<float> clean = c.out;
  const PagedAttentionParams p = c.Params();
  std::vector<float> bad(64, std::numeric_limits<float>::quiet_NaN());
  for (int64_t t = 0; t < 14; ++t) {
    const int64_t slot = c.tables[2] * 16 + t;
    KvWrite(CpuStream(1), {bad.data(), bad.data(), 64, &slot, 1, p.cache});
  }
  PagedAttention(CpuStream(1), p);
  EXPECT_EQ(c.out, clean);
}

/// Groupings with few rows (one head) and with many rows (twenty heads).
const std::vector<std::vector<int32_t>> kFewAndMany = {{0, 1}, {0, 20}};

TEST_P(PagedAttentionTest, PagedAttention_DoesNotOverflow_WithLargeScores) {
  for (const auto& grouping : kFewAndMany) {
    Case c = MakeCase(GetParam(), 16, 64, grouping, {{40, 2}}, 5);
    for (float& q : c.queries) q *= 500.0f;
    PagedAttention(CpuStream(1), c.Params());
    // An error of a score becomes a relative error of the score's softmax weight. Scores are 500 times as large in this
    // case, and so are their errors.
    ExpectNearReference(c, 1e-3 + 500 * SlackOfTiles(c.form), "scores in the thousands");
  }
}

/// Runs six queries of a sequence whose third token has infinite keys or values. Only queries that see this token may
/// differ.
void ExpectInfinityWhereItIsSeen(const Form& form, const std::vector<int32_t>& grouping, bool bad_keys,
                                 int64_t window) {
  const std::vector<float> good(64, 0.5f), bad(64, std::numeric_limits<float>::infinity());
  Case c = MakeCase(form, 16, 64, grouping, {{6, 6}}, 96);
  c.window = window;
  PagedAttention(CpuStream(1), c.Params());
  const std::vector<float> clean = c.out;
  const int64_t slot = c.tables[0] * 16 + 2;
  const std::vector<float>&keys = bad_keys ? bad : good, &values = bad_keys ? good : bad;
  KvWrite(CpuStream(1), {keys.data(), values.data(), 64, &slot, 1, c.Params().cache});
  PagedAttention(CpuStream(1), c.Params());
  for (int64_t row = 0; row < 6 * c.heads(); ++row) {
    const int64_t query = row / c.heads();
    const bool sees = query >= 2 && (window == 0 || query < 2 + window);
    const auto first = static_cast<size_t>(row * 64);
    // An infinite key gives a score of NaN, or a score that takes all or none of the weight, depending on the query's
    // sign. So a result with infinite keys may be finite.
    if (sees) {
      EXPECT_FALSE(std::isfinite(c.out[first]) && !bad_keys) << "query " << query << ", window " << window;
      continue;
    }
    for (size_t i = first; i < first + 64; ++i)
      ASSERT_EQ(c.out[i], clean[i]) << "query " << query << ", window " << window << ", bad keys " << bad_keys;
  }
}

TEST_P(PagedAttentionTest, PagedAttention_GivesNonFiniteResults_OnlyToQueriesThatSeeNotFiniteValues) {
  for (const auto& grouping : kFewAndMany) {
    for (const bool bad_keys : {true, false}) {
      for (const int64_t window : {0, 2}) ExpectInfinityWhereItIsSeen(GetParam(), grouping, bad_keys, window);
    }
  }
}

TEST_P(PagedAttentionTest, PagedAttention_GivesNaN_WhenAKeyIsNoNumber) {
  for (const auto& grouping : kFewAndMany) {
    Case c = MakeCase(GetParam(), 16, 64, grouping, {{2, 2}}, 95);
    const std::vector<float> key(64, std::numeric_limits<float>::quiet_NaN()), value(64, 0.5f);
    const int64_t slot = c.tables[0] * 16;
    KvWrite(CpuStream(1), {key.data(), value.data(), 64, &slot, 1, c.Params().cache});
    PagedAttention(CpuStream(1), c.Params());
    for (const float x : c.out) EXPECT_TRUE(std::isnan(x));
  }
}

INSTANTIATE_TEST_SUITE_P(AllForms, PagedAttentionTest, testing::ValuesIn(kForms),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(KvWriteTest, KvWrite_RoundsEachVectorWithItsOwnScale) {
  Case c = MakeCase(kBytesOfCache, 16, 64, {0, 1}, {{2, 2}}, 11),
       exact = MakeCase(kFloats, 16, 64, {0, 1}, {{2, 2}}, 11);
  const auto tokens =
      [](Case& from) {  // values of the first token, then of the second: a window of 1 shows one token to each query
        from.window = 1;
        PagedAttention(CpuStream(1), from.Params());
        return from.out;
      };
  const std::vector<float> rounded = tokens(c), expected = tokens(exact);
  for (size_t token : {0, 1}) {
    float largest = 0, worst = 0;
    for (size_t i = token * 64; i < token * 64 + 64; ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      worst = std::max(worst, std::abs(rounded[i] - expected[i]));
    }
    EXPECT_GT(worst, 0);
    EXPECT_LE(worst, largest / 254 * 1.001f);
  }
}

TEST(KvWriteTest, KvWrite_RoundsToTheNearestFp16Number) {
  std::vector<float> numbers;
  // Tests every finite half, the middle between each half and the next, and the floats beside this middle.
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const float low = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(half)));
    const float next =
        half == 0x7bff ? 65536.0f : static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(half + 1)));
    const float middle = (low + next) / 2;
    for (const float x : {low, middle, std::nextafter(middle, low), std::nextafter(middle, next)})
      numbers.insert(numbers.end(), {x, -x});
  }
  const float infinity = std::numeric_limits<float>::infinity();
  numbers.insert(numbers.end(), {0x1p-30f, 1e38f, infinity, -infinity, -0.0f});
  const auto dim = static_cast<int64_t>(numbers.size());
  std::vector<_Float16> keys(numbers.size()), values(numbers.size());
  const KvCacheView cache{reinterpret_cast<std::byte*>(keys.data()),
                          reinterpret_cast<std::byte*>(values.data()),
                          0,
                          1,
                          dim,
                          1,
                          NumberType::kF16};
  const int64_t slot = 0;
  KvWrite(CpuStream(1), {numbers.data(), numbers.data(), dim, &slot, 1, cache});
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::abs(numbers[i]) >= 65520) {  // rounds to infinity as a half
      ASSERT_TRUE(std::isnan(static_cast<float>(keys[i])) && std::isnan(static_cast<float>(values[i]))) << numbers[i];
      continue;
    }
    const auto nearest = std::bit_cast<uint16_t>(static_cast<_Float16>(numbers[i]));
    ASSERT_EQ(std::bit_cast<uint16_t>(keys[i]), nearest) << numbers[i];
    ASSERT_EQ(std::bit_cast<uint16_t>(values[i]), nearest) << numbers[i];
  }
}

TEST(KvWriteTest, Attention_GivesNaN_WhenAKeyIsTooLargeForFp16) {
  for (const float large : {70000.0f, -70000.0f}) {
    Case c = MakeCase(kHalves, 16, 64, {0, 1}, {{2, 2}}, 18);
    std::vector<float> key(64, 0.5f);
    key[3] = large;
    const int64_t slot = c.tables[0] * 16;
    KvWrite(CpuStream(1), {key.data(), key.data(), 64, &slot, 1, c.Params().cache});
    PagedAttention(CpuStream(1), c.Params());
    for (const float x : c.out) EXPECT_TRUE(std::isnan(x)) << large;
  }
}

TEST(KvWriteTest, KvWrite_PutsFp16NumbersWhereTheLayoutSays) {
  Case c = MakeCase(kHalves, 16, 12, {0, 1, 2}, {{40, 1}}, 15);
  const KvCacheView cache = c.Params().cache;
  const auto keys = Random(16).Floats(24), values = Random(17).Floats(24);
  const int64_t offset = 5, slot = c.tables[0] * 16 + offset;
  KvWrite(CpuStream(1), {keys.data(), values.data(), 24, &slot, 1, cache});
  for (int64_t head = 0; head < 2; ++head) {
    const int64_t at = c.tables[0] * cache.block_stride + head * cache.head_bytes();
    const auto* const key = reinterpret_cast<const _Float16*>(cache.keys + at);
    const auto* const value = reinterpret_cast<const _Float16*>(cache.values + at);
    for (int64_t d = 0; d < 12; ++d) {
      ASSERT_EQ(key[d * 16 + offset], static_cast<_Float16>(keys[static_cast<size_t>(head * 12 + d)]));
      ASSERT_EQ(value[offset * 12 + d], static_cast<_Float16>(values[static_cast<size_t>(head * 12 + d)]));
    }
  }
}

/// Rounds one vector to int8 in the simplest way.
std::vector<int8_t> Rounded(const float* vector, int64_t dim, float& scale) {
  float largest = 0;
  for (int64_t d = 0; d < dim; ++d) largest = std::max(largest, std::abs(vector[d]));
  scale = largest / 127;
  std::vector<int8_t> out;
  for (int64_t d = 0; d < dim; ++d)
    out.push_back(static_cast<int8_t>(largest > 0 ? std::lrint(vector[d] * (127 / largest)) : 0));
  return out;
}

TEST(KvWriteTest, KvWrite_PutsInt8NumbersAndScalesWhereTheLayoutSays) {
  Random random(13);
  for (const int64_t dim : {12, 64, 80}) {
    for (const int64_t block_size : {1, 16, 17}) {
      Case c = MakeCase(kBytesOfCache, block_size, dim, {0, 1, 2}, {{40, 1}}, 14);
      const KvCacheView cache = c.Params().cache;
      const auto keys = random.Floats(2 * dim), values = random.Floats(2 * dim);
      const int64_t block = c.tables[0], offset = block_size / 2, slot = block * block_size + offset;
      KvWrite(CpuStream(1), {keys.data(), values.data(), 2 * dim, &slot, 1, cache});
      for (int64_t head = 0; head < 2; ++head) {
        const auto check = [&](const std::byte* part, const float* vector, int64_t first, int64_t stride) {
          part += block * cache.block_stride + head * cache.head_bytes();
          float scale = 0;
          const std::vector<int8_t> expected = Rounded(vector + head * dim, dim, scale);
          EXPECT_EQ(reinterpret_cast<const float*>(part)[offset], scale);
          const auto* numbers = reinterpret_cast<const int8_t*>(part + block_size * 4) + first;
          for (int64_t d = 0; d < dim; ++d)
            ASSERT_EQ(numbers[d * stride], expected[static_cast<size_t>(d)])
                << "dim " << dim << ", block " << block_size;
        };
        check(cache.keys, keys.data(), offset, block_size);
        check(cache.values, values.data(), offset * dim, 1);
      }
    }
  }
}

TEST(KvWriteTest, Attention_GivesNonFiniteResults_WhenAnInt8VectorIsNotFinite) {
  Case c = MakeCase(kBytesOfCache, 16, 64, {0, 1}, {{2, 1}}, 12);
  std::vector<float> vector(64, 1.0f);
  vector[9] = std::numeric_limits<float>::infinity();
  const int64_t slot = c.tables[0] * 16;
  KvWrite(CpuStream(1), {vector.data(), vector.data(), 64, &slot, 1, c.Params().cache});
  PagedAttention(CpuStream(1), c.Params());
  for (const float x : c.out) EXPECT_FALSE(std::isfinite(x));
}

TEST(BlockCopyTest, BlockCopy_CopiesWholeBlocks_InTheOrderOfThePairs) {
  std::vector<float> pool = {0, 0, 1, 1, 2, 2, 3, 3};
  const int32_t pairs[] = {1, 3, 3, 2};
  auto* const bytes = reinterpret_cast<std::byte*>(pool.data());
  BlockCopy(CpuStream(1), {bytes, bytes, 2 * sizeof(float), pairs, 2});
  EXPECT_EQ(pool, (std::vector<float>{0, 0, 1, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace quire::kernels
