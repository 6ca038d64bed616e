// sync.h in fibers and threads: exclusion, order, cancelling in each wait, exceptions and errno kept over switches.
#include <cerrno>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorHandle, troupe::CancelledError, troupe::ObjectRef, troupe::actor, troupe::get;

namespace {

class Room {
 public:
  // ---- exceptions across switches
  std::string throw_and_wait(std::string text, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      try {
        throw std::runtime_error(text);
      } catch (const std::exception&) {
        troupe::yield();
        troupe::sleep_for(100us);
        try {
          throw;
        } catch (const std::runtime_error& again) {
          if (again.what() != text) return "rethrew " + std::string(again.what());
          troupe::yield();
        }
        if (auto current = std::current_exception()) {
          try { std::rethrow_exception(current); }
          catch (const std::exception& e) { if (e.what() != text) return "current " + std::string(e.what()); }
        } else return "no current exception";
      }
      if (std::current_exception()) return "an exception outside of catch";
      if (std::uncaught_exceptions() != 0) return "uncaught exceptions";
      troupe::yield();
    }
    return "fine";
  }
  std::string wait_in_unwinding(std::string text) {
    struct Waits { ~Waits() { troupe::sleep_for(1ms); troupe::yield(); } };
    try {
      Waits waits;
      throw std::logic_error(text);
    } catch (const std::logic_error& e) {
      return e.what() == text && std::uncaught_exceptions() == 0 ? "fine" : "another";
    }
  }
  std::string no_exception_here() {
    for (int i = 0; i < 50; ++i) {
      if (std::current_exception()) return "foreign exception";
      if (std::uncaught_exceptions() != 0) return "foreign uncaught";
      errno = 0;
      troupe::yield();
      if (errno != 0) return "errno";
    }
    return "fine";
  }
  std::string keeps_errno(int value) {
    for (int i = 0; i < 50; ++i) {
      errno = value;
      if (i % 2) troupe::yield();
      else troupe::sleep_for(50us);
      if (errno != value) return "errno " + std::to_string(errno);
    }
    return "fine";
  }

  // ---- each primitive
  int add_locked(int n) {
    for (int i = 0; i < n; ++i) {
      std::lock_guard lock(mutex_);
      const int old = value_;
      troupe::yield();
      value_ = old + 1;
    }
    return value_;
  }
  int value() { return value_; }
  void produce(int n) {
    for (int i = 0; i < n; ++i) {
      { std::lock_guard lock(mutex_); queue_.push_back(i); }
      filled_.notify_one();
      troupe::yield();
    }
  }
  int consume(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [&] { return !queue_.empty(); });
      sum += queue_.front();
      queue_.erase(queue_.begin());
    }
    return sum;
  }
  bool wait_for_nothing() {
    std::unique_lock lock(mutex_);
    const bool came = filled_.wait_for(lock, 20ms, [] { return false; });
    return !came && lock.owns_lock() && !troupe::Event().wait_for(10ms) && !troupe::Semaphore(0).try_acquire_for(10ms);
  }
  int limited() {
    permits_.acquire();
    const int now = ++inside_;
    most_ = std::max(most_, now);
    troupe::sleep_for(1ms);
    --inside_;
    permits_.release();
    return most_;
  }
  int meet() {
    latch_.arrive_and_wait();
    return 1;
  }
  int await_event() {
    event_.wait();
    return 1;
  }
  void set_event() { event_.set(); }
  void fill(std::string file) { rt::touch(file); }

  // ---- cancelling
  std::string blocked(std::string how, std::string started) {
    rt::touch(started);
    try {
      if (how == "mutex") { std::lock_guard lock(held_); }
      else if (how == "condition") { std::unique_lock lock(mutex_); never_.wait(lock);
      } else if (how == "condition for") {
        std::unique_lock lock(mutex_);
        never_.wait_for(lock, 1h, [] { return false; });
      } else if (how == "semaphore") none_.acquire();
      else if (how == "semaphore for") none_.try_acquire_for(1h);
      else if (how == "latch") closed_.wait();
      else if (how == "event") unset_.wait();
      else if (how == "event for") unset_.wait_for(1h);
      else if (how == "sleep") troupe::sleep_for(1h);
    } catch (const CancelledError&) {
      rt::write(started + ".told", mutex_.try_lock() ? (mutex_.unlock(), "fine") : "mutex held");
      throw;
    }
    return "not cancelled";
  }
  bool hold_mutex(bool hold) {
    if (hold) held_.lock();
    else held_.unlock();
    return true;
  }
  bool mutex_is_free() {
    const bool free = held_.try_lock();
    if (free) held_.unlock();
    return free;
  }
  int permits_after(int n) {
    none_.release(n);
    int got = 0;
    while (none_.try_acquire()) ++got;
    return got;
  }

 private:
  troupe::Mutex mutex_, held_;
  troupe::ConditionVariable filled_, never_;
  troupe::Semaphore permits_{3}, none_{0};
  troupe::Latch latch_{20}, closed_{1};
  troupe::Event event_, unset_;
  std::vector<int> queue_;
  int value_ = 0, inside_ = 0, most_ = 0;
};

