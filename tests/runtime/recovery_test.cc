// What a submitter promises when its calls wait, fail or hang: nested waits above the limit of suspended workers,
// deadlines that the caller keeps, predicates that use the runtime, names that somebody else takes.
#include <signal.h>

#include "check.h"

using namespace std::chrono_literals;
using troupe::actor, troupe::get, troupe::task;

namespace {

int depth(int n) { return n == 0 ? 0 : 1 + get(task<&depth>.remote(n - 1)); }

int three() { return 3; }

/// A tree: each waits for two, so that many wait and several could run at any time.
int leaves(int n) {
  if (n == 0) return 1;
  auto left = task<&leaves>.remote(n - 1), right = task<&leaves>.remote(n - 1);
  return get(left) + get(right);
}

/// Stops its own process, as a debugger or a frozen machine would.
int stopped(const std::string& file) {
  rt::touch(file);
  ::raise(SIGSTOP);
  return 1;
}

int fails_once(const std::string& file) {
  if (std::filesystem::exists(file)) return 7;
  rt::touch(file);
  throw std::runtime_error("not yet");
}

int slow_number(const std::string& file) {
  while (!std::filesystem::exists(file)) troupe::sleep_for(2ms);
  return 40;
}

class Named {
 public:
  explicit Named(int start) : value_(start) {}
  int value() { return value_; }

 private:
  int value_;
};

const std::vector<rt::Promise>& promises() {
  static const std::vector<rt::Promise> list = {
    {"recursion goes deeper than max_suspended_workers", [] {
      CHECK_EQ(get(task<&depth>.remote(24), {.timeout = 60s}), 24);
      CHECK_EQ(get(task<&three>.remote(), {.timeout = 30s}), 3);  // later work ends too
    }},
    {"a tree of waits above max_suspended_workers ends", [] {
      CHECK_EQ(get(task<&leaves>.remote(5), {.timeout = 60s}), 32);
    }},
    {"a task whose worker is stopped ends at its timeout, and its worker is killed", [] {
      rt::Folder folder;
      auto held = task<&stopped>.options({.retry = {.max_retries = 0}, .timeout = 3s}).remote(folder / "began");
      CHECK_THROWS(troupe::DeadlineExceededError, get(held, {.timeout = 30s}));
      CHECK(std::filesystem::exists(folder / "began"));
      auto after = task<&three>.options({.resources = {.cpus = 2}}).remote();  // all CPUs: the lease came back
      CHECK_EQ(get(after, {.timeout = 30s}), 3);
    }},
    {"a predicate on errors may use the runtime", [] {
      rt::Folder folder;
      auto uses_store = [](const troupe::TaskError&) { return get(troupe::put(5)) == 5; };
      auto tried =
          task<&fails_once>.options({.retry = {.max_retries = 2, .retry_error = uses_store}}).remote(folder / "once");
      CHECK_EQ(get(tried, {.timeout = 30s}), 7);
    }},
    {"get_if_exists with an argument that is still made gives the actor that has the name then", [] {
      rt::Folder folder;
      auto number = task<&slow_number>.remote(folder / "go");
      std::optional<troupe::ActorHandle<Named>> found;
      std::thread asker([&] { found = actor<Named>.options({.name = "taken", .get_if_exists = true}).remote(number); });
      auto other = actor<Named>.options({.name = "taken"}).remote(7);
      CHECK_EQ(get(other.call<&Named::value>()), 7);
      rt::touch(folder / "go");
      asker.join();
      CHECK_EQ(get(found->call<&Named::value>(), {.timeout = 30s}), 7);
    }},
  };
  return list;
}

}  // namespace

int main(int argc, char** argv) { return rt::main(argc, argv, {.cpus = 2, .max_suspended_workers = 4}, promises()); }
