// Actors that die: restarts and their window, retried calls in order, checkpoints, idempotency keys, monitors, names.
#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorDiedError, troupe::ActorHandle, troupe::ActorOptions, troupe::DeathCause, troupe::ObjectRef,
    troupe::Outcome, troupe::actor, troupe::get, troupe::task;

namespace {

const troupe::Backoff kQuick{.initial = 5ms, .max = 20ms};

class Account {
 public:
  explicit Account(std::string runs = {}) : runs_(std::move(runs)) {}
  struct State { int balance = 0; std::vector<int> history; };
  State checkpoint() const { return {balance_, history_}; }
  void restore(State s) { balance_ = s.balance; history_ = std::move(s.history); }
  int add(int x) {
    if (!runs_.empty()) rt::bump(runs_);
    history_.push_back(x);
    return balance_ += x;
  }
  std::string text(std::string t) {
    if (!runs_.empty()) rt::bump(runs_);
    return t + "!";
  }
  troupe::Array<int> array(int n) {
    if (!runs_.empty()) rt::bump(runs_);
    troupe::ArrayBuilder<int> b(n);
    for (int i = 0; i < n; ++i) b[i] = i;
    return std::move(b).seal();
  }
  int fails_first(std::string marker) {
    if (rt::bump(marker) == 1) throw std::runtime_error("first");
    return 2;
  }
  int slow(std::string started, std::string gate) {
    if (!runs_.empty()) rt::bump(runs_);
    rt::touch(started);
    rt::wait_for_file(gate);
    return 3;
  }
  int balance() const { return balance_; }
  int die() { rt::crash(); }
  int leave() { troupe::exit_actor(); return 5; }
  int exit_code(int code) { ::_exit(code); }
  int segfault() { ::raise(SIGSEGV); return 0; }
  int attempt() { return troupe::runtime_context().attempt; }
  int pid() { return ::getpid(); }
  int log(std::string file, int x) {
    std::ofstream(file, std::ios::app) << x << ' ';
    return x;
  }
  int crash_until(std::string runs, int good) {
    const int run = rt::bump(runs);
    if (run < good) rt::crash();
    return run;
  }

