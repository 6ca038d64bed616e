// CallBudget (core/runtime/call_budget.h): a submitter that is faster than its workers is held back, loses nothing, and
// can be cancelled while it waits.
#include "check.h"

using namespace std::chrono_literals;
using troupe::actor, troupe::get, troupe::task;

namespace {

constexpr std::size_t kLimit = 1 << 20;
constexpr std::size_t kCalls = 4000;
constexpr std::size_t kBytes = 1000;
constexpr std::size_t kAdmitted = kLimit / kBytes;  // more than are admitted: each call takes more than its argument

/// Answers when a file is there: a call could not open the door while calls are held back.
class Door {
 public:
  std::size_t through(const std::string& file, const std::string& text) {
    while (!std::filesystem::exists(file)) troupe::sleep_for(2ms);
    return text.size();
  }
};

/// Is made when a file is there.
class Guarded {
 public:
  explicit Guarded(const std::string& file, const std::string&) {
    while (!std::filesystem::exists(file)) troupe::sleep_for(2ms);
  }
  int here() { return 1; }
};

using Calls = std::vector<troupe::ObjectRef<std::size_t>>;

/// More than the budget holds.
void crowd(const troupe::ActorHandle<Door>& door, const std::string& file, Calls& calls,
           const std::function<void()>& submitted) {
  for (std::size_t i = 0; i < kCalls; ++i) {
    calls.push_back(door.call<&Door::through>(file, std::string(kBytes, 'x')));
    submitted();
  }
}

int crowd_task(troupe::ActorHandle<Door> door, const std::string& file, const std::string& half) {
  Calls calls;
  crowd(door, file, calls, [&] { if (calls.size() == kAdmitted / 2) rt::touch(half); });
  return int(calls.size());
}

const std::vector<rt::Promise>& promises() {
  static const std::vector<rt::Promise> list = {
    {"remote waits while open calls take the memory they may, and loses none", [] {
      rt::Folder folder;
      auto door = actor<Door>.remote();
      std::atomic<std::size_t> submitted = 0;
      Calls calls;
      std::thread submitter([&] { crowd(door, folder / "open", calls, [&] { ++submitted; }); });
      CHECK(rt::eventually([&] { return submitted > kAdmitted / 2; }));
      std::this_thread::sleep_for(300ms);  // enough for all of them, were they not held back
      CHECK(submitted <= kAdmitted);
      rt::touch(folder / "open");
      submitter.join();
      std::size_t right = 0;
      for (auto& call : calls) right += get(call) == kBytes;
      CHECK_EQ(right, kCalls);
    }},
    {"creating light actors waits likewise", [] {
      rt::Folder folder;
      std::atomic<std::size_t> created = 0;
      std::vector<troupe::ActorHandle<Guarded>> actors;
      std::thread creator([&] {
        for (std::size_t i = 0; i < kCalls; ++i, ++created)
          actors.push_back(actor<Guarded>.options({.isolation = troupe::Isolation::kLight})
                               .remote(folder / "open", std::string(kBytes, 'x')));
      });
      CHECK(rt::eventually([&] { return created > kAdmitted / 2; }));
      std::this_thread::sleep_for(300ms);  // enough for all of them, were they not held back
      CHECK(created <= kAdmitted);
      rt::touch(folder / "open");
      creator.join();
      int here = 0;
      for (const auto& one : actors) here += get(one.call<&Guarded::here>(), {.timeout = 60s});
      CHECK_EQ(here, int(kCalls));
    }},
    {"a task that waits to submit can be cancelled", [] {
      rt::Folder folder;
      auto door = actor<Door>.remote();
      auto crowding = task<&crowd_task>.remote(door, folder / "open", folder / "half");
      CHECK(rt::eventually([&] { return std::filesystem::exists(folder / "half"); }));
      std::this_thread::sleep_for(100ms);
      troupe::cancel(crowding);
      CHECK_THROWS(troupe::CancelledError, get(crowding, {.timeout = 30s}));
      rt::touch(folder / "open");
      CHECK_EQ(get(door.call<&Door::through>(folder / "open", std::string("abc")), {.timeout = 30s}), 3u);
    }},
  };
  return list;
}

}  // namespace

int main(int argc, char** argv) { return rt::main(argc, argv, {.cpus = 2, .call_memory = kLimit}, promises()); }
