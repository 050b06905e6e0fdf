// A thread of a kernel: it has its own stack and runs until it yields.
//
// A fiber starts with ucontext, which every libc for Linux has, and switches with _setjmp and
// _longjmp, which make no system call: a case switches some million times.
#pragma once
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

namespace emulator {

class Fiber {
 public:
  // An idle fiber, new or reused.
  static Fiber* take(const std::function<void()>* body) {
    Fiber* fiber;
    if (idle.empty()) {
      fiber = new Fiber();
    } else {
      fiber = idle.back();
      idle.pop_back();
    }
    fiber->body = body;
    fiber->done = false;
    return fiber;
  }

  static void put_back(Fiber* fiber) { idle.push_back(fiber); }

  // Of a fiber that never resumes: objects on its stack are not destroyed.
  static void discard(Fiber* fiber) {
    munmap(fiber->stack, STACK);
    delete fiber;
  }

  bool is_done() const { return done; }

  // Runs it until it yields or ends. Not from a fiber.
  void resume() {
    current = this;
    if (_setjmp(outside) == 0) {
      if (started) {
        _longjmp(inside, 1);
      }
      started = true;
      setcontext(&beginning);
    }
    if (!guarded && *last_word() != LAST) {
      std::abort();
    }
  }

  // From a fiber.
  static void yield_fiber() {
    if (_setjmp(current->inside) == 0) {
      _longjmp(outside, 1);
    }
  }

 private:
  static constexpr size_t STACK = 64 << 10;
  static constexpr size_t PAGE = 4 << 10;

  // The end of a stack is a page without access, so that an overflow ends the program instead of
  // corrupting another fiber. Such a page is a mapping of its own, and Linux grants a process 65 530
  // of them (vm.max_map_count), two a guarded stack. Further stacks end with a word that every switch
  // compares.
  static constexpr size_t MAX_GUARDED = 16 << 10;
  static constexpr uint64_t LAST = 0x656e64206f66206d;

  inline static std::vector<Fiber*> idle;
  inline static Fiber* current = nullptr;
  inline static size_t made = 0;
  inline static std::jmp_buf outside;

  void* stack;
  std::jmp_buf inside;
  ucontext_t beginning;
  const std::function<void()>* body = nullptr;
  bool started = false;
  bool done = true;
  const bool guarded;

  uint64_t* last_word() const { return (uint64_t*)((char*)stack + PAGE) - 1; }

  Fiber() : guarded(made++ < MAX_GUARDED) {
    stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || (guarded && mprotect(stack, PAGE, PROT_NONE) != 0) ||
        getcontext(&beginning) != 0) {
      std::perror("a stack for a fiber");
      std::abort();
    }
    if (!guarded) {
      *last_word() = LAST;
    }
    beginning.uc_stack.ss_sp = stack;
    beginning.uc_stack.ss_size = STACK;
    beginning.uc_link = nullptr;
    makecontext(&beginning, run, 0);
  }

  // Fibers are reused: a fiber ends one body and waits for the next.
  static void run() {
    for (;;) {
      (*current->body)();
      current->done = true;
      yield_fiber();
    }
  }
};

}  // namespace emulator
