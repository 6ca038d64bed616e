// What outlives its process: arguments of constructors and checkpoints with large bodies, arrays, refs and handles.
#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorDiedError, troupe::ActorHandle, troupe::Array, troupe::ObjectRef, troupe::actor, troupe::get,
    troupe::put, troupe::task;

namespace {

const troupe::Backoff kQuick{.initial = 5ms, .max = 20ms};
constexpr std::size_t kNumbers = 1 << 18;

Array<std::uint64_t> numbers(std::uint64_t seed) {
  troupe::ArrayBuilder<std::uint64_t> b(kNumbers);
  for (auto& x : b.span()) x = seed = seed * 6364136223846793005u + 1442695040888963407u;
  return std::move(b).seal();
}
std::uint64_t digest(const Array<std::uint64_t>& a) {
  std::uint64_t sum = a.size();
  for (auto x : a.span()) sum = (sum ^ x) * 1099511628211u;
  return sum;
}

class Child {
 public:
  int add(int x) { return sum_ += x; }

 private:
  int sum_ = 0;
};

/// All that a state may have inside.
class Vault {
 public:
  struct State {
    Array<std::uint64_t> array;
    std::string text;
    std::vector<ObjectRef<std::string>> small;
    std::vector<ObjectRef<Array<std::uint64_t>>> large;
    std::vector<ObjectRef<int>> late;
    std::vector<ActorHandle<Child>> children;
  };
  State checkpoint() const { return state_; }
  void restore(State state) { state_ = std::move(state); }

  int fill() {
    state_.array = numbers(1);
    state_.text = std::string(300 << 10, 't');
    state_.small = {put(std::string("inside")), put(std::string(200 << 10, 's'))};
    state_.large = {put(numbers(2))};
    state_.children = {actor<Child>.remote()};
    return get(state_.children[0].call<&Child::add>(5));
  }
  int take(std::vector<ObjectRef<int>> late) {
    state_.late = std::move(late);
    return 1;
  }
  std::vector<std::uint64_t> digests() {
    std::vector<std::uint64_t> all{digest(state_.array), state_.text.size()};
    for (auto& one : state_.small) all.push_back(get(one, {.timeout = 30s}).size());
    for (auto& one : state_.large) all.push_back(digest(get(one, {.timeout = 30s})));
    for (auto& one : state_.children) all.push_back(std::uint64_t(get(one.call<&Child::add>(0), {.timeout = 30s})));
    return all;
  }
  int late_value() { return get(state_.late.at(0), {.timeout = 30s}); }
  int has_late() { return int(state_.late.size()); }
  std::string late_error() {
    auto value = troupe::try_get(state_.late.at(0), {.timeout = 30s});
    return value.ok() ? "none" : std::string(troupe::error_name(value.error().code())) + " " + value.error().message();
  }
  int die() { rt::crash(); }

 private:
  State state_;
};

/// What its constructor was given is all that it has.
class Keepsake {
 public:
  Keepsake(Array<std::uint64_t> array, std::string text, std::vector<ObjectRef<std::string>> refs)
      : array_(std::move(array)), text_(std::move(text)), refs_(std::move(refs)) {}
  std::vector<std::uint64_t> digests() {
    std::vector<std::uint64_t> all{digest(array_), text_.size()};
    for (auto& one : refs_) all.push_back(get(one, {.timeout = 30s}).size());
    return all;
  }
  int die() { rt::crash(); }

