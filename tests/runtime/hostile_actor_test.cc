// What a user who means no good, or is only unlucky, does with actors: ends them amid creation, calls and streams, by
// several hands at once. Every case ends with the right value or a typed error, leaves the actors that live usable, and
// hangs nowhere. The same for values, refs and streams: hostile_test.cc.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorDiedError, troupe::ActorHandle, troupe::Generator, troupe::Outcome, troupe::TaskError, troupe::actor,
    troupe::get, troupe::try_get;

namespace {

const troupe::Backoff kQuick{.initial = 2ms, .max = 10ms};

struct NoStandardError { int x = 7; };

class Hostile {
 public:
  Hostile() = default;
  explicit Hostile(std::string started, std::string gate) {
    rt::touch(started);
    rt::wait_for_file(gate);
  }
  int add(int x) { return sum_ += x; }
  int hold(std::string started, std::string gate) {
    rt::touch(started);
    rt::wait_for_file(gate);
    return 1;
  }
  int spin(std::string started) {
    rt::touch(started);
    for (volatile int i = 0;;) i = i + 1;
  }
  Generator<int> numbers(std::string crash, int n) {
    for (int i = 0; i < n; ++i) {
      if (i == 5 && !crash.empty() && rt::bump(crash) == 1) rt::crash();
      co_yield sum_ + i;
    }
  }
  int leave_amid(std::string gate) {
    rt::wait_for_file(gate);
    troupe::exit_actor();
    return 5;
  }
  int leave_and_throw() {
    troupe::exit_actor();
    throw NoStandardError{};
  }
  int asks_itself(ActorHandle<Hostile> self, int limit_ms) {
    auto r = try_get(self.call<&Hostile::add>(1), {.timeout = std::chrono::milliseconds(limit_ms)});
    return r.ok() ? 0 : int(r.error().code());
  }

 private:
  int sum_ = 0;
};

class BadState {  // its checkpoint throws at first; what it restores from a later one is refused
 public:
  int add(int x) { return sum_ += x; }
  int checkpoint() const {
    if (sum_ < 10) throw NoStandardError{};
    return sum_;
  }
  void restore(int sum) {
    if (sum > 100) throw std::runtime_error("too rich");
    sum_ = sum;
  }
  void crash() { rt::crash(); }

 private:
  int sum_ = 0;
};

/// Overwrites the positions of rings that it shares with others, as a stray pointer would.
class Wild {
 public:
  Wild() : at_first_(rings()) {}
  int rings_at_first() { return int(at_first_.size()); }
  int echo(int x) { return x; }
  /// From now on for good, of all rings but its daemon's. How many: none while calls go by the daemon.
  int spoil() {
    std::vector<char*> others;
    for (char* ring : rings())
      if (std::ranges::find(at_first_, ring) == at_first_.end()) others.push_back(ring);
    if (!others.empty())
      std::thread([others] {
        for (;;)  // until this process is ended, also by its writing to a ring that is no more
          for (char* ring : others)
            for (int position : {128, 256, 384, 512})  // tail and head of both directions (core/net/ring/ring.h)
              std::atomic_ref(*reinterpret_cast<std::uint64_t*>(ring + position)).store(std::uint64_t(1) << 62);
      }).detach();
    return int(others.size());
  }
  /// Calls `other` until an error tells that one of the two has ended.
  int call_until_the_end(ActorHandle<Wild> other) { return int(until_the_end(other)); }

  static troupe::ErrorCode until_the_end(ActorHandle<Wild>& other) {
    for (bool spoilt = false;;) {
      auto ref = spoilt ? other.call<&Wild::echo>(7) : other.call<&Wild::spoil>();
      auto r = try_get(ref, {.timeout = 20s});
      if (!r.ok()) return r.error().code();
      spoilt = spoilt || *r > 0;
    }
  }

