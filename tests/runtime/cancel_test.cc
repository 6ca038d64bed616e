// Cancelling and deadlines of tasks: what never starts, what is interrupted, what is killed, and who is told what.
#include "check.h"

using namespace std::chrono_literals;
using troupe::CancelledError, troupe::DeadlineExceededError, troupe::ObjectRef, troupe::get, troupe::task;

namespace {

int hold(std::string started, std::string gate) {
  rt::touch(started);
  rt::wait_for_file(gate);
  return 7;
}
int note(std::string file) { return rt::bump(file); }
int add_one(int x) { return x + 1; }

/// Waits in the way that is asked for; tells in a file what the wait threw, then that later waits work.
int wait_by(std::string how, std::string started, std::string told, ObjectRef<int> never) {
  troupe::Mutex mutex;
  try {
    rt::touch(started);
    if (how == "sleep") troupe::sleep_for(1h);
    else if (how == "get") get(never);
    else if (how == "get list") get(std::vector<ObjectRef<int>>{never});
    else if (how == "wait") troupe::wait(std::vector<ObjectRef<int>>{never});
    else if (how == "yield") for (;;) troupe::yield();
    else if (how == "short sleeps") for (;;) troupe::sleep_for(1ms);
    else if (how == "mutex") { mutex.lock(); mutex.lock(); }
    else if (how == "condition") { troupe::ConditionVariable c; std::unique_lock lock(mutex); c.wait(lock);
    } else if (how == "condition for") {
      troupe::ConditionVariable c;
      std::unique_lock lock(mutex);
      c.wait_for(lock, 1h);
    } else if (how == "semaphore") troupe::Semaphore(0).acquire();
    else if (how == "semaphore for") troupe::Semaphore(0).try_acquire_for(1h);
    else if (how == "latch") troupe::Latch(1).wait();
    else if (how == "event") troupe::Event().wait();
    else if (how == "event for") troupe::Event().wait_for(1h);
    else if (how == "nested task") get(task<&hold>.remote(started + ".child", started + ".never"));
  } catch (const CancelledError&) {
    if (!troupe::runtime_context().cancelled()) rt::write(told, "not cancelled()");
    troupe::sleep_for(5ms);  // the grace: waits work again
    troupe::yield();
    const int put = get(troupe::put(5));
    rt::write(told, "CancelledError " + std::to_string(put));
    throw;
  } catch (const DeadlineExceededError&) {
    troupe::sleep_for(5ms);
    rt::write(told, "DeadlineExceededError");
    throw;
  } catch (const troupe::Error& error) {
    rt::write(told, troupe::error_name(error.code()));
    throw;
  }
  rt::write(told, "nothing");
  return 1;
}
int spin(std::string started, std::string pid) {
  rt::write(pid, std::to_string(::getpid()));
  rt::touch(started);
  for (volatile int i = 0;;) i = i + 1;
}
int parent(std::string child_started, std::string child_told, std::string mine, ObjectRef<int> never) {
  auto child = task<&wait_by>.remote("sleep", child_started, child_told, never);
  rt::wait_for_file(child_started);
  rt::touch(mine);
  troupe::sleep_for(1h);
  return get(child);
}
int orphan_maker(std::string started, std::string pid) {
  auto child = task<&spin>.remote(started, pid);
  rt::wait_for_file(started);
  rt::crash();
  return get(child);
}
int cancel_it(ObjectRef<int> ref) {
  troupe::cancel(ref);
  return 1;
}
troupe::Generator<int> endless(std::string told) {
  try {
    for (int i = 0;; ++i) co_yield i;
  } catch (...) {
    rt::touch(told);
    throw;
  }
}
int fail_once(std::string runs) {
  rt::bump(runs);
  throw std::runtime_error("again");
}

bool gone(const std::string& pid_file) {
  const std::string pid = rt::read(pid_file);
  return pid.empty() || ::kill(std::stoi(pid), 0) != 0;
}

void every_wait(const char* how, bool by_deadline) {
  rt::Folder dir;
  auto never = task<&hold>.options({.resources = {.cpus = 0}}).remote(dir / "held", dir / "never");
  auto ref = task<&wait_by>.options({.resources = {.cpus = 0},
      .timeout = by_deadline ? troupe::Duration(2s) : troupe::kForever})
                 .remote(std::string(how), dir / "started", dir / "told", never);
  if (!by_deadline) {
    CHECK(rt::eventually([&] { return rt::exists(dir / "started"); }));
    std::this_thread::sleep_for(20ms);
    troupe::cancel(ref);
    CHECK_THROWS(CancelledError, get(ref, {.timeout = 20s}));
  } else {
    CHECK_THROWS(DeadlineExceededError, get(ref, {.timeout = 20s}));
  }
  CHECK(rt::eventually([&] { return rt::exists(dir / "told"); }, 20));
  CHECK_EQ(rt::read(dir / "told"), by_deadline ? "DeadlineExceededError" : "CancelledError 5");
  troupe::cancel(never);
}

const char* const kWaits[] = {"sleep",         "get",   "get list",  "wait",          "yield",
                              "short sleeps",  "mutex", "condition", "condition for", "semaphore",
                              "semaphore for", "latch", "event",     "event for",     "nested task"};

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2}, {
    {"a cancelled task gets CancelledError from whatever it waits in, once, and can clean up", [] {
      for (const char* how : kWaits) {
        std::fprintf(stderr, "  %s\n", how);
        every_wait(how, false);
      }
    }},
    {"a task past its timeout gets DeadlineExceededError from its wait", [] {
      for (const char* how : {"sleep", "get", "wait", "yield", "condition", "nested task"}) {
        std::fprintf(stderr, "  %s\n", how);
        every_wait(how, true);
      }
    }},
    {"a queued task that is cancelled never starts", [] {
      rt::Folder dir;
      auto a = task<&hold>.remote(dir / "a", dir / "gate"), b = task<&hold>.remote(dir / "b", dir / "gate");
      CHECK(rt::eventually([&] { return rt::exists(dir / "a") && rt::exists(dir / "b"); }));
      // They wait, so their CPUs are free: hold these by tasks that do not wait.
      auto c = task<&note>.options({.resources = {.cpus = 2000}}).remote(dir / "ran");
      troupe::cancel(c);
      CHECK_THROWS(CancelledError, get(c, {.timeout = 20s}));
      rt::touch(dir / "gate");
      CHECK_EQ(get(a) + get(b), 14);
      CHECK_EQ(rt::count(dir / "ran"), 0);
    }},
    {"a task that waits for its argument can be cancelled, and whoever waits for it sees the cause", [] {
      rt::Folder dir;
      auto a = task<&hold>.remote(dir / "a", dir / "gate");
      auto b = task<&add_one>.remote(a);
      auto c = task<&add_one>.remote(b);
      troupe::cancel(b);
      CHECK_THROWS(CancelledError, get(b, {.timeout = 20s}));
      CHECK_THROWS(CancelledError, get(c, {.timeout = 20s}));
      rt::touch(dir / "gate");
      CHECK_EQ(get(a), 7);
    }},
    {"a task in its back-off can be cancelled and does not run again", [] {
      rt::Folder dir;
      auto a = task<&fail_once>.options({.retry = {.max_retries = -1,
          .retry_error = [](const troupe::TaskError&) { return true; }, .backoff = {.initial = 1s, .max = 1s}}})
          .remote(dir / "runs");
      CHECK(rt::eventually([&] { return rt::count(dir / "runs") >= 1; }));
      std::this_thread::sleep_for(50ms);
      troupe::cancel(a);
      CHECK_THROWS(CancelledError, get(a, {.timeout = 20s}));
      const auto ran = rt::count(dir / "runs");  // more than once only where this thread was late for the back-off
      std::this_thread::sleep_for(1500ms);
      CHECK_EQ(rt::count(dir / "runs"), ran);
    }},
    {"cancelling what is done, or what was put, changes nothing", [] {
      auto a = task<&add_one>.remote(1);
      CHECK_EQ(get(a), 2);
      troupe::cancel(a);
      troupe::cancel(a, {.force = true});
      CHECK_EQ(get(a), 2);
      auto p = troupe::put(3);
      troupe::cancel(p);
      CHECK_EQ(get(p), 3);
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::cancel(ObjectRef<int>{}));
    }},
    {"a task that computes is killed after its grace; its caller is told at once", [] {
      rt::Folder dir;
      auto a = task<&spin>.remote(dir / "started", dir / "pid");
      CHECK(rt::eventually([&] { return rt::exists(dir / "started"); }));
      troupe::cancel(a);
      CHECK_THROWS(CancelledError, get(a, {.timeout = 4s}));
      CHECK(rt::eventually([&] { return gone(dir / "pid"); }, 20));
      CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 2; }, 20));
    }},
    {"a computing task past its timeout fails at the deadline and is killed", [] {
      rt::Folder dir;
      auto a = task<&spin>.options({.timeout = 200ms}).remote(dir / "started", dir / "pid");
      CHECK_THROWS(DeadlineExceededError, get(a, {.timeout = 20s}));
      CHECK(rt::eventually([&] { return gone(dir / "pid"); }, 20));
    }},
    {"force kills at once, costs no retry, and hits nobody else", [] {
      rt::Folder dir;
      auto bystander = task<&hold>.remote(dir / "b", dir / "gate");
      auto a = task<&spin>.remote(dir / "started", dir / "pid");
      CHECK(rt::eventually([&] { return rt::exists(dir / "started") && rt::exists(dir / "b"); }));
      troupe::cancel(a, {.force = true});
      CHECK_THROWS(CancelledError, get(a, {.timeout = 40s}));
      CHECK(rt::eventually([&] { return gone(dir / "pid"); }));
      rt::touch(dir / "gate");
      CHECK_EQ(get(bystander), 7);
    }},
    {"recursive cancels the children, and not recursive leaves them", [] {
      for (bool recursive : {true, false}) {
        rt::Folder dir;
        auto never = task<&hold>.remote(dir / "held", dir / "gate");
        auto a = task<&parent>.remote(dir / "child", dir / "told", dir / "mine", ObjectRef<int>(never));
        CHECK(rt::eventually([&] { return rt::exists(dir / "mine"); }));
        troupe::cancel(a, {.recursive = recursive});
        CHECK_THROWS(CancelledError, get(a, {.timeout = 20s}));
        if (recursive) {
          CHECK(rt::eventually([&] { return rt::exists(dir / "told"); }, 20));
        } else {
          std::this_thread::sleep_for(500ms);
          CHECK(!rt::exists(dir / "told"));
        }
        rt::touch(dir / "gate");
      }
    }},
    {"a timeout cancels the children too", [] {
      rt::Folder dir;
      auto never = task<&hold>.remote(dir / "held", dir / "gate");
      auto a = task<&parent>.options({.timeout = 1s})
                   .remote(dir / "child", dir / "told", dir / "mine", ObjectRef<int>(never));
      CHECK_THROWS(DeadlineExceededError, get(a, {.timeout = 20s}));
      // at 737bcd8 it slept on; one that had yet to begin does not begin
      CHECK(rt::eventually([&] { return rt::exists(dir / "told") || !rt::exists(dir / "child"); }, 20));
      rt::touch(dir / "gate");
    }},
    {"a borrower may cancel", [] {
      rt::Folder dir;
      auto a = task<&hold>.remote(dir / "a", dir / "gate");
      CHECK(rt::eventually([&] { return rt::exists(dir / "a"); }));
      CHECK_EQ(get(task<&cancel_it>.remote(a)), 1);
      CHECK_THROWS(CancelledError, get(a, {.timeout = 20s}));
    }},
    {"a child whose parent died ends, also when it computes", [] {
      rt::Folder dir;
      auto a = task<&orphan_maker>.options({.retry = {.max_retries = 0}}).remote(dir / "started", dir / "pid");
      CHECK_THROWS(troupe::WorkerCrashedError, get(a, {.timeout = 20s}));
      CHECK(rt::eventually([&] { return gone(dir / "pid"); }, 20));
      CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 2; }, 20));
    }},
    {"a thousand tasks cancelled in a storm all end", [] {
      rt::Folder dir;
      std::vector<ObjectRef<int>> refs;
      for (int i = 0; i < 1000; ++i)
        refs.push_back(task<&hold>.options({.resources = {.cpus = 0.5}}).remote(dir / "s", dir / "gate"));
      for (auto& ref : refs) troupe::cancel(ref);
      for (auto& ref : refs) CHECK_THROWS(CancelledError, get(ref, {.timeout = 30s}));
      CHECK_EQ(get(task<&add_one>.remote(1), {.timeout = 30s}), 2);
    }},
    {"a generator that waits for its reader is cancelled with its caller", [] {
      rt::Folder dir;
      {
        auto stream = task<&endless>.remote(dir / "told");
        auto first = stream.begin();
        CHECK_EQ(get(*first), 0);
      }
      CHECK_EQ(get(task<&add_one>.remote(1), {.timeout = 30s}), 2);
      CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 2; }, 20));
    }},
  });
}