 private:
  std::string runs_;
  int balance_ = 0;
  std::vector<int> history_;
};
class BadConstructor {
 public:
  explicit BadConstructor(std::string why) { throw std::invalid_argument(why); }
  int ping() { return 1; }
};
class CrashingConstructor {
 public:
  explicit CrashingConstructor(std::string runs, int good) { if (rt::bump(runs) < good) rt::crash(); }
  int ping() { return 1; }
};

template <class F> auto answer(F call) {
  for (const double end = rt::now() + 30;; std::this_thread::sleep_for(5ms)) {
    try { return get(call(), {.timeout = 30s}); }
    catch (const troupe::ActorUnavailableError&) { if (rt::now() > end) throw; }
    catch (const ActorDiedError& e) { if (e.outcome() != Outcome::kUnknown || rt::now() > end) throw; }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2}, {
    {"a crash without restarts: the call under way may have run, those behind it did not, later ones neither", [] {
      auto a = actor<Account>.remote();
      auto monitor = troupe::monitor(a);
      CHECK_EQ(get(a.call<&Account::add>(1)), 1);
      auto hit = a.call<&Account::die>();
      std::vector<ObjectRef<int>> behind;
      for (int i = 0; i < 50; ++i) behind.push_back(a.call<&Account::add>(1));
      auto error = CHECK_THROWS(ActorDiedError, get(hit, {.timeout = 20s}));
      CHECK(error && error->outcome() == Outcome::kUnknown);
      CHECK(error && (error->message().find("signal") != std::string::npos ||
                      error->message().find("SIG") != std::string::npos ||
                      error->message().find("Killed") != std::string::npos));
      for (auto& ref : behind) {
        auto e = CHECK_THROWS(ActorDiedError, get(ref, {.timeout = 20s}));
        CHECK(e && e->outcome() == Outcome::kNotExecuted);
      }
      auto late = CHECK_THROWS(ActorDiedError, get(a.call<&Account::add>(1), {.timeout = 20s}));
      CHECK(late && late->outcome() == Outcome::kNotExecuted);
      auto death = get(monitor, {.timeout = 20s});
      CHECK(death.cause == DeathCause::kCrashed && death.restarts == 0 && death.pid > 0);
      CHECK(get(troupe::monitor(a), {.timeout = 20s}).cause == DeathCause::kCrashed);
    }},
    {"exit codes and signals are in the message", [] {
      auto a = actor<Account>.remote(), b = actor<Account>.remote();
      auto exits = CHECK_THROWS(ActorDiedError, get(a.call<&Account::exit_code>(37), {.timeout = 20s}));
      CHECK(exits && exits->message().find("37") != std::string::npos);
      auto segv = CHECK_THROWS(ActorDiedError, get(b.call<&Account::segfault>(), {.timeout = 20s}));
      CHECK(segv && (segv->message().find("SEGV") != std::string::npos ||
                     segv->message().find("Segmentation") != std::string::npos));
    }},
    {"more deaths than max_restarts within the window: dead for good; spread over time: it goes on", [] {
      auto a = actor<Account>.options({.max_restarts = 2, .restart_window = 60s, .restart_backoff = kQuick}).remote();
      auto death = troupe::monitor(a);
      for (int i = 0; i < 3; ++i) {
        CHECK_EQ(answer([&] { return a.call<&Account::attempt>(); }), i);
        CHECK_THROWS(ActorDiedError, get(a.call<&Account::die>(), {.timeout = 20s}));
      }
      CHECK(get(death, {.timeout = 20s}).restarts == 2);
      CHECK_THROWS(ActorDiedError, get(a.call<&Account::attempt>(), {.timeout = 20s}));
      auto b = actor<Account>.options({.max_restarts = 1, .restart_window = 200ms, .restart_backoff = kQuick}).remote();
      for (int i = 0; i < 4; ++i) {
        CHECK_EQ(answer([&] { return b.call<&Account::attempt>(); }), i);
        std::this_thread::sleep_for(300ms);
        CHECK_THROWS(ActorDiedError, get(b.call<&Account::die>(), {.timeout = 20s}));
      }
      CHECK_EQ(answer([&] { return b.call<&Account::attempt>(); }), 4);
    }},
    {"calls with retries run again, in order, without loss and without overtaking", [] {
      rt::Folder dir;
      auto a = actor<Account>.options({.max_restarts = -1, .restart_backoff = kQuick, .max_task_retries = -1}).remote();
      std::vector<ObjectRef<int>> refs;
      for (int i = 0; i < 100; ++i) {
        refs.push_back(a.call<&Account::log>(dir / "log", i));
        if (i % 25 == 24) refs.push_back(a.call<&Account::crash_until>(dir / ("runs" + std::to_string(i)), 2));
      }
      for (auto& ref : refs) get(ref, {.timeout = 30s});
      std::ifstream in(dir / "log");
      int x = 0, expected = 0;
      while (in >> x) {
        CHECK(x <= expected);
        if (x == expected) ++expected;
      }
      CHECK_EQ(expected, 100);
      CHECK_EQ(get(a.call<&Account::attempt>()), 4);
    }},
    {"a call's own max_retries counts", [] {
      rt::Folder dir;
      auto a = actor<Account>.options({.max_restarts = -1, .restart_backoff = kQuick}).remote();
      CHECK_EQ(get(a.options({.max_retries = 5}).call<&Account::crash_until>(dir / "five", 4), {.timeout = 30s}), 4);
      CHECK_THROWS(ActorDiedError,
                   get(a.options({.max_retries = 2}).call<&Account::crash_until>(dir / "two", 10), {.timeout = 30s}));
      CHECK_EQ(rt::count(dir / "two"), 3);
      CHECK_THROWS(ActorDiedError, get(a.call<&Account::crash_until>(dir / "none", 2), {.timeout = 30s}));
      CHECK_EQ(rt::count(dir / "none"), 1);
    }},
    {"state and answered keys come back with the checkpoint", [] {
      rt::Folder dir;
      auto a = actor<Account>.options({.max_restarts = -1, .restart_backoff = kQuick, .checkpoint_every = 1ns})
          .remote(dir / "runs");
      for (int i = 1; i <= 20; ++i)
        CHECK_EQ(get(a.options({.idempotency_key = "k" + std::to_string(i)}).call<&Account::add>(i)), i * (i + 1) / 2);
      CHECK_EQ(get(a.options({.idempotency_key = "t"}).call<&Account::text>(std::string("x"))), "x!");
      std::this_thread::sleep_for(300ms);
      CHECK_THROWS(ActorDiedError, get(a.call<&Account::die>(), {.timeout = 20s}));
      CHECK_EQ(answer([&] { return a.call<&Account::balance>(); }), 210);
      const int before = rt::count(dir / "runs");
      for (int i = 1; i <= 20; ++i)
        CHECK_EQ(get(a.options({.idempotency_key = "k" + std::to_string(i)}).call<&Account::add>(i), {.timeout = 20s}),
                 i * (i + 1) / 2);
      CHECK_EQ(get(a.options({.idempotency_key = "t"}).call<&Account::text>(std::string("y")), {.timeout = 20s}), "x!");
      CHECK_EQ(rt::count(dir / "runs"), before);
      CHECK_EQ(get(a.call<&Account::balance>()), 210);
    }},
    {"without checkpoint_every there are none, hooks or not", [] {
      auto a = actor<Account>.options({.max_restarts = 1, .restart_backoff = kQuick}).remote();
      get(a.call<&Account::add>(5));
      CHECK_THROWS(ActorDiedError, get(a.call<&Account::die>(), {.timeout = 20s}));
      CHECK_EQ(answer([&] { return a.call<&Account::balance>(); }), 0);
    }},
    {"a key is executed once, also when asked many times at once, and arrays are kept too", [] {
      rt::Folder dir;
      auto a = actor<Account>.options({.max_concurrency = 8}).remote(dir / "runs");
      std::vector<ObjectRef<int>> refs;
      for (int i = 0; i < 8; ++i)
        refs.push_back(a.options({.idempotency_key = "slow"}).call<&Account::slow>(dir / "started", dir / "gate"));
      CHECK(rt::eventually([&] { return rt::exists(dir / "started"); }));
      rt::touch(dir / "gate");
      for (auto& ref : refs) CHECK_EQ(get(ref, {.timeout = 20s}), 3);
      CHECK_EQ(rt::count(dir / "runs"), 1);
      for (int i = 0; i < 3; ++i)
        CHECK_EQ(get(a.options({.idempotency_key = "array"}).call<&Account::array>(100000))[99999], 99999);
      CHECK_EQ(rt::count(dir / "runs"), 2);
    }},
    {"a key whose call failed or was cancelled is free again", [] {
      rt::Folder dir;
      auto a = actor<Account>.remote(dir / "runs");
      CHECK_THROWS(troupe::TaskError,
                   get(a.options({.idempotency_key = "f"}).call<&Account::fails_first>(dir / "m"), {.timeout = 20s}));
      CHECK_EQ(get(a.options({.idempotency_key = "f"}).call<&Account::fails_first>(dir / "m"), {.timeout = 20s}), 2);
      auto busy = a.call<&Account::slow>(dir / "busy", dir / "open");
      CHECK(rt::eventually([&] { return rt::exists(dir / "busy"); }));
      auto queued = a.options({.idempotency_key = "q"}).call<&Account::add>(1);
      auto same = a.options({.idempotency_key = "q"}).call<&Account::add>(1);
      std::this_thread::sleep_for(50ms);
      troupe::cancel(queued);
      CHECK_THROWS(troupe::CancelledError, get(queued, {.timeout = 20s}));
      rt::touch(dir / "open");
      CHECK_EQ(get(same, {.timeout = 20s}), 1);
      CHECK_EQ(get(a.options({.idempotency_key = "q"}).call<&Account::add>(1), {.timeout = 20s}), 1);
      CHECK_EQ(get(busy), 3);
    }},
    {"a key that waits for a running call dies with the actor, not later", [] {
      rt::Folder dir;
      for (auto isolation : {troupe::Isolation::kProcess, troupe::Isolation::kLight}) {
        auto a = actor<Account>.options({.max_concurrency = 4, .isolation = isolation}).remote();
        const std::string n = std::to_string(int(isolation));
        auto x = a.options({.idempotency_key = "k"}).call<&Account::slow>(dir / ("s" + n), dir / "never");
        CHECK(rt::eventually([&] { return rt::exists(dir / ("s" + n)); }));
        auto y = a.options({.idempotency_key = "k"}).call<&Account::slow>(dir / ("s" + n), dir / "never");
        std::this_thread::sleep_for(20ms);
        troupe::kill(a);
        CHECK_THROWS(ActorDiedError, get(x, {.timeout = 20s}));
        CHECK_THROWS(ActorDiedError, get(y, {.timeout = 20s}));
      }
    }},
    {"task keys: once per job, failures do not count", [] {
      rt::Folder dir;
      auto once = [&] { return task<&rt::bump>.options({.idempotency_key = "once"}).remote(dir / "n"); };
      auto a = once(), b = once();
      CHECK_EQ(get(a), 1);
      CHECK_EQ(get(b), 1);
      CHECK_EQ(get(once()), 1);
      auto flaky = [&] {
        return troupe::submit(
            {.idempotency_key = "flaky"},
            [](std::string f) {
              if (rt::bump(f) == 1) throw std::runtime_error("x");
              return 9;
            },
            dir / "f");
      };
      CHECK_THROWS(troupe::TaskError, get(flaky()));
      CHECK_EQ(get(flaky()), 9);
    }},
    {"kill: at once, queued calls fail; with restart it counts as a crash", [] {
      rt::Folder dir;
      auto a = actor<Account>.options({.max_restarts = 1, .restart_backoff = kQuick}).remote();
      auto busy = a.call<&Account::slow>(dir / "busy", dir / "never");
      CHECK(rt::eventually([&] { return rt::exists(dir / "busy"); }));
      const int pid = std::stoi(std::to_string(0)) + 0;
      (void)pid;
      troupe::kill(a, {.restart = true});
      CHECK_THROWS(ActorDiedError, get(busy, {.timeout = 20s}));
      CHECK_EQ(answer([&] { return a.call<&Account::attempt>(); }), 1);
      auto death = troupe::monitor(a);
      auto more = a.call<&Account::slow>(dir / "busy2", dir / "never");
      auto queued = a.call<&Account::add>(1);
      CHECK(rt::eventually([&] { return rt::exists(dir / "busy2"); }));
      troupe::kill(a);
      CHECK_THROWS(ActorDiedError, get(more, {.timeout = 20s}));
      auto e = CHECK_THROWS(ActorDiedError, get(queued, {.timeout = 20s}));
      CHECK(e && e->outcome() == Outcome::kNotExecuted);
      CHECK(get(death, {.timeout = 20s}).cause == DeathCause::kKilled);
      troupe::kill(a);
      troupe::stop(a);
    }},
    {"a light actor that is killed to be restarted goes on at once, with a call in flight", [] {
      rt::Folder dir;
      auto a = actor<Account>
                   .options({.max_restarts = 1, .restart_backoff = kQuick, .isolation = troupe::Isolation::kLight})
                   .remote();
      auto busy = a.call<&Account::slow>(dir / "busy", dir / "never");
      std::vector<ObjectRef<int>> behind;
      for (int i = 0; i < 100; ++i) behind.push_back(a.call<&Account::add>(1));
      CHECK(rt::eventually([&] { return rt::exists(dir / "busy"); }));
      troupe::kill(a, {.restart = true});
      auto e = CHECK_THROWS(ActorDiedError, get(busy, {.timeout = 20s}));
      CHECK(e && e->outcome() == Outcome::kUnknown);
      for (int i = 0; i < 100; ++i) CHECK_EQ(get(behind[i], {.timeout = 20s}), i + 1);  // the next life's, in order
      CHECK_EQ(answer([&] { return a.call<&Account::attempt>(); }), 1);
      busy = a.call<&Account::slow>(dir / "busy2", dir / "never");
      auto last = a.call<&Account::add>(1);
      CHECK(rt::eventually([&] { return rt::exists(dir / "busy2"); }));
      troupe::kill(a);  // and now for good
      CHECK_THROWS(ActorDiedError, get(busy, {.timeout = 20s}));
      e = CHECK_THROWS(ActorDiedError, get(last, {.timeout = 20s}));
      CHECK(e && e->outcome() == Outcome::kNotExecuted);
    }},
    {"stop: what was called before is done, what comes later is not; the cause is kFinished", [] {
      auto a = actor<Account>.options({.max_restarts = 3}).remote();
      std::vector<ObjectRef<int>> refs;
      for (int i = 0; i < 100; ++i) refs.push_back(a.call<&Account::add>(1));
      auto death = troupe::monitor(a);
      troupe::stop(a);
      auto late = a.call<&Account::add>(1);
      for (int i = 0; i < 100; ++i) CHECK_EQ(get(refs[i], {.timeout = 20s}), i + 1);
      CHECK_THROWS(ActorDiedError, get(late, {.timeout = 20s}));
      CHECK(get(death, {.timeout = 20s}).cause == DeathCause::kFinished);
      troupe::stop(a);
      CHECK_THROWS(ActorDiedError, get(a.call<&Account::add>(1), {.timeout = 20s}));
    }},
    {"exit_actor: the running call answers, queued ones fail, no restart", [] {
      auto a = actor<Account>.options({.max_restarts = 3}).remote();
      auto leaving = a.call<&Account::leave>();
      auto queued = a.call<&Account::add>(1);
      CHECK_EQ(get(leaving, {.timeout = 20s}), 5);
      CHECK_THROWS(ActorDiedError, get(queued, {.timeout = 20s}));
      CHECK(get(troupe::monitor(a), {.timeout = 20s}).cause == DeathCause::kFinished);
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::exit_actor());
      CHECK_THROWS(troupe::InvalidArgumentError, get(troupe::submit([] { troupe::exit_actor(); })));
    }},
    {"constructor errors come out of ready, of every call, and of the monitor", [] {
      // The third is a light actor that this process makes in its host directly.
      for (const ActorOptions& options : {ActorOptions{.restart_backoff = kQuick},
                                          ActorOptions{.max_restarts = 2, .restart_backoff = kQuick},
                                          ActorOptions{.isolation = troupe::Isolation::kLight},
                                          ActorOptions{.max_restarts = 2, .isolation = troupe::Isolation::kLight}}) {
        auto a = actor<BadConstructor>.options(options).remote(std::string("because"));
        auto early = a.call<&BadConstructor::ping>();
        auto death = troupe::monitor(a);
        auto error = CHECK_THROWS(troupe::TaskError, get(a.ready(), {.timeout = 20s}));
        CHECK(error && error->is<std::invalid_argument>() && error->message() == "because");
        CHECK_THROWS(troupe::TaskError, get(early, {.timeout = 20s}));
        CHECK_THROWS(troupe::TaskError, get(a.call<&BadConstructor::ping>(), {.timeout = 20s}));
        CHECK(get(death, {.timeout = 20s}).cause == DeathCause::kConstructorFailed);
      }
    }},
    {"a constructor that crashes is restarted like any crash", [] {
      rt::Folder dir;
      auto a =
          actor<CrashingConstructor>.options({.max_restarts = 3, .restart_backoff = kQuick}).remote(dir / "runs", 3);
      CHECK_EQ(answer([&] { return a.call<&CrashingConstructor::ping>(); }), 1);
      auto b =
          actor<CrashingConstructor>.options({.max_restarts = 1, .restart_backoff = kQuick}).remote(dir / "never", 100);
      CHECK_THROWS(ActorDiedError, get(b.ready(), {.timeout = 20s}));
    }},
    {"a constructor's failed argument is its error", [] {
      auto bad = troupe::submit([]() -> std::string { throw std::out_of_range("no argument"); });
      auto a = actor<Account>.remote(bad);
      auto error = CHECK_THROWS(troupe::TaskError, get(a.ready(), {.timeout = 20s}));
      CHECK(error && error->message() == "no argument");
      CHECK_THROWS(troupe::TaskError, get(a.call<&Account::add>(1), {.timeout = 20s}));
    }},
    {"restarts go on while handles are elsewhere, and names stay", [] {
      auto a = actor<Account>.options({.name = "phoenix", .max_restarts = -1, .restart_backoff = kQuick}).remote();
      get(a.ready());
      for (int i = 0; i < 5; ++i) {
        const int pid = answer([&] { return troupe::get_actor<Account>("phoenix").call<&Account::pid>(); });
        ::kill(pid, SIGKILL);
        CHECK(rt::eventually([&] { return answer([&] { return a.call<&Account::pid>(); }) != pid; }));
      }
      CHECK_EQ(answer([&] { return a.call<&Account::attempt>(); }), 5);
      troupe::kill(a);
      CHECK(rt::eventually([] { return !troupe::try_get_actor<Account>("phoenix").ok(); }));
      CHECK_THROWS(troupe::ActorNotFoundError, troupe::get_actor<Account>("phoenix"));
      auto again = actor<Account>.options({.name = "phoenix"}).remote();
      get(again.ready(), {.timeout = 20s});
    }},
  });
}
