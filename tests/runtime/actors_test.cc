// Actors: order and out of order, concurrency groups, threads, names and namespaces, pending limits, call deadlines and
// cancelling, casts, light actors, handles and bad input.
#include <cmath>
#include <future>
#include <limits>
#include <map>
#include <set>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorDiedError, troupe::ActorHandle, troupe::ActorOptions, troupe::InvalidArgumentError,
    troupe::ObjectRef, troupe::actor, troupe::get, troupe::task;

namespace {

class Log {
 public:
  int add(int x) {
    seen_.push_back(x);
    return int(seen_.size());
  }
  std::vector<int> seen() const { return seen_; }
  int hold(std::string started, std::string gate) {
    rt::touch(started);
    rt::wait_for_file(gate);
    return 1;
  }
  std::string how_interrupted(std::string started, std::string told) {
    rt::touch(started);
    try {
      troupe::sleep_for(1h);
    } catch (const troupe::Error& e) {
      rt::write(told, troupe::error_name(e.code()));
      throw;
    }
    return "no";
  }
  /// Goes on when it is interrupted once.
  int waits_twice(std::string started, std::string interrupted, std::string ended) {
    rt::touch(started);
    try { troupe::sleep_for(1h); }
    catch (const troupe::CancelledError&) { rt::touch(interrupted); }
    try { troupe::sleep_for(1h); }
    catch (const troupe::Error& e) { rt::write(ended, troupe::error_name(e.code())); }
    return 1;
  }
  int spin(std::string started, std::string gate) {
    rt::touch(started);
    while (!rt::exists(gate)) {}
    return 1;
  }
  int boom(std::string marker) {
    rt::touch(marker);
    throw std::runtime_error("in a cast");
  }
  int together() {
    const int now = ++inside_;
    troupe::sleep_for(5ms);
    --inside_;
    return now;
  }
  /// Goes on once there have been as many in it at once, and a moment later, for one more to come in if it can.
  int fibers_together(int wanted) {
    const int now = ++inside_;
    most_ = std::max<int>(most_, now);
    while (most_ < wanted) troupe::sleep_for(1ms);
    troupe::sleep_for(5ms);
    --inside_;
    return now;
  }
  int threads_together(int wanted) {
    const int now = ++inside_;
    for (int most = most_; most < now && !most_.compare_exchange_weak(most, now);) {}
    while (most_ < wanted) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
    --inside_;
    return now;
  }
  ActorHandle<Log> child() { return actor<Log>.remote(); }
  int pid() { return ::getpid(); }

 private:
  std::vector<int> seen_;
  std::atomic<int> inside_{0}, most_{0};
};

/// Another class than Log, and the only one who holds what it makes.
class Maker {
 public:
  int make(std::string name) {
    made_ = actor<Log>.options({.name = name}).remote();
    return get(made_->call<&Log::add>(1));
  }

 private:
  std::optional<ActorHandle<Log>> made_;
};

int late(std::string gate, int x) {
  rt::wait_for_file(gate);
  return x;
}
int fails(int) { throw std::runtime_error("no"); }
int named_pid(std::string name) {
  auto a = actor<Log>.options({.name = name, .get_if_exists = true}).remote();
  return get(a.call<&Log::pid>());
}
int call_many(ActorHandle<Log> log, int from, int n) {
  for (int i = 0; i < n; ++i) log.cast<&Log::add>(from + i);
  return get(log.call<&Log::add>(from + n));
}

void end_it(const ActorHandle<Log>& actor) { troupe::kill(actor); }

/// Made of an argument.
class Given {
 public:
  explicit Given(int value) : value_(value) {}
  int value() { return value_; }

