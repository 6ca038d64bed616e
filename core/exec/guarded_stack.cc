#include "core/exec/guarded_stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace troupe::exec {

boost::context::stack_context GuardedStack::allocate() {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size = (size_ + page - 1) / page * page;
  void* low = ::mmap(nullptr, kStackGuard + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (low == MAP_FAILED) throw std::bad_alloc();
  auto* bottom = static_cast<std::byte*>(low) + kStackGuard;
  if (::mprotect(bottom, size, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(low, kStackGuard + size);
    throw std::bad_alloc();
  }
  boost::context::stack_context stack;
  stack.size = size;
  stack.sp = bottom + size;
  return stack;
}

void GuardedStack::deallocate(boost::context::stack_context& stack) noexcept {
  ::munmap(static_cast<std::byte*>(stack.sp) - stack.size - kStackGuard, kStackGuard + stack.size);
}

}  // namespace troupe::exec
