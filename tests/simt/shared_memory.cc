#include "simt/shared_memory.h"

namespace quire::simt {

void SharedMemory::Begin(size_t bytes, uint32_t first_epoch) {
  bytes_.assign(bytes, std::byte{0xff});  // NaN as float, bf16 and half
  if (cells_.size() < bytes) cells_.resize(bytes);
  first_epoch_ = first_epoch;
}

SharedMemory::Fault SharedMemory::Note(size_t offset, size_t size, Access access, const Stamp& now,
                                       const Order& order) {
  for (size_t i = offset; i < offset + size; ++i) {
    const Fault fault = NoteByte(cells_[i], access, now, order);
    if (fault.what != nullptr) return fault;
  }
  return {};
}

bool SharedMemory::Conflicts(const Stamp& earlier, const Stamp& now, const Order& order) const {
  // Everything before the current epoch is ordered by a barrier, and so is what another block left behind.
  return earlier.epoch == now.epoch && earlier.thread != now.thread && !(earlier.atomic && now.atomic) &&
         !order.Before(earlier);
}

SharedMemory::Fault SharedMemory::StartCopy(size_t offset, size_t size, const Stamp& now, const Order& order) {
  const Fault fault = Note(offset, size, Access::kWrite, now, order);
  for (size_t i = offset; i < offset + size; ++i) cells_[i].copy = now;
  return fault;
}

void SharedMemory::EndCopy(size_t offset, size_t size) {
  for (size_t i = offset; i < offset + size; ++i) cells_[i].copy = {};
}

SharedMemory::Fault SharedMemory::NoteByte(Cell& cell, Access access, const Stamp& now, const Order& order) {
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
