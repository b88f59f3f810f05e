#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace quire::jinja {

/// Bounds of one rendering; past any of them it fails with an error that names the bound.
struct Limits {
  int64_t max_work = 20'000'000;             // units: about an expression evaluated, or an item or 32 bytes looked at
  size_t max_made_bytes = 128 << 20;         // of all values together that the template makes, texts with their marks
  size_t max_text_bytes = 16 << 20;          // of one text, and of what is written
  size_t max_list_items = 1 << 20;           // of one list
  int max_depth = 600;                       // levels of statements, expressions, macros and values inside each other
  std::chrono::milliseconds max_time{2000};  // on the steady clock
  std::function<bool()> cancelled;           // looked at now and then; true ends the rendering
};

/// What one rendering has used of its limits. Whatever loops, copies or recurses on a template's behalf charges it
/// before it begins; past a bound that throws Error. One thread uses it.
class Budget {
 public:
  explicit Budget(Limits limits);

  void Work(size_t units) {
    work_ += units;
    if (work_ >= next_look_) Look();
  }
  /// Reading so many bytes of text: searching, comparing, hashing.
  void Scan(size_t bytes) { Work(1 + bytes / kScannedBytesPerUnit); }
  /// Walking over so many bytes of text character by character.
  void Walk(size_t bytes) { Work(1 + bytes / kWalkedBytesPerUnit); }
  /// A text of so many bytes, or so many bytes more of one.
  void MakeText(size_t bytes);
  /// A list of so many items, or so many items more of a list or mapping.
  void MakeItems(size_t count);
  /// A text that has grown to so many bytes; the growth is charged by MakeText.
  void CheckText(size_t bytes) const;
  /// Everything written so far.
  void CheckOutput(size_t bytes) const;

  /// One level of whatever recurses, for as long as it lives.
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

  /// Looks at the bound of work, at the clock, and whether anybody still wants the text.
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
