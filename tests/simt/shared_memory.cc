#include "simt/shared_memory.h"

#include <algorithm>
#include <bit>

namespace quire::simt {

void SharedMemory::Begin(size_t bytes, uint32_t first_epoch) {
  bytes_.assign(bytes, std::byte{0xff});  // NaN as float, bf16 and half
  const size_t lines = (bytes + kLine - 1) / kLine;
  if (cells_.size() < lines * kLine) cells_.resize(lines * kLine);
  grains_.assign(lines, kLine);
  first_epoch_ = first_epoch;
}

void SharedMemory::Split(size_t line, size_t grain) {
  const size_t begin = line * kLine;
  for (size_t at = kLine - grain; at > 0; at -= grain)
    cells_[PlaceOf(begin + at)] = cells_[PlaceOf(begin + (at & ~(grains_[line] - size_t{1})))];
  grains_[line] = static_cast<uint8_t>(grain);
}

template <class Visit>
void SharedMemory::ForGrains(size_t offset, size_t size, Visit visit) {
  // Grains of at most this size reach neither before the first byte of the access nor beyond its last byte.
  const size_t fitting = size_t{1} << std::countr_zero(offset | size | kLine);
  for (size_t at = offset; at < offset + size;) {
    const size_t line = at / kLine;
    if (grains_[line] > fitting) Split(line, fitting);
    for (const size_t end = std::min(offset + size, (line + 1) * kLine); at < end; at += grains_[line])
      if (!visit(cells_[PlaceOf(at)])) return;
  }
}

SharedMemory::Fault SharedMemory::Note(size_t offset, size_t size, Access access, const Stamp& now,
                                       const Order& order) {
  Fault fault;
  ForGrains(offset, size, [&](Cell& cell) {
    fault = NoteGrain(cell, access, now, order);
    return fault.what == nullptr;
  });
  return fault;
}

bool SharedMemory::Conflicts(const Stamp& earlier, const Stamp& now, const Order& order) const {
  // A barrier orders all accesses before the current epoch, including those of an earlier block.
  return earlier.epoch == now.epoch && earlier.thread != now.thread && !(earlier.atomic && now.atomic) &&
         !order.Before(earlier);
}

SharedMemory::Fault SharedMemory::StartCopy(size_t offset, size_t size, const Stamp& now, const Order& order) {
  const Fault fault = Note(offset, size, Access::kWrite, now, order);
  ForGrains(offset, size, [&](Cell& cell) { return cell.copy = now, true; });
  return fault;
}

void SharedMemory::EndCopy(size_t offset, size_t size) {
  ForGrains(offset, size, [](Cell& cell) { return cell.copy = {}, true; });
}

SharedMemory::Fault SharedMemory::NoteGrain(Cell& cell, Access access, const Stamp& now, const Order& order) {
  if (cell.copy.epoch >= first_epoch_) {
    return {access == Access::kRead ? "reads what a copy in flight writes, of" : "writes under a copy in flight, of",
            cell.copy};
  }
  const bool written = cell.write.epoch >= first_epoch_;
  if (access != Access::kWrite && !written) return {"reads shared memory that nobody wrote", {}};
  if (Conflicts(cell.write, now, order)) {
    return {access == Access::kRead ? "race: reads what another thread wrote without a barrier in between"
                                    : "race: writes where another thread wrote without a barrier in between",
            cell.write};
  }
  if (access == Access::kRead) {
    if (cell.read.thread != now.thread) {
      const bool keep = cell.other_read.epoch == now.epoch && cell.other_read.thread / 32 != now.thread / 32 &&
                        cell.read.thread / 32 == now.thread / 32;
      if (!keep) cell.other_read = cell.read;
    }
    cell.read = now;
    return {};
  }
  for (const Stamp& read : {cell.read, cell.other_read}) {
    if (Conflicts(read, now, order)) {
      return {"race: writes what another thread read without a barrier in between", read};
    }
  }
  cell.write = now;
  return {};
}

}  // namespace quire::simt
