#include "kernels/cuda/decode/decode_attention_plan.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace quire::kernels {

namespace {

int32_t CeilDiv(int64_t a, int64_t b) { return static_cast<int32_t>((a + b - 1) / b); }

/// Gives units of 64 tokens to CTAs, in order.
class Planner {
 public:
  Planner(const DecodeWorkSize& size, std::span<int32_t> work, int64_t units, int32_t min_units)
      : size_(size), work_(work), left_(units), min_units_(min_units), target_(min_units) {
    Aim();
    work_[static_cast<size_t>(size_.FirstItemsAt())] = 0;
  }

  /// Adds the units [first, end) of a sequence and head tile, and splits them among CTAs if needed. `whole` has the
  /// visible positions, and the fields that are the same for every split.
  void Add(const DecodeItem& whole, int32_t first, int32_t end) {
    int32_t parts = 0;
    const int32_t first_slot = slots_;
    while (first < end) {
      const int32_t take = Take(end - first);
      if (take == 0) {
        NextCta();
        continue;
      }
      DecodeItem item = whole;
      const bool split = parts > 0 || take < end - first;
      item.begin = std::max(whole.begin, first * kDecodeUnit);
      item.end = std::min(whole.end, (first + take) * kDecodeUnit);
      item.slot = split ? slots_++ : -1;
      Put(size_.ItemsAt() + 8 * items_++, item);
      first += take, load_ += take, left_ -= take, ++parts;
    }
    if (parts == 1) return;
    Put(size_.MergesAt() + 8 * merges_++,
        DecodeMerge{whole.seq, whole.first_head, whole.num_heads, first_slot, parts, {}});
  }

  DecodePlan Finish() {
    while (cta_ < size_.num_ctas) NextCta();
    work_[0] = static_cast<int32_t>(merges_);
    std::fill_n(work_.begin() + 1, 3, 0);
    return {merges_ > 0, size_.ItemsAt() + 8 * items_};
  }

 private:
  /// Returns how many of `units` units the current CTA takes; 0: the CTA is full.
  int32_t Take(int32_t units) const {
    const int32_t room = target_ - load_;
    if (cta_ == size_.num_ctas - 1 || units <= room + std::max(target_ / 8, min_units_ - 1)) return units;
    return room >= min_units_ ? room : 0;
  }
  void NextCta() {
    ++cta_;
    work_[static_cast<size_t>(size_.FirstItemsAt() + cta_)] = static_cast<int32_t>(items_);
    load_ = 0;
    Aim();
  }
  /// Sets the target to an even share of the remaining units, but never lowers it: if whole contexts are slightly
  /// longer than the share, the last CTAs stay idle, and no other context is split for them.
  void Aim() { target_ = std::max(target_, CeilDiv(left_, std::max(size_.num_ctas - cta_, 1))); }
  template <class Record>
  void Put(int64_t at, const Record& record) {
    static_assert(sizeof(Record) == 32);
    std::memcpy(&work_[static_cast<size_t>(at)], &record, sizeof(Record));
  }

  const DecodeWorkSize size_;
  const std::span<int32_t> work_;
  int64_t left_, items_ = 0, merges_ = 0;
  const int32_t min_units_;
  int32_t target_, load_ = 0, cta_ = 0, slots_ = 0;
};

struct Units {
  int32_t begin, first, end;  // first visible position; range of units
};
/// Returns the units of a context. A sequence without tokens has one unit, because its rows must be set to 0.
Units UnitsOf(int32_t context, int32_t window) {
  const int32_t begin = window > 0 ? std::max(context - window, 0) : 0;
  return {begin, begin / kDecodeUnit, std::max(CeilDiv(context, kDecodeUnit), 1)};
}

}  // namespace

int32_t NumHeadTiles(std::span<const int32_t> head_start) {
  int32_t tiles = 0;
  for (size_t g = 1; g < head_start.size(); ++g) tiles += CeilDiv(head_start[g] - head_start[g - 1], kDecodeRows);
  return tiles;
}

DecodePlan PlanDecode(const DecodeWorkSize& size, std::span<const int32_t> context_len,
                      std::span<const int32_t> head_start, int32_t window, std::span<int32_t> work, int32_t min_units) {
  const int32_t tiles = NumHeadTiles(head_start);
  QUIRE_KERNEL_CHECK(size.num_ctas >= 1 && min_units >= 1);
  QUIRE_KERNEL_CHECK(static_cast<int64_t>(context_len.size()) * tiles <= size.max_pairs);
  QUIRE_KERNEL_CHECK(static_cast<int64_t>(work.size()) >= size.Words());
  int64_t total = 0;
  for (const int32_t context : context_len) {
    const Units units = UnitsOf(context, window);
    total += int64_t{units.end - units.first} * tiles;
  }
  Planner planner(size, work, total, min_units);
  for (size_t seq = 0; seq < context_len.size(); ++seq) {
    const Units units = UnitsOf(context_len[seq], window);
    for (size_t g = 0; g + 1 < head_start.size(); ++g) {
      for (int32_t head = head_start[g]; head < head_start[g + 1]; head += kDecodeRows) {
        const int32_t heads = std::min(kDecodeRows, head_start[g + 1] - head);
        planner.Add({static_cast<int32_t>(seq), static_cast<int32_t>(g), head, heads, units.begin, context_len[seq],
                     context_len[seq], -1},
                    units.first, units.end);
      }
    }
  }
  return planner.Finish();
}

DecodeGrid ChooseDecodeGrid(const DecodeDevice& device, NumberType dtype, NumberType cache, int32_t head_size) {
  const int64_t stage = DecodeStageBytes(dtype, cache, head_size);
  const int64_t extra = DecodeExtraBytes(dtype, head_size);
  constexpr int64_t kReserved = 1024;  // reserved by the system, per CTA
  for (const int32_t ctas : {2, 1}) {
    const int64_t room = std::min(device.shared_per_block, device.shared_per_sm / ctas - kReserved) - extra;
    const auto stages = static_cast<int32_t>(std::min<int64_t>(room / stage, 4));
    if (stages >= 3 || ctas == 1) return {device.num_sms * ctas, stages};
  }
  return {};
}

}  // namespace quire::kernels
