#pragma once

#include <csetjmp>
#include <cstddef>

namespace quire::simt {

/// Runs bodies as coroutines on one stack. No exception may leave a body.
class Fiber {
 public:
  using Body = void (*)(void*);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes the next Resume() enter body(argument). A body that was left unfinished is forgotten with all its locals.
  void Start(Body body, void* argument);
  /// Runs the body until it yields or returns. Only code outside the body may call this.
  void Resume();
  /// Leaves the body and returns to the caller of Resume(). Only the body may call this.
  void Yield();
  bool finished() const { return finished_; }

 private:
  static void Enter(unsigned low, unsigned high);
  void Loop();

  std::byte* stack_;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool entered_ = false;  // the stack holds a suspended Loop()
  bool finished_ = true;
  std::jmp_buf inside_, outside_;
  // AddressSanitizer's data about the stack that the fiber left; unused without AddressSanitizer.
  void* fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_size_ = 0;
};

}  // namespace quire::simt
