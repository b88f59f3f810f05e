// The first entry to a stack goes through ucontext, and later switches through setjmp and longjmp, because swapcontext
// makes a system call. The checked longjmp of _FORTIFY_SOURCE reports jumps between stacks as errors.
#undef _FORTIFY_SOURCE
#include "simt/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace quire::simt {

namespace {

constexpr size_t kStackBytes = 256 * 1024;

#ifdef __SANITIZE_ADDRESS__
void BeforeSwitch(void** fake, const void* stack, size_t bytes) { __sanitizer_start_switch_fiber(fake, stack, bytes); }
void AfterSwitch(void* fake, const void** stack, size_t* bytes) { __sanitizer_finish_switch_fiber(fake, stack, bytes); }
void ForgetFrames(void* stack) { __asan_unpoison_memory_region(stack, kStackBytes); }
#else
void BeforeSwitch(void**, const void*, size_t) {}
void AfterSwitch(void*, const void**, size_t*) {}
void ForgetFrames(void*) {}
#endif

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, 4096, PROT_NONE) != 0) {  // the guard page below the stack
    std::perror("fiber stack");
    std::abort();
  }
  stack_ = static_cast<std::byte*>(memory);
}

Fiber::~Fiber() {
  ForgetFrames(stack_);
  munmap(stack_, kStackBytes);
}

void Fiber::Start(Body body, void* argument) {
  if (!finished_) entered_ = false;  // an unfinished body: begin again at the top of the stack
  body_ = body;
  argument_ = argument;
  finished_ = false;
}

void Fiber::Resume() {
  void* fake = nullptr;
  BeforeSwitch(&fake, stack_, kStackBytes);
  if (_setjmp(outside_) == 0) {
    if (entered_) _longjmp(inside_, 1);
    entered_ = true;
    ForgetFrames(stack_);
    fake_stack_ = nullptr;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::Enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(uint64_t{self} >> 32));
    setcontext(&context);
  }
  AfterSwitch(fake, nullptr, nullptr);
}

void Fiber::Yield() {
  BeforeSwitch(&fake_stack_, outside_stack_, outside_size_);
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
  AfterSwitch(fake_stack_, &outside_stack_, &outside_size_);
}

void Fiber::Enter(unsigned low, unsigned high) {
  reinterpret_cast<Fiber*>(static_cast<uintptr_t>(uint64_t{high} << 32 | low))->Loop();
}

void Fiber::Loop() {
  AfterSwitch(fake_stack_, &outside_stack_, &outside_size_);
  for (;;) {
    body_(argument_);
    finished_ = true;
    Yield();
  }
}

}  // namespace quire::simt