 private:
  int value_;
};
int value_of(ActorHandle<Given> given) { return get(given.call<&Given::value>()); }

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2}, {
    {"calls and casts of one caller run in order, also when arguments come late or fail", [] {
      rt::Folder dir;
      auto a = actor<Log>.remote();
      std::vector<ObjectRef<int>> refs;
      refs.push_back(a.call<&Log::add>(0));
      refs.push_back(a.call<&Log::add>(task<&late>.remote(dir / "gate", 1)));
      a.cast<&Log::add>(2);
      auto bad = a.call<&Log::add>(task<&fails>.remote(1));
      refs.push_back(a.call<&Log::add>(3));
      CHECK_THROWS(troupe::GetTimeoutError, get(refs.back(), {.timeout = 100ms}));
      rt::touch(dir / "gate");
      CHECK_EQ(get(refs.back(), {.timeout = 30s}), 4);
      CHECK_THROWS(troupe::TaskError, get(bad, {.timeout = 30s}));
      CHECK(get(a.call<&Log::seen>()) == std::vector<int>({0, 1, 2, 3}));
    }},
    {"each of many callers keeps its order", [] {
      auto a = actor<Log>.remote();
      std::vector<ObjectRef<int>> done;
      for (int t = 0; t < 4; ++t) done.push_back(task<&call_many>.remote(a, 1000 * (t + 1), 200));
      std::vector<std::future<void>> threads;
      for (int t = 4; t < 7; ++t)
        threads.push_back(std::async(std::launch::async, [t, a] {
          for (int i = 0; i <= 200; ++i) get(a.call<&Log::add>(1000 * (t + 1) + i));
        }));
      for (auto& ref : done) get(ref, {.timeout = 60s});
      for (auto& t : threads) t.get();
      auto seen = get(a.call<&Log::seen>());
      CHECK_EQ(seen.size(), 7 * 201);
      std::map<int, int> next;
      for (int x : seen) CHECK_EQ(x % 1000, next[x / 1000]++);
    }},
    {"out_of_order: a call that is ready passes one that is not", [] {
      rt::Folder dir;
      auto a = actor<Log>.options({.out_of_order = true}).remote();
      auto slow = a.call<&Log::add>(task<&late>.remote(dir / "gate", 1));
      CHECK_EQ(get(a.call<&Log::add>(2), {.timeout = 30s}), 1);
      rt::touch(dir / "gate");
      CHECK_EQ(get(slow, {.timeout = 30s}), 2);
    }},
    {"limits of fibers, groups and threads hold, and a full group holds back no other", [] {
      rt::Folder dir;
      auto most = [](auto& refs) {
        int m = 0;
        for (auto& ref : refs) m = std::max(m, get(ref, {.timeout = 60s}));
        return m;
      };
      auto fibers = actor<Log>.options({.max_concurrency = 4}).remote();
      std::vector<ObjectRef<int>> refs;
      for (int i = 0; i < 40; ++i) refs.push_back(fibers.call<&Log::fibers_together>(4));
      CHECK_EQ(most(refs), 4);
      auto threads = actor<Log>.options({.threads = 3}).remote();
      refs.clear();
      for (int i = 0; i < 30; ++i) refs.push_back(threads.call<&Log::threads_together>(3));
      CHECK_EQ(most(refs), 3);
      auto groups = actor<Log>.options({.concurrency_groups = {{"io", 2}}}).remote();
      auto a = groups.options({.concurrency_group = "io"}).call<&Log::hold>(dir / "a", dir / "gate");
      auto b = groups.options({.concurrency_group = "io"}).call<&Log::hold>(dir / "b", dir / "gate");
      auto c = groups.options({.concurrency_group = "io"}).call<&Log::hold>(dir / "c", dir / "gate");
      CHECK(rt::eventually([&] { return rt::exists(dir / "a") && rt::exists(dir / "b"); }));
      CHECK_EQ(get(groups.call<&Log::add>(1), {.timeout = 30s}), 1);
      CHECK(!rt::exists(dir / "c"));
      rt::touch(dir / "gate");
      CHECK_EQ(get(a) + get(b) + get(c), 3);
      CHECK_THROWS(InvalidArgumentError,
                   get(groups.options({.concurrency_group = "nope"}).call<&Log::add>(1), {.timeout = 30s}));
      CHECK_EQ(get(groups.call<&Log::add>(1), {.timeout = 30s}), 2);
    }},
    {"a method that blocks its thread stops no other, with threads", [] {
      rt::Folder dir;
      auto a = actor<Log>.options({.threads = 2}).remote();
      auto blocks = a.call<&Log::spin>(dir / "s", dir / "gate");
      CHECK(rt::eventually([&] { return rt::exists(dir / "s"); }));
      for (int i = 0; i < 20; ++i) get(a.call<&Log::together>(), {.timeout = 30s});
      rt::touch(dir / "gate");
      CHECK_EQ(get(blocks), 1);
    }},
    {"a method that blocks its thread stops no other, with threads of fibers", [] {
      rt::Folder dir;
      auto a = actor<Log>.options({.max_concurrency = 4, .threads = 2}).remote();
      auto spinning = a.call<&Log::spin>(dir / "started", dir / "gate");
      CHECK(rt::eventually([&] { return rt::exists(dir / "started"); }));
      std::vector<ObjectRef<int>> others;
      for (int i = 0; i < 20; ++i) others.push_back(a.call<&Log::together>());
      for (auto& one : others) CHECK(get(one, {.timeout = 30s}) >= 1);  // at f0736ec half of them waited behind it
      rt::touch(dir / "gate");
      CHECK_EQ(get(spinning, {.timeout = 30s}), 1);
    }},
    {"as many calls at once as one likes, on several threads", [] {
      auto a = actor<Log>.options({.max_concurrency = std::numeric_limits<int>::max(), .threads = 2}).remote();
      CHECK_EQ(get(a.call<&Log::add>(1), {.timeout = 30s}), 1);  // at 737bcd8 no call ever began
    }},
    {"an actor that has max_pending_calls open can be stopped", [] {
      rt::Folder dir;
      auto a = actor<Log>.options({.max_pending_calls = 1}).remote();
      auto open = a.call<&Log::hold>(dir / "s", dir / "gate");
      troupe::stop(a);
      rt::touch(dir / "gate");
      CHECK_EQ(get(open, {.timeout = 30s}), 1);
      CHECK(get(troupe::monitor(a), {.timeout = 30s}).cause == troupe::DeathCause::kFinished);
    }},
    {"max_pending_calls refuses what is over it, and recovers", [] {
      rt::Folder dir;
      auto a = actor<Log>.options({.max_pending_calls = 3}).remote();
      std::vector<ObjectRef<int>> refs;
      refs.push_back(a.call<&Log::hold>(dir / "s", dir / "gate"));
      refs.push_back(a.call<&Log::add>(1));
      refs.push_back(a.call<&Log::add>(2));
      CHECK_THROWS(troupe::PendingCallsLimitError, a.call<&Log::add>(3));
      rt::touch(dir / "gate");
      for (auto& ref : refs) get(ref, {.timeout = 30s});
      CHECK_EQ(get(a.call<&Log::add>(4), {.timeout = 30s}), 3);
    }},
    {"a call past its timeout gets DeadlineExceededError; a queued one never runs; the actor goes on", [] {
      rt::Folder dir;
      for (auto isolation : {troupe::Isolation::kProcess, troupe::Isolation::kLight}) {
        const std::string n = std::to_string(int(isolation));
        auto a = actor<Log>.options({.isolation = isolation}).remote();
        get(a.ready());
        auto runs = a.options({.timeout = 8s}).call<&Log::how_interrupted>(dir / ("s" + n), dir / ("told" + n));
        CHECK(rt::eventually([&] { return rt::exists(dir / ("s" + n)); }));
        auto queued = a.options({.timeout = 1s}).call<&Log::add>(1);
        CHECK_THROWS(troupe::DeadlineExceededError, get(queued, {.timeout = 30s}));
        CHECK_THROWS(troupe::DeadlineExceededError, get(runs, {.timeout = 30s}));
        CHECK(rt::eventually([&] { return rt::read(dir / ("told" + n)) == "DeadlineExceededError"; }, 20));
        CHECK_EQ(get(a.call<&Log::add>(2), {.timeout = 30s}), 1);
      }
    }},
    {"kill ends a method that was cancelled and went on", [] {
      rt::Folder dir;
      auto a = actor<Log>.options({.isolation = troupe::Isolation::kLight}).remote();
      auto call = a.call<&Log::waits_twice>(dir / "started", dir / "interrupted", dir / "ended");
      CHECK(rt::eventually([&] { return rt::exists(dir / "started"); }, 20));
      troupe::cancel(call);
      CHECK_THROWS(troupe::CancelledError, get(call, {.timeout = 30s}));
      CHECK(rt::eventually([&] { return rt::exists(dir / "interrupted"); }, 20));
      troupe::kill(a);
      CHECK(rt::eventually([&] { return rt::read(dir / "ended") == "ActorDiedError"; }, 20));  // at 737bcd8 it slept on
    }},
    {"cancel of calls: queued dropped, running interrupted, force refused, the actor goes on", [] {
      rt::Folder dir;
      for (auto isolation : {troupe::Isolation::kProcess, troupe::Isolation::kLight}) {
        const std::string n = std::to_string(int(isolation));
        auto a = actor<Log>.options({.isolation = isolation}).remote();
        auto runs = a.call<&Log::how_interrupted>(dir / ("s" + n), dir / ("told" + n));
        auto queued = a.call<&Log::add>(1);
        CHECK(rt::eventually([&] { return rt::exists(dir / ("s" + n)); }));
        CHECK_THROWS(InvalidArgumentError, troupe::cancel(runs, {.force = true}));
        troupe::cancel(queued);
        troupe::cancel(runs);
        CHECK_THROWS(troupe::CancelledError, get(queued, {.timeout = 30s}));
        CHECK_THROWS(troupe::CancelledError, get(runs, {.timeout = 30s}));
        CHECK(rt::eventually([&] { return rt::read(dir / ("told" + n)) == "CancelledError"; }, 20));
        CHECK_EQ(get(a.call<&Log::add>(2), {.timeout = 30s}), 1);
        for (int i = 0; i < 200; ++i) troupe::cancel(a.call<&Log::together>());  // at any point of its way
        CHECK_EQ(get(a.call<&Log::add>(3), {.timeout = 30s}), 2);
      }
    }},
    {"a cast that throws is logged and hurts nobody", [] {
      rt::Folder dir;
      auto a = actor<Log>.remote();
      a.cast<&Log::boom>(dir / "m");
      CHECK_EQ(get(a.call<&Log::add>(1), {.timeout = 30s}), 1);
      CHECK(rt::exists(dir / "m"));
    }},
    {"names: found, unique, one for all who say get_if_exists, by namespace, free after death", [] {
      auto a = actor<Log>.options({.name = "one"}).remote();
      get(a.ready());
      CHECK(troupe::get_actor<Log>("one") == a);
      auto b = [] { return actor<Log>.options({.name = "one"}).remote(); };
      CHECK_THROWS(InvalidArgumentError, get(b().ready(), {.timeout = 30s}));
      auto other = actor<Log>.options({.name = "one", .name_space = "elsewhere"}).remote();
      get(other.ready(), {.timeout = 30s});
      CHECK(!(troupe::get_actor<Log>("one", {.name_space = "elsewhere"}) == a));
      CHECK_THROWS(troupe::ActorNotFoundError, troupe::get_actor<Log>("two"));
      CHECK(!troupe::try_get_actor<Log>("two").ok());
      auto keeper = actor<Log>.options({.name = "shared", .get_if_exists = true}).remote();
      const int pid = get(keeper.call<&Log::pid>());
      std::vector<ObjectRef<int>> pids;
      for (int i = 0; i < 8; ++i) pids.push_back(task<&named_pid>.remote(std::string("shared")));
      for (auto& ref : pids) CHECK_EQ(get(ref, {.timeout = 30s}), pid);
      troupe::kill(a);
      CHECK(rt::eventually([] { return !troupe::try_get_actor<Log>("one").ok(); }));
      auto again = b();
      get(again.ready(), {.timeout = 30s});
    }},
    {"CAC-9: whoever drops the last handle of a name's holder can say the name again at once", [] {
      for (int i = 0; i < 20; ++i) {
        const auto mine = actor<Log>.options({.name = "again"}).remote();
        CHECK_EQ(get(mine.call<&Log::add>(i), {.timeout = 30s}), 1);
        const auto found = troupe::get_actor<Log>("again");
        CHECK_EQ(get(found.call<&Log::add>(i), {.timeout = 30s}), 2);
      }
    }},
    {"a handle that was found by its name is given back: the actor ends with its maker", [] {
      auto maker = actor<Maker>.remote();
      get(maker.call<&Maker::make>(std::string("found")));
      auto death = troupe::monitor(troupe::get_actor<Log>("found"));
      { auto same = actor<Log>.options({.name = "found", .get_if_exists = true}).remote(); }
      troupe::kill(maker);
      CHECK(get(death, {.timeout = 30s}).cause == troupe::DeathCause::kFinished);
    }},
    {"a name of another class is refused, and both classes are named", [] {
      auto log = actor<Log>.options({.name = "a log"}).remote();
      auto check = [](const std::optional<InvalidArgumentError>& error) {
        const std::string text = error ? error->message() : "";
        CHECK(text.find("Log") != std::string::npos && text.find("Maker") != std::string::npos);
      };
      check(CHECK_THROWS(InvalidArgumentError, troupe::get_actor<Maker>("a log")));
      check(
          CHECK_THROWS(InvalidArgumentError, actor<Maker>.options({.name = "a log", .get_if_exists = true}).remote()));
      CHECK(!troupe::try_get_actor<Maker>("a log").ok());
      CHECK_EQ(get(log.call<&Log::add>(1)), 1);
    }},
    {"get_if_exists by many at once gives one actor", [] {
      for (int round = 0; round < 3; ++round) {
        const std::string name = "race" + std::to_string(round);
        std::vector<std::future<ActorHandle<Log>>> threads;
        for (int i = 0; i < 4; ++i)
          threads.push_back(std::async(std::launch::async, [name] {
            return actor<Log>.options({.name = name, .get_if_exists = true}).remote();
          }));
        std::set<int> pids;
        std::vector<ActorHandle<Log>> handles;
        for (auto& t : threads) handles.push_back(t.get());
        for (auto& h : handles) pids.insert(get(h.call<&Log::pid>(), {.timeout = 30s}));
        CHECK_EQ(pids.size(), 1);
      }
    }},
    {"a scoped actor ends with its last handle, after its queued calls; a child with its parent's handle", [] {
      rt::Folder dir;
      ObjectRef<troupe::ActorDeath> death;
      ObjectRef<int> last;
      {
        auto a = actor<Log>.remote();
        death = troupe::monitor(a);
        for (int i = 0; i < 50; ++i) last = a.call<&Log::add>(i);
      }
      CHECK_EQ(get(last, {.timeout = 30s}), 50);
      CHECK(get(death, {.timeout = 30s}).cause == troupe::DeathCause::kFinished);
      auto parent = actor<Log>.remote();
      auto child = get(parent.call<&Log::child>());
      troupe::kill(parent);
      CHECK_EQ(get(child.call<&Log::add>(1), {.timeout = 30s}), 1);
    }},
    {"light actors: thousands, each with its state and order; one killed does not hurt the others", [] {
      std::vector<ActorHandle<Log>> lights;
      for (int i = 0; i < 2000; ++i)
        lights.push_back(actor<Log>.options({.isolation = troupe::Isolation::kLight}).remote());
      std::vector<ObjectRef<int>> refs;
      for (int round = 0; round < 3; ++round)
        for (auto& l : lights) refs.push_back(l.call<&Log::add>(round));
      for (std::size_t i = 0; i < refs.size(); ++i) CHECK_EQ(get(refs[i], {.timeout = 60s}), int(i / 2000) + 1);
      auto death = troupe::monitor(lights[7]);
      troupe::kill(lights[7]);
      CHECK(get(death, {.timeout = 30s}).cause == troupe::DeathCause::kKilled);
      CHECK_THROWS(ActorDiedError, get(lights[7].call<&Log::add>(1), {.timeout = 30s}));
      CHECK_EQ(get(lights[8].call<&Log::add>(1), {.timeout = 30s}), 4);
    }},
    {"CAC-8: a light actor that was killed is dead here, though its host has not heard of it", [] {
      for (const bool by_monitor : {true, false}) {
        const auto light = actor<Log>.options({.isolation = troupe::Isolation::kLight}).remote();
        const int host = get(light.call<&Log::pid>(), {.timeout = 30s});
        const auto death = troupe::monitor(light);
        // Hosts tell the head in order: it has heard of `light` when it has of those that came later.
        for (int i = 0; i < 8; ++i) troupe::kill(actor<Log>.options({.isolation = troupe::Isolation::kLight}).remote());
        CHECK(rt::freeze(host));
        if (by_monitor) get(task<&end_it>.remote(light), {.timeout = 30s});  // another process says it
        else troupe::kill(light);
        if (by_monitor) CHECK(get(death, {.timeout = 30s}).cause == troupe::DeathCause::kKilled);
        CHECK_THROWS(ActorDiedError, get(light.call<&Log::add>(1), {.timeout = 1s}));
        CHECK_EQ(::kill(host, SIGCONT), 0);
      }
    }},
    {"HO-9, AC-7: a light actor whose host is stopped before it told of it is killed at once, and lives no longer", [] {
      const auto light = [] { return actor<Log>.options({.isolation = troupe::Isolation::kLight}).remote(); };
      const auto neighbour = light();
      const int host = get(neighbour.call<&Log::pid>(), {.timeout = 30s});
      CHECK(rt::freeze(host));
      const auto unheard = light();
      const auto death = troupe::monitor(unheard);
      const auto call = unheard.call<&Log::add>(1);
      troupe::kill(unheard);
      CHECK(get(death, {.timeout = 30s}).cause == troupe::DeathCause::kKilled);
      CHECK_THROWS(ActorDiedError, get(unheard.call<&Log::add>(1), {.timeout = 30s}));
      const auto later = light();
      CHECK_EQ(::kill(host, SIGCONT), 0);
      // A host that was stopped between its rings may read the maker's before the daemon's, and so execute what came
      // before the kill.
      const auto ran = troupe::try_get(call, {.timeout = 30s});
      CHECK(ran.ok() ? *ran == 1 : ran.error().code() == troupe::ErrorCode::kActorDied);
      CHECK_EQ(get(later.call<&Log::add>(1), {.timeout = 30s}), 1);
      CHECK_EQ(get(neighbour.call<&Log::add>(1), {.timeout = 30s}), 1);
      CHECK(rt::eventually([] { return troupe::list_actors({.filter = {{"state", "ALIVE"}}}).size() == 2; }));
    }},
    {"CAC-10: an actor whose argument is awaited is no dead one: it is passed on, monitored, called and killed", [] {
      const rt::Folder folder;
      const auto make = [&] { return actor<Given>.remote(task<&late>.remote(folder / "gate", 1)); };
      auto kept = make(), killed = make();
      auto read = task<&value_of>.remote(kept);
      auto lives = troupe::monitor(kept), dies = troupe::monitor(killed);
      auto queued = killed.call<&Given::value>();
      troupe::kill(killed);
      CHECK_THROWS(ActorDiedError, get(queued, {.timeout = 30s}));
      CHECK(get(dies, {.timeout = 30s}).cause == troupe::DeathCause::kKilled);
      rt::touch(folder / "gate");
      CHECK_EQ(get(read, {.timeout = 30s}), 1);
      troupe::kill(kept);
      CHECK(get(lives, {.timeout = 30s}).cause == troupe::DeathCause::kKilled);
    }},
    {"bad options are typed errors", [] {
      CHECK_THROWS(InvalidArgumentError, actor<Log>.options({.lifetime = troupe::Lifetime::kDetached}).remote());
      CHECK_THROWS(InvalidArgumentError, actor<Log>.options({.get_if_exists = true}).remote());
      CHECK_THROWS(InvalidArgumentError, actor<Log>.options({.max_concurrency = 0}).remote());
      CHECK_THROWS(InvalidArgumentError, actor<Log>.options({.threads = -1}).remote());
      CHECK_THROWS(InvalidArgumentError, actor<Log>.options({.concurrency_groups = {{"g", 0}}}).remote());
      CHECK_THROWS(InvalidArgumentError,
                   actor<Log>.options({.threads = 2, .isolation = troupe::Isolation::kLight}).remote());
      CHECK_THROWS(InvalidArgumentError,
                   actor<Log>.options({.resources = {.gpus = 1}, .isolation = troupe::Isolation::kLight}).remote());
      CHECK_THROWS(
          InvalidArgumentError,
          actor<Log>.options({.isolation = troupe::Isolation::kLight, .env = {.env_vars = {{"A", "b"}}}}).remote());
      CHECK_THROWS(InvalidArgumentError,
                   get(actor<Log>.options({.resources = {.cpus = -3}}).remote().ready(), {.timeout = 20s}));
      CHECK_THROWS(InvalidArgumentError,
                   get(actor<Log>.options({.resources = {.cpus = std::nan("")}}).remote().ready(), {.timeout = 20s}));
      CHECK_THROWS(
          troupe::InfeasibleError,
          get(actor<Log>.options({.scheduling = troupe::NodeAffinity{"nowhere"}}).remote().ready(), {.timeout = 30s}));
      ActorHandle<Log> empty;
      CHECK_THROWS(InvalidArgumentError, empty.call<&Log::add>(1));
      CHECK_THROWS(InvalidArgumentError, empty.cast<&Log::add>(1));
      CHECK_THROWS(InvalidArgumentError, empty.ready());
      CHECK_THROWS(InvalidArgumentError, troupe::kill(empty));
      CHECK_THROWS(InvalidArgumentError, troupe::stop(empty));
      CHECK_THROWS(InvalidArgumentError, troupe::monitor(empty));
      CHECK_THROWS(InvalidArgumentError, actor<Log>.remote().call<&Log::add>(ObjectRef<int>{}));
    }},
    {"actors hold their CPUs while they live and give them back", [] {
      {
        auto a = actor<Log>.options({.resources = {.cpus = 2}}).remote();
        get(a.ready());
        CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 0; }));
        auto b = actor<Log>.options({.resources = {.cpus = 1}}).remote();
        CHECK_THROWS(troupe::GetTimeoutError, get(b.ready(), {.timeout = 200ms}));
        troupe::kill(a);
        get(b.ready(), {.timeout = 30s});
      }
      CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 2; }));
    }},
  });
}
