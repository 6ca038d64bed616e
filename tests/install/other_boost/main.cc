// Fibers of Troupe, in a program that has another Boost: two calls of one actor wait for each other on one thread.
#include <troupe/sync.h>
#include <troupe/troupe.h>

#include <cstdio>

namespace boost::fibers {
struct context {
  static context* active() noexcept;
};
}  // namespace boost::fibers

class Meeting {
 public:
  int first() {
    open_.set();
    return 1;
  }
  int second() {
    open_.wait();
    return 2;
  }

 private:
  troupe::Event open_;
};

int driver() {
  auto meeting = troupe::actor<Meeting>.options({.max_concurrency = 2}).remote();
  auto second = meeting.call<&Meeting::second>();
  auto first = meeting.call<&Meeting::first>();
  std::printf("%d met\n", troupe::get(first) + troupe::get(second));
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1000) boost::fibers::context::active();  // the program uses its own, and so it is linked
  return troupe::run(argc, argv, &driver);
}