 private:
  static std::vector<char*> rings() {
    std::vector<char*> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("memfd:troupe-pair") == std::string::npos || line.find(" rw-s ") == std::string::npos) continue;
      char* const at = reinterpret_cast<char*>(std::stoull(line, nullptr, 16));
      if (std::string_view(at, 8) == "TRPPAIR1") found.push_back(at);
    }
    return found;
  }
  std::vector<char*> at_first_;
};

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2, .object_store_memory = 64 << 20},
                  {
                      {"a stream that is open when its actor dies: an error, the end, and the next stream works; with "
                       "retries each item once",
                       [] {
                         rt::Folder dir;
                         auto a = actor<Hostile>.options({.max_restarts = -1, .restart_backoff = kQuick}).remote();
                         int good = 0, bad = 0;
                         for (auto& item : a.call<&Hostile::numbers>(dir / "a", 10)) {
                           auto r = try_get(item, {.timeout = 20s});
                           if (r.ok()) CHECK_EQ(*r, good++);
                           else if (++bad; CHECK(r.error().code() == troupe::ErrorCode::kActorDied))
                             CHECK(static_cast<const ActorDiedError&>(r.error()).outcome() == Outcome::kUnknown);
                         }
                         CHECK(good <= 5 && bad == 1);
                         good = 0;
                         for (auto& item : a.call<&Hostile::numbers>(std::string(), 10))
                           CHECK_EQ(get(item, {.timeout = 20s}), good++);
                         CHECK_EQ(good, 10);
                         auto b = actor<Hostile>.options({.max_restarts = -1, .restart_backoff = kQuick,
                             .max_task_retries = 3}).remote();
                         good = 0;
                         for (auto& item : b.call<&Hostile::numbers>(dir / "b", 200))
                           CHECK_EQ(get(item, {.timeout = 20s}), good++);
                         CHECK_EQ(good, 200);
                         CHECK_EQ(rt::count(dir / "b"), 2);
                       }},
                      {"DSP1: an actor that spoils the ring with its caller is ended, and the caller told",
                       [] {
                         auto a = actor<Wild>.remote();
                         CHECK_EQ(get(a.call<&Wild::rings_at_first>(), {.timeout = 20s}), 1);  // its daemon's
                         CHECK(Wild::until_the_end(a) == troupe::ErrorCode::kActorDied);
                       }},
                      {"DSP1: the same between two workers",
                       [] {
                         auto a = actor<Wild>.remote();
                         auto b = actor<Wild>.remote();
                         auto told = try_get(a.call<&Wild::call_until_the_end>(b), {.timeout = 40s});
                         CHECK((told.ok() ? troupe::ErrorCode(*told) : told.error().code()) ==
                               troupe::ErrorCode::kActorDied);
                       }},
                      {"kill while the constructor runs: ready and queued calls fail soon, the process goes",
                       [] {
                         rt::Folder dir;
                         for (auto isolation : {troupe::Isolation::kProcess, troupe::Isolation::kLight}) {
                           const std::string n = std::to_string(int(isolation));
                           auto a =
                               actor<Hostile>.options({.isolation = isolation}).remote(dir / ("s" + n), dir / "never");
                           auto queued = a.call<&Hostile::add>(1);
                           auto death = troupe::monitor(a);
                           CHECK(rt::eventually([&] { return rt::exists(dir / ("s" + n)); }));
                           troupe::kill(a);
                           CHECK_THROWS(ActorDiedError, get(a.ready(), {.timeout = 20s}));
                           auto e = CHECK_THROWS(ActorDiedError, get(queued, {.timeout = 20s}));
                           CHECK(e && e->outcome() == Outcome::kNotExecuted);
                           CHECK(get(death, {.timeout = 20s}).cause == troupe::DeathCause::kKilled);
                         }
                         for (int i = 0; i < 20; ++i) {  // at any point of its creation
                           auto a = actor<Hostile>.options({.max_restarts = 2}).remote();
                           auto first = a.call<&Hostile::add>(1);
                           if (i % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
                           troupe::kill(a);
                           auto r = try_get(first, {.timeout = 20s});
                           CHECK(r.ok() ? *r == 1 : r.error().code() == troupe::ErrorCode::kActorDied);
                           CHECK_THROWS(ActorDiedError, get(a.call<&Hostile::add>(1), {.timeout = 20s}));
                         }
                       }},
                      {"exit_actor amid open calls: those that run answer, also the one that leaves with an exception; "
                       "the queued fail",
                       [] {
                         rt::Folder dir;
                         auto a = actor<Hostile>.options({.max_restarts = 3, .max_concurrency = 3}).remote();
                         auto leaves = a.call<&Hostile::leave_amid>(dir / "go");
                         auto one = a.call<&Hostile::hold>(dir / "1", dir / "gate");
                         auto two = a.call<&Hostile::hold>(dir / "2", dir / "gate");
                         auto queued = a.call<&Hostile::add>(1);
                         CHECK(rt::eventually([&] { return rt::exists(dir / "1") && rt::exists(dir / "2"); }));
                         rt::touch(dir / "go");
                         CHECK_EQ(get(leaves, {.timeout = 20s}), 5);
                         CHECK_THROWS(ActorDiedError, get(queued, {.timeout = 20s}));
                         rt::touch(dir / "gate");
                         CHECK_EQ(get(one, {.timeout = 20s}) + get(two, {.timeout = 20s}), 2);
                         CHECK(get(troupe::monitor(a), {.timeout = 20s}).cause == troupe::DeathCause::kFinished);
                         auto b = actor<Hostile>.options({.max_restarts = 3}).remote();
                         CHECK_THROWS(TaskError, get(b.call<&Hostile::leave_and_throw>(), {.timeout = 20s}));
                         CHECK(get(troupe::monitor(b), {.timeout = 20s}).cause == troupe::DeathCause::kFinished);
                       }},
                      {"a method that never returns: stop waits for it, later calls fail, kill ends it",
                       [] {
                         rt::Folder dir;
                         auto a = actor<Hostile>.options({.max_restarts = 3}).remote();
                         auto spins = a.call<&Hostile::spin>(dir / "s");
                         auto death = troupe::monitor(a);
                         CHECK(rt::eventually([&] { return rt::exists(dir / "s"); }));
                         troupe::stop(a);
                         auto late_call = a.call<&Hostile::add>(1);
                         CHECK_THROWS(ActorDiedError, get(late_call, {.timeout = 20s}));
                         CHECK_THROWS(troupe::GetTimeoutError, get(death, {.timeout = 200ms}));
                         troupe::kill(a);
                         CHECK_THROWS(ActorDiedError, get(spins, {.timeout = 20s}));
                         CHECK(get(death, {.timeout = 20s}).cause == troupe::DeathCause::kKilled);
                       }},
                      {"an actor that waits for itself times out, and goes on",
                       [] {
                         auto a = actor<Hostile>.remote();
                         CHECK_EQ(get(a.call<&Hostile::asks_itself>(a, 200), {.timeout = 20s}),
                                  int(troupe::ErrorCode::kGetTimeout));
                         CHECK(get(a.call<&Hostile::add>(1), {.timeout = 20s}) >= 1);
                         auto b = actor<Hostile>.options({.max_concurrency = 2}).remote();
                         CHECK_EQ(get(b.call<&Hostile::asks_itself>(b, 20000), {.timeout = 30s}), 0);
                       }},
                      {"checkpoints that throw are skipped; a restore that throws fails the actor with its error",
                       [] {
                         auto a = actor<BadState>.options({.max_restarts = -1, .restart_backoff = kQuick,
                             .checkpoint_every = 1ns}).remote();
                         CHECK_EQ(get(a.call<&BadState::add>(5)), 5);
                         CHECK_EQ(get(a.call<&BadState::add>(20)), 25);
                         std::this_thread::sleep_for(200ms);
                         CHECK(!try_get(a.call<&BadState::crash>(), {.timeout = 20s}).ok());
                         CHECK(rt::eventually([&] {
                           auto r = try_get(a.call<&BadState::add>(0), {.timeout = 20s});
                           return r.ok() && *r == 25;
                         }));
                         CHECK_EQ(get(a.call<&BadState::add>(100)), 125);
                         std::this_thread::sleep_for(200ms);
                         auto death = troupe::monitor(a);
                         CHECK(!try_get(a.call<&BadState::crash>(), {.timeout = 20s}).ok());
                         auto told = get(death, {.timeout = 20s});
                         CHECK(told.cause == troupe::DeathCause::kConstructorFailed &&
                               told.message.find("too rich") != std::string::npos);
                         CHECK(!try_get(a.call<&BadState::add>(0), {.timeout = 20s}).ok());
                       }},
                      {"a get_if_exists, a stop, a kill and calls from many threads at once",
                       [] {
                         for (int round = 0; round < 5; ++round) {
                           const std::string name = "shared" + std::to_string(round);
                           std::vector<std::future<int>> threads;
                           for (int t = 0; t < 6; ++t)
                             threads.push_back(std::async(std::launch::async, [t, name] {
                               int wrong = 0;
                               for (int i = 0; i < 15; ++i) {
                                 auto a = actor<Hostile>.options({.name = name, .get_if_exists = true}).remote();
                                 auto r = try_get(a.call<&Hostile::add>(1), {.timeout = 30s});
                                 if (!r.ok() && r.error().code() != troupe::ErrorCode::kActorDied) {
                                   std::fprintf(stderr, "  %s: %s\n", troupe::error_name(r.error().code()),
                                                r.error().what());
                                   ++wrong;
                                 }
                                 if (t == 0 && i % 4 == 1) troupe::kill(a);
                                 if (t == 1 && i % 5 == 2) troupe::stop(a);
                               }
                               return wrong;
                             }));
                           for (auto& t : threads) CHECK_EQ(t.get(), 0);
                         }
                       }},
                  });
}
