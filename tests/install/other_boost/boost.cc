// Stands for another version of Boost.Context and Boost.Fiber: the same names, other code. Whoever is not this program
// and calls them is ended.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {
[[noreturn]] void wrong(const char* name) {
  std::fprintf(stderr, "Troupe called %s of this program\n", name);
  std::_Exit(70);
}
}  // namespace

extern "C" {
void* make_fcontext(void*, std::size_t, void (*)()) { wrong("make_fcontext"); }
void* jump_fcontext(void*, void*) { wrong("jump_fcontext"); }
void* ontop_fcontext(void*, void*, void (*)()) { wrong("ontop_fcontext"); }
}

namespace boost::context {
struct stack_traits {
  static bool is_unbounded() noexcept;
  static std::size_t page_size() noexcept;
  static std::size_t default_size() noexcept;
  static std::size_t minimum_size() noexcept;
  static std::size_t maximum_size() noexcept;
};
bool stack_traits::is_unbounded() noexcept { wrong("is_unbounded"); }
std::size_t stack_traits::page_size() noexcept { wrong("page_size"); }
std::size_t stack_traits::default_size() noexcept { wrong("default_size"); }
std::size_t stack_traits::minimum_size() noexcept { wrong("minimum_size"); }
std::size_t stack_traits::maximum_size() noexcept { wrong("maximum_size"); }
}  // namespace boost::context

namespace boost::fibers {
struct context {
  static context* active() noexcept;
  void resume() noexcept;
  void suspend() noexcept;
  void yield() noexcept;
};
context* context::active() noexcept { wrong("context::active"); }
void context::resume() noexcept { wrong("context::resume"); }
void context::suspend() noexcept { wrong("context::suspend"); }
void context::yield() noexcept { wrong("context::yield"); }
}  // namespace boost::fibers
