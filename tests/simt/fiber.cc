#include "simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace quire::simt {

#ifdef __SANITIZE_ADDRESS__
void Fiber::BeforeSwitch(void** fake, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake, stack, bytes);
}
void Fiber::AfterSwitch(void* fake, const void** stack, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, stack, bytes);
}
#endif

namespace {

#ifdef __SANITIZE_ADDRESS__
void ForgetFrames(void* stack, size_t bytes) { __asan_unpoison_memory_region(stack, bytes); }
#else
void ForgetFrames(void*, size_t) {}
#endif

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, 4096, PROT_NONE) != 0) {  // the guard page below the stack
    std::perror("fiber stack");
    std::abort();
  }
  stack_ = static_cast<std::byte*>(memory);
  SetUpStack();
}

Fiber::~Fiber() {
  ForgetFrames(stack_, kStackBytes);
  munmap(stack_, kStackBytes);
}

void Fiber::SetUpStack() {
  ForgetFrames(stack_, kStackBytes);
  fake_stack_ = nullptr;
  // What Switch takes from the stack: the place to continue at, and the frame pointer. Above them, as for any function,
  // is a return address at a multiple of 16 bytes less 8. Enter never returns.
  // Stacks begin at different places of their pages. At equal ones they would compete for the same lines of the caches.
  const size_t below = reinterpret_cast<uintptr_t>(stack_) / kStackBytes % 64 * 64;
  auto* const top = reinterpret_cast<uintptr_t*>(stack_ + kStackBytes - below - 56);
  top[0] = reinterpret_cast<uintptr_t>(&Fiber::Enter);
  top[1] = 0;
  top[2] = 0;
  inside_ = top;
  static_assert(std::is_standard_layout_v<Fiber>);  // so Enter can tell the fiber from its first member
}

void Fiber::Enter(void** outside) { reinterpret_cast<Fiber*>(outside)->Loop(); }

void Fiber::Loop() {
  AfterSwitch(fake_stack_, &outside_stack_, &outside_size_);
  for (;;) {
    body_(argument_);
    finished_ = true;
    Yield();
  }
}

}  // namespace quire::simt
