// A driver with many modes, for lifecycle_test.py: it is started, killed and looked at from outside.
#include <csignal>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ObjectRef, troupe::actor, troupe::get, troupe::task;

namespace {

int square(int x) { return x * x; }
int nap(int ms) {
  troupe::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}
int spin() { for (volatile int i = 0;;) i = i + 1; }
troupe::Array<int> array(int x) {
  troupe::ArrayBuilder<int> b(100000);
  for (auto& v : b) v = x;
  return std::move(b).seal();
}
class Pet {
 public:
  int pid() { return ::getpid(); }
  int work(int ms) { return nap(ms); }
  ~Pet() {
    if (const char* file = std::getenv("PET_FILE")) rt::touch(file);
  }
};
class Light {
 public:
  int one() { return 1; }
};

ObjectRef<int> never() { return task<&nap>.remote(3'600'000); }
int read(ObjectRef<int> ref) { return get(ref); }
std::size_t length(troupe::Array<int> array) { return array.size(); }

/// What one run leaves to the next: names that may be others' by then.
struct Leftovers {
  ObjectRef<int> ready, pending;
  troupe::Array<int> array;
  troupe::ActorHandle<Pet> pet;
  void make() {
    ready = troupe::put(7);
    pending = get(task<&never>.remote());
    array = get(task<&::array>.remote(1));
    pet = actor<Pet>.remote();
    get(pet.call<&Pet::pid>());
  }
  void are_refused() {
    using troupe::InvalidArgumentError;
    CHECK_EQ(get(ready), 7);
    CHECK_EQ(array[0], 1);
    CHECK_THROWS(InvalidArgumentError, get(pending, {.timeout = 60s}));
    CHECK_THROWS(InvalidArgumentError, troupe::wait(std::vector{pending}, {.timeout = 60s}));
    CHECK_THROWS(InvalidArgumentError, (void)task<&read>.remote(ready));
    CHECK_THROWS(InvalidArgumentError, (void)task<&square>.remote(ready));
    CHECK_THROWS(InvalidArgumentError, (void)troupe::put(ready));
    CHECK_THROWS(InvalidArgumentError, (void)task<&length>.remote(array));
    CHECK_THROWS(InvalidArgumentError, (void)pet.call<&Pet::pid>());
    CHECK_THROWS(InvalidArgumentError, (void)troupe::put(pet));
  }
};

/// Everything at once, until killed.
int busy(std::string ready) {
  std::vector<troupe::ActorHandle<Pet>> pets;
  for (int i = 0; i < 3; ++i) pets.push_back(actor<Pet>.options({.max_restarts = -1}).remote());
  pets.push_back(actor<Pet>.options({.name = "detached", .lifetime = troupe::Lifetime::kDetached}).remote());
  std::vector<troupe::ActorHandle<Light>> lights;
  for (int i = 0; i < 10; ++i)
    lights.push_back(actor<Light>.options({.isolation = troupe::Isolation::kLight}).remote());
  auto computes = task<&spin>.remote();
  for (int round = 0;; ++round) {
    std::vector<ObjectRef<int>> refs;
    std::vector<ObjectRef<troupe::Array<int>>> arrays;
    for (int i = 0; i < 20; ++i) {
      refs.push_back(task<&square>.remote(i));
      refs.push_back(task<&nap>.remote(i % 3));
      refs.push_back(pets[i % 4].call<&Pet::work>(i % 3));
      refs.push_back(lights[i % 10].call<&Light::one>());
      arrays.push_back(task<&array>.remote(i));
    }
    for (auto& ref : refs) get(ref);
    for (auto& ref : arrays) get(ref);
    if (round == 0 && !ready.empty()) rt::touch(ready);
  }
}

int driver(std::span<char* const> args) {
  const std::string mode = args.size() > 1 ? args[1] : "";
  const std::string file = args.size() > 2 ? args[2] : "";
  if (mode == "hello") {
    std::printf("%d\n", get(task<&square>.remote(12)));
    return 0;
  }
  if (mode == "args") {
    for (char* a : args.subspan(2)) std::printf("[%s]", a);
    std::printf("\ncpus %g space '%s' args %zu\n", troupe::cluster_resources()["CPU"],
                troupe::runtime_context().name_space.c_str(), args.size());
    return 0;
  }
  if (mode == "code") return std::stoi(file);
  if (mode == "throw") throw std::out_of_range("left the driver");
  if (mode == "throw remote") { get(troupe::submit([]() -> int { throw std::domain_error("far away"); })); return 0; }
  if (mode == "busy") return busy(file);
  if (mode == "wait signal") {  // tells what its waits threw
    auto pet = actor<Pet>.remote();
    const int pet_pid = get(pet.call<&Pet::pid>());
    auto far = task<&nap>.remote(3'600'000);
    std::printf("pid %d\n", pet_pid);
    rt::touch(file);
    try {
      get(far);
    } catch (const troupe::CancelledError&) {
      std::printf("CancelledError %d\n", int(troupe::runtime_context().cancelled()));
      std::printf("pet %d\n", get(pet.call<&Pet::work>(5)));
      std::printf("square %d\n", get(task<&square>.remote(3)));
    }
    return 0;
  }
  if (mode == "thread waits") {  // another thread of the driver asks
    rt::touch(file);
    std::thread asks([] {
      rt::eventually([] { return troupe::runtime_context().cancelled(); }, 30);
      std::printf("thread %d\n", int(troupe::runtime_context().cancelled()));
    });
    try { troupe::sleep_for(1h); } catch (const troupe::CancelledError&) { std::printf("CancelledError\n"); }
    asks.join();
    return 0;
  }
  if (mode == "ignore signal") {
    auto pet = actor<Pet>.remote();
    get(pet.call<&Pet::pid>());
    auto far = task<&spin>.remote();
    rt::touch(file);
    for (;;) {
      try {
        troupe::sleep_for(1h);
      } catch (const troupe::CancelledError&) {
        std::printf("told\n");
        std::fflush(stdout);
      }
    }
  }
  if (mode == "no workers") {  // as main says
    try {
      get(actor<Pet>.remote().call<&Pet::pid>());
    } catch (const troupe::RuntimeEnvError&) {
      return 5;
    }
  }
  if (mode == "exit inside") ::exit(9);
  if (mode == "_exit inside") { (void)task<&spin>.remote(); get(task<&square>.remote(1)); ::_exit(9); }
  if (mode == "abort") { (void)actor<Pet>.remote(); get(task<&square>.remote(1)); std::abort(); }
  if (mode == "unfinished") {  // returns with everything still running
    auto a = task<&spin>.remote();
    auto b = task<&nap>.remote(3'600'000);
    auto pet = actor<Pet>.remote();
    get(pet.call<&Pet::pid>());
    auto c = pet.call<&Pet::work>(3'600'000);
    auto stream = troupe::submit([]() -> troupe::Generator<int> { for (int i = 0;; ++i) co_yield i; });
    (void)*stream.begin();
    return 4;
  }
  std::fprintf(stderr, "no such mode: %s\n", mode.c_str());
  return 77;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const char* role = std::getenv("TROUPE_INTERNAL_ROLE");
  if (mode == "no workers" && role && std::string(role) == "launcher") return 3;  // before run
  if (mode == "twice") {  // run may be called again; refs of the first time are harmless
    troupe::ObjectRef<int> kept;
    Leftovers left;
    for (int i = 0; i < 5; ++i) {
      const int code = troupe::run(argc, argv, {.cpus = 2}, [&] {
        auto next = task<&square>.remote(i);
        const int value = get(next);
        if (i > 0) CHECK_EQ(get(kept), (i - 1) * (i - 1));
        kept = next;
        if (i > 0) left.are_refused();
        else left.make();
        return value;
      });
      if (code != i * i) return 100 + i;
      try {
        troupe::put(1);
        return 50;
      } catch (const troupe::InvalidArgumentError&) {
      }
    }
    if (rt::failures > 0) return 51;
    std::printf("twice\n");
    return 0;
  }
  return troupe::run(argc, argv, &driver);
}
