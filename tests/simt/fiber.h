#pragma once

#include <cstddef>

namespace quire::simt {

/// Runs bodies as coroutines on one stack. No exception may leave a body.
///
/// Switches are inlined, and jump instead of returning. So when lanes of a warp leave a function one after another, the
/// processor predicts where each return goes: the lane before returned to the same place. With calls of setjmp and
/// longjmp, all returns after a switch were predicted wrongly, which was a third of the emulator's time.
class Fiber {
 public:
  using Body = void (*)(void*);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes the next Resume() enter body(argument). A body that was left unfinished is forgotten with all its locals.
  void Start(Body body, void* argument) {
    if (!finished_) SetUpStack();  // an unfinished body: begin again at the top of the stack
    body_ = body;
    argument_ = argument;
    finished_ = false;
  }
  /// Runs the body until it yields or returns. Only code outside the body may call this.
  [[gnu::always_inline]] void Resume() {
    void* fake = nullptr;
    BeforeSwitch(&fake, stack_, kStackBytes);
    Switch(&outside_, inside_);
    AfterSwitch(fake, nullptr, nullptr);
  }
  /// Leaves the body and returns to the caller of Resume(). Only the body may call this.
  [[gnu::always_inline]] void Yield() {
    BeforeSwitch(&fake_stack_, outside_stack_, outside_size_);
    Switch(&inside_, outside_);
    AfterSwitch(fake_stack_, &outside_stack_, &outside_size_);
  }
  bool finished() const { return finished_; }

 private:
  static constexpr size_t kStackBytes = 256 * 1024;

  /// Saves the stack pointer at *from, and continues where the Switch ended that saved `to`, or enters Enter(from) on a
  /// fresh stack. Below the stack pointer, 128 bytes may hold variables of the function that this is inlined into
  /// (the System V ABI's red zone). The caller's registers are on the stack, or saved by the compiler.
  [[gnu::always_inline]] static void Switch(void** from, void* to) {
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n\t"
        "leaq 1f(%%rip), %%rax\n\t"
        "pushq %%rbp\n\t"
        "pushq %%rax\n\t"
        "movq %%rsp, (%%rdi)\n\t"
        "movq %%rsi, %%rsp\n\t"
        "popq %%rax\n\t"
        "popq %%rbp\n\t"
        "jmp *%%rax\n"
        "1:\n\t"
        "endbr64\n\t"
        "leaq 128(%%rsp), %%rsp"
        : "+D"(from), "+S"(to)
        :
        : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
          "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
          "cc", "memory");
  }
  static void Enter(void** outside);
  void Loop();
  void SetUpStack();
#ifdef __SANITIZE_ADDRESS__
  static void BeforeSwitch(void** fake, const void* stack, size_t bytes);
  static void AfterSwitch(void* fake, const void** stack, size_t* bytes);
#else
  static void BeforeSwitch(void**, const void*, size_t) {}
  static void AfterSwitch(void*, const void**, size_t*) {}
#endif

  void* outside_ = nullptr;  // the stack pointer of Resume's caller; the first member, because Enter gets its address
  void* inside_ = nullptr;   // the stack pointer of the body that yielded
  std::byte* stack_;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool finished_ = true;
  // AddressSanitizer's data about the stack that the fiber left; unused without AddressSanitizer.
  void* fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_size_ = 0;
};

}  // namespace quire::simt