 private:
  Array<std::uint64_t> array_;
  std::string text_;
  std::vector<ObjectRef<std::string>> refs_;
};

std::vector<std::uint64_t> digests_of(std::uint64_t seed) { return {digest(numbers(seed)), 300u << 10, 6}; }

ActorHandle<Keepsake> keepsake(std::uint64_t seed, int max_restarts) {
  auto keepsakes = actor<Keepsake>.options({.max_restarts = max_restarts, .restart_backoff = kQuick});
  return keepsakes.remote(numbers(seed), std::string(300 << 10, 'k'), std::vector{put(std::string("inside"))});
}

class Maker {
 public:
  ActorHandle<Keepsake> make(std::uint64_t seed) { return keepsake(seed, -1); }
  /// A ref that this process owns, to a value that does not come before the file is there.
  std::vector<ObjectRef<int>> promise(std::string gate);
  int die() { rt::crash(); }
};

int wait_for(std::string gate) {
  rt::wait_for_file(gate);
  return 7;
}
std::vector<ObjectRef<int>> Maker::promise(std::string gate) { return {task<&wait_for>.remote(gate)}; }

/// An answer of an actor that is on its way back.
template <class F>
auto answer(F call) {
  for (const double end = rt::now() + 30;; std::this_thread::sleep_for(5ms)) {
    try {
      return get(call(), {.timeout = 30s});
    } catch (const ActorDiedError& e) {
      if (e.outcome() != troupe::Outcome::kUnknown || rt::now() > end) throw;
    }
  }
}
auto vault() {
  return actor<Vault>.options({.max_restarts = -1, .restart_backoff = kQuick, .checkpoint_every = 1ns}).remote();
}
template <class A>
void crash(const ActorHandle<A>& which) {
  CHECK_THROWS(ActorDiedError, get(which.template call<&A::die>(), {.timeout = 30s}));
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(
      argc, argv, {.cpus = 2},
      {
          {"a checkpoint survives its process with its text, arrays, refs and handles, again and again",
           [] {
             auto v = vault();
             CHECK_EQ(get(v.call<&Vault::fill>(), {.timeout = 30s}), 5);
             const auto before = get(v.call<&Vault::digests>(), {.timeout = 30s});
             CHECK_EQ(before.size(), 6);
             for (int round = 0; round < 3; ++round) {
               crash(v);
               CHECK(answer([&] { return v.call<&Vault::digests>(); }) == before);
             }
           }},
          {"a ref to what another process owns is kept by value",
           [] {
             rt::Folder dir;
             auto v = vault();
             {
               auto late = task<&wait_for>.remote(dir / "gate");
               get(v.call<&Vault::take>(std::vector{late}), {.timeout = 30s});
               rt::touch(dir / "gate");
               CHECK_EQ(get(v.call<&Vault::late_value>(), {.timeout = 30s}), 7);
             }
             crash(v);
             CHECK_EQ(answer([&] { return v.call<&Vault::late_value>(); }), 7);
           }},
          {"a ref whose owner died before its value came is OwnerDiedError, and the rest of the state is there",
           [] {
             rt::Folder dir;
             auto v = vault();
             auto maker = actor<Maker>.remote();
             auto promised = get(maker.call<&Maker::promise>(dir / "gate"), {.timeout = 30s});
                    get(v.call<&Vault::take>(std::move(promised)), {.timeout = 30s});
             get(v.call<&Vault::has_late>(), {.timeout = 30s});
             auto death = troupe::monitor(maker);
             crash(maker);
             get(death, {.timeout = 30s});
             crash(v);
             CHECK_EQ(answer([&] { return v.call<&Vault::has_late>(); }), 1);
             const std::string error = get(v.call<&Vault::late_error>(), {.timeout = 40s});
             CHECK(error.find("OwnerDied") != std::string::npos);
             CHECK(error.find("the owner of") != std::string::npos);
             rt::touch(dir / "gate");
           }},
          {"an actor comes back with its arguments when the process that made it is dead",
           [] {
             auto maker = actor<Maker>.remote();
             auto kept = get(maker.call<&Maker::make>(std::uint64_t(3)), {.timeout = 30s});
             CHECK(get(kept.call<&Keepsake::digests>(), {.timeout = 30s}) == digests_of(3));
             auto death = troupe::monitor(maker);
             crash(maker);
             get(death, {.timeout = 30s});
             for (int round = 0; round < 2; ++round) {
               crash(kept);
               CHECK(answer([&] { return kept.call<&Keepsake::digests>(); }) == digests_of(3));
             }
           }},
          {"a task may return the handle of an actor to which it gave an array",
           [] {
             std::vector<ObjectRef<ActorHandle<Keepsake>>> made;
             for (int i = 0; i < 8; ++i) made.push_back(troupe::submit([i] { return keepsake(std::uint64_t(i), 0); }));
             for (int i = 0; i < 8; ++i) {
               auto one = get(made[std::size_t(i)], {.timeout = 60s});
               CHECK(get(one.call<&Keepsake::digests>(), {.timeout = 60s}) == digests_of(std::uint64_t(i)));
             }
           }},
          {"what was kept goes with the actors",
           [] {
             CHECK(rt::eventually([] { return troupe::object_store_usage().objects == 0; }));
             auto v = vault();
             get(v.call<&Vault::fill>(), {.timeout = 30s});
             for (int i = 0; i < 20; ++i) get(v.call<&Vault::fill>(), {.timeout = 30s});
             // Of 21 states one is kept: an array, a text, a large string, a large array.
             CHECK(rt::eventually([] { return troupe::object_store_usage().objects <= 8; }));
             auto death = troupe::monitor(v);
             troupe::kill(v);
             get(death, {.timeout = 30s});
             v = {};
             CHECK(rt::eventually([] { return troupe::object_store_usage().objects == 0; }));
           }},
      });
}
