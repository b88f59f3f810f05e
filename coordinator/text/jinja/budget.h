#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace quire::jinja {

/// Limits of one rendering. If a limit is exceeded, the rendering ends with an error that names the limit.
struct Limits {
  int64_t max_work = 20'000'000;             // units: roughly one expression, one item or 32 bytes examined
  size_t max_made_bytes = 128 << 20;         // bytes of all values that the template makes, marks of texts included
  size_t max_text_bytes = 16 << 20;          // bytes of one text, and of the output
  size_t max_list_items = 1 << 20;           // items of one list
  int max_depth = 600;                       // nesting of statements, expressions, macros and values
  std::chrono::milliseconds max_time{2000};  // measured on the steady clock
  std::function<bool()> cancelled;           // called every 4,096 units; true ends the rendering
};

/// Counts the work, bytes and nesting of one rendering. Code that loops, copies or recurses for a template calls the
/// budget first, which throws Error when a limit is exceeded. Only one thread uses an object of this class.
class Budget {
 public:
  explicit Budget(Limits limits);

  void Work(size_t units) {
    work_ += units;
    if (work_ >= next_look_) Look();
  }
  /// Charges for reading `bytes` bytes of text: searching, comparing, hashing.
  void Scan(size_t bytes) { Work(1 + bytes / kScannedBytesPerUnit); }
  /// Charges for processing `bytes` bytes of text character by character.
  void Walk(size_t bytes) { Work(1 + bytes / kWalkedBytesPerUnit); }
  /// Charges for a new text of `bytes` bytes, or for making a text `bytes` bytes longer.
  void MakeText(size_t bytes);
  /// Charges for a new list of `count` items, or for adding `count` items to a list or mapping.
  void MakeItems(size_t count);
  /// Throws Error when a text of `bytes` bytes is too long. Does not charge the bytes; MakeText does.
  void CheckText(size_t bytes) const;
  /// Throws Error when an output of `bytes` bytes is too long.
  void CheckOutput(size_t bytes) const;

  /// Counts one level of recursion while an object of this class lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.max_depth) budget_.TooDeep();
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  static constexpr size_t kScannedBytesPerUnit = 32, kWalkedBytesPerUnit = 4;

  /// Throws Error when the limit of work or time is exceeded, or when the rendering was cancelled.
  void Look();
  void Make(size_t bytes);
  [[noreturn]] void TooDeep();

  Limits limits_;
  std::chrono::steady_clock::time_point deadline_;
  uint64_t work_ = 0, next_look_ = 0;
  size_t made_ = 0;
  int depth_ = 0;
};

}  // namespace quire::jinja