ActorHandle<Room> room(int fibers = 64, int threads = 1) {
  return actor<Room>.options({.max_concurrency = fibers, .threads = threads}).remote();
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2}, {
    {"fibers that wait inside catch rethrow their own exceptions, and new ones start without any", [] {
      auto r = room();
      std::vector<ObjectRef<std::string>> refs;
      for (int i = 0; i < 30; ++i) {
        refs.push_back(r.call<&Room::throw_and_wait>("text " + std::to_string(i), 20));
        refs.push_back(r.call<&Room::wait_in_unwinding>("unwinding " + std::to_string(i)));
        refs.push_back(r.call<&Room::no_exception_here>());
      }
      for (auto& ref : refs) CHECK_EQ(get(ref), "fine");
    }},
    {"errno belongs to the fiber", [] {
      auto r = room();
      std::vector<ObjectRef<std::string>> refs;
      for (int i = 1; i < 20; ++i) refs.push_back(r.call<&Room::keeps_errno>(i));
      for (auto& ref : refs) CHECK_EQ(get(ref), "fine");
    }},
    {"a mutex excludes fibers and threads, also over waits", [] {
      for (int threads : {1, 3}) {
        auto r = room(16, threads);
        std::vector<ObjectRef<int>> refs;
        for (int i = 0; i < 16; ++i) refs.push_back(r.call<&Room::add_locked>(50));
        for (auto& ref : refs) get(ref);
        CHECK_EQ(get(r.call<&Room::value>()), 800);
      }
    }},
    {"condition variables lose no wake-up", [] {
      for (int threads : {1, 2}) {
        auto r = room(16, threads);
        std::vector<ObjectRef<int>> consumers;
        for (int i = 0; i < 4; ++i) consumers.push_back(r.call<&Room::consume>(100));
        std::vector<ObjectRef<void>> producers;
        for (int i = 0; i < 4; ++i) producers.push_back(r.call<&Room::produce>(100));
        int sum = 0;
        for (auto& ref : consumers) sum += get(ref);
        get(producers);
        CHECK_EQ(sum, 4 * 4950);
      }
    }},
    {"waits with a time end with it", [] { CHECK(get(room().call<&Room::wait_for_nothing>())); }},
    {"a semaphore lets in so many, a latch opens when all are there, an event opens for all", [] {
      auto r = room();
      std::vector<ObjectRef<int>> refs;
      for (int i = 0; i < 20; ++i) refs.push_back(r.call<&Room::limited>());
      int most = 0;
      for (auto& ref : refs) most = std::max(most, get(ref));
      CHECK_EQ(most, 3);
      refs.clear();
      for (int i = 0; i < 20; ++i) refs.push_back(r.call<&Room::meet>());
      CHECK_EQ(get(refs).size(), 20);
      refs.clear();
      for (int i = 0; i < 20; ++i) refs.push_back(r.call<&Room::await_event>());
      get(r.call<&Room::set_event>());
      CHECK_EQ(get(refs).size(), 20);
    }},
    {"a call that is cancelled in a wait of sync.h is told there, and the thing waited for stays whole", [] {
      rt::Folder dir;
      auto r = room();
      CHECK(get(r.call<&Room::hold_mutex>(true)));
      for (const char* how : {"mutex", "condition", "condition for", "semaphore", "semaphore for", "latch", "event",
                              "event for", "sleep"}) {
        std::fprintf(stderr, "  %s\n", how);
        std::vector<ObjectRef<std::string>> refs;
        for (int i = 0; i < 3; ++i)
          refs.push_back(r.call<&Room::blocked>(std::string(how), dir / (how + std::to_string(i))));
        for (int i = 0; i < 3; ++i) CHECK(rt::eventually([&] { return rt::exists(dir / (how + std::to_string(i))); }));
        for (auto& ref : refs) troupe::cancel(ref);
        for (auto& ref : refs) CHECK_THROWS(CancelledError, get(ref, {.timeout = 20s}));
        for (int i = 0; i < 3; ++i) {
          const std::string told = dir / (how + std::to_string(i) + ".told");
          CHECK(rt::eventually([&] { return rt::exists(told); }, 20));
          CHECK_EQ(rt::read(told), "fine");
        }
      }
      CHECK(get(r.call<&Room::hold_mutex>(false)));
      CHECK(get(r.call<&Room::mutex_is_free>()));
      CHECK_EQ(get(r.call<&Room::permits_after>(2)), 2);
    }},
    {"cancelling one waiter does not lose the wake-up of another", [] {
      for (int round = 0; round < 20; ++round) {
        rt::Folder dir;
        auto r = room();
        get(r.call<&Room::hold_mutex>(true));
        auto a = r.call<&Room::blocked>(std::string("mutex"), dir / "a"),
             b = r.call<&Room::blocked>(std::string("mutex"), dir / "b");
        CHECK(rt::eventually([&] { return rt::exists(dir / "a") && rt::exists(dir / "b"); }));
        auto free = r.call<&Room::hold_mutex>(false);
        troupe::cancel(a);
        CHECK_EQ(get(b, {.timeout = 20s}), "not cancelled");
        get(free);
      }
    }},
    {"the driver and its threads may use sync.h too", [] {
      troupe::Mutex mutex;
      troupe::Semaphore done(0);
      int value = 0;
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
          for (int i = 0; i < 1000; ++i) {
            std::lock_guard lock(mutex);
            ++value;
          }
          done.release();
        });
      for (int t = 0; t < 4; ++t) done.acquire();
      for (auto& t : threads) t.join();
      CHECK_EQ(value, 4000);
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::Semaphore(-1));
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::Latch(-1));
      CHECK_THROWS(troupe::InvalidArgumentError, troupe::Latch(1).count_down(2));
    }},
  });
}
