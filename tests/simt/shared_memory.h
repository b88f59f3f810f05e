#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::simt {

enum class Access { kRead, kWrite, kAtomic };

/// Describes one access to shared memory. `epoch` is the number of block barriers in the process before the access (a
/// new block counts as one). `time` is the number of warp barriers of the thread before the access.
struct Stamp {
  uint32_t epoch = 0;
  uint32_t time = 0;
  uint16_t thread = 0;
  bool atomic = false;
};

/// Tells which accesses are ordered before the next access of the running thread.
class Order {
 public:
  virtual bool Before(const Stamp& earlier) const = 0;

 protected:
  ~Order() = default;
};

/// The shared memory of the running block, with the history of every byte. A history is the last write and the last two
/// reads by different threads (of different warps if possible); stamps older than the block mean "never". Up to 16
/// bytes that the block has always touched together share one history. Such a group of bytes is called a grain.
class SharedMemory {
 public:
  /// Makes fresh bytes for a block. All accesses of the block have epochs of at least `first_epoch`.
  void Begin(size_t bytes, uint32_t first_epoch);

  size_t size() const { return bytes_.size(); }
  std::byte* data() { return bytes_.data(); }

  struct Fault {
    const char* what = nullptr;  // null: the access is fine
    Stamp other;                 // the other access of a race
  };
  /// Checks and records an access to bytes [offset, offset + size), which must be inside the memory. Returns what is
  /// wrong with the access, if anything.
  Fault Note(size_t offset, size_t size, Access access, const Stamp& now, const Order& order);
  /// Starts a copy by now.thread, which may write the bytes at any time until EndCopy: no thread may touch these bytes
  /// until then.
  Fault StartCopy(size_t offset, size_t size, const Stamp& now, const Order& order);
  void EndCopy(size_t offset, size_t size);
  /// Returns the size of the grain that holds a byte.
  size_t Grain(size_t offset) const { return grains_[offset / kLine]; }
  const Stamp& LastWrite(size_t offset) const { return cells_[PlaceOf(offset & ~(Grain(offset) - 1))].write; }

 private:
  struct Cell {
    Stamp write, read, other_read;
    Stamp copy;  // the asynchronous copy in flight; epoch 0: none
  };
  static constexpr size_t kLine = 16;  // bytes, the widest access

  /// Returns the place of the cell of byte `at`. Cells that are used together lie together: first those of all lines'
  /// first bytes, then those of bytes 8, then bytes 4, and so on. So the cells of large grains fill few cache lines.
  size_t PlaceOf(size_t at) const {
    constexpr uint8_t kTurn[kLine] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};  // reversed bits
    return kTurn[at % kLine] * grains_.size() + at / kLine;
  }
  Fault NoteGrain(Cell& cell, Access access, const Stamp& now, const Order& order);
  /// Calls visit(cell) for the grains of the bytes until visit returns false. Splits grains that reach beyond the
  /// bytes.
  template <class Visit>
  void ForGrains(size_t offset, size_t size, Visit visit);
  void Split(size_t line, size_t grain);
  bool Conflicts(const Stamp& earlier, const Stamp& now, const Order& order) const;

  std::vector<std::byte> bytes_;
  std::vector<Cell> cells_;      // one per byte, at PlaceOf(byte); only the cell of each grain's first byte is used
  std::vector<uint8_t> grains_;  // for each line, the number of bytes of its grains, a power of two
  uint32_t first_epoch_ = 1;
};

}  // namespace quire::simt
