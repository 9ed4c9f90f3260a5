// A stack that waits to go on, and the change from one to another. For one source file: it defines
// a function in assembler.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace zero::emulation {

#if defined(__x86_64__)
// Where its registers lie. Much faster than swapcontext(), which asks the system for the signal
// mask on every switch.
using Context = void*;
extern "C" void zero_emulation_switch(Context* from, Context to);
asm(R"(
.text
.globl zero_emulation_switch
.hidden zero_emulation_switch
.type zero_emulation_switch, @function
zero_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size zero_emulation_switch, . - zero_emulation_switch
)");
inline void switch_to(Context& from, Context& to) { zero_emulation_switch(&from, to); }
inline void make_context(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  auto* top = reinterpret_cast<std::uintptr_t*>((reinterpret_cast<std::uintptr_t>(stack) + bytes) /
                                                16 * 16);
  *--top = 0;  // nothing to return to
  *--top = reinterpret_cast<std::uintptr_t>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = 0;
  context = top;
}
#else
using Context = ucontext_t;
inline void switch_to(Context& from, Context& to) { swapcontext(&from, &to); }
inline void make_context(Context& context, char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = bytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}
#endif

}  // namespace zero::emulation
