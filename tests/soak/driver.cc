// A driver that uses everything once (or again and again, until it is killed), for drivers.py, which counts what it
// leaves.
//
//   work N SEED       one round of everything with its results checked; 0 when all was right
//   forever N SEED    the same without end
//   tasks N           tasks alone without end: they are retried when their workers die
//   unkeep N          ends the detached actor that driver N may have left, as it may
//   keep N, ask N     leaves such an actor; calls it (built with SOAK_OTHER_BUILD its functions are others: it is
//                     refused)
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <troupe/state.h>
#include <troupe/troupe.h>

using namespace std::chrono_literals;
using troupe::actor, troupe::get, troupe::ObjectRef, troupe::task;

namespace {

constexpr std::size_t kLarge = 1 << 20;  // of doubles: 8 MiB, a twentieth of the store

int square(int x) { return x * x; }
int sum_of_squares(int n) {
  std::vector<ObjectRef<int>> parts;
  for (int i = 0; i < n; ++i) parts.push_back(task<&square>.remote(i));
  int sum = 0;
  for (int part : get(parts)) sum += part;
  return sum;
}
troupe::Array<double> filled(double value) {
  troupe::ArrayBuilder<double> builder(kLarge);
  for (double& v : builder.span()) v = value;
  return std::move(builder).seal();
}
double first_and_last(troupe::Array<double> values) { return values.span().front() + values.span().back(); }
troupe::Generator<int> count_up(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
int crash() { ::_exit(3); }
int nap(int ms) {
  troupe::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}

class Tally {
 public:
  int add(int n) { return total_ += n; }
  double keep(troupe::Array<double> values) {
    kept_ = std::move(values);
    return kept_.span().front();
  }

 private:
  int total_ = 0;
  troupe::Array<double> kept_;
};

bool all_right = true;
void expect(bool ok, const char* what) {
  if (ok) return;
  all_right = false;
  std::fprintf(stderr, "wrong: %s\n", what);
}

void tasks() {
  expect(get(task<&sum_of_squares>.remote(10)) == 285, "nested tasks");
  std::vector<ObjectRef<int>> many;
  for (int i = 0; i < 200; ++i) many.push_back(task<&square>.remote(i));
  expect(get(many).back() == 199 * 199, "many tasks");
  auto dies = task<&crash>.options({.retry = {.max_retries = 0}}).remote();
  expect(!troupe::try_get(dies).ok(), "a crash is an error");
  auto late = task<&nap>.remote(600'000);
  troupe::cancel(late);
  expect(!troupe::try_get(late).ok(), "a cancelled task is an error");
}

void objects(int seed) {
  auto made = task<&filled>.remote(seed);
  auto put = troupe::put(filled(2));
  expect(get(task<&first_and_last>.remote(made)) == 2.0 * seed, "an array of a task");
  expect(get(task<&first_and_last>.remote(put)) == 4, "an array that was put");
  expect(get(put).size() == kLarge, "an array that was got");
}

void streams() {
  int sum = 0;
  for (auto item : task<&count_up>.remote(100)) sum += get(item);
  expect(sum == 4950, "a generator to its end");
  auto dropped = task<&count_up>.remote(1'000'000);
  expect(get(*dropped.begin()) == 0, "a generator that is dropped");
}

void actors(int seed) {
  auto named = actor<Tally>.options({.name = "tally", .max_restarts = 1}).remote();
  auto detached = actor<Tally>.options({.name = "kept", .lifetime = troupe::Lifetime::kDetached}).remote();
  std::vector<troupe::ActorHandle<Tally>> light;
  for (int i = 0; i < 20; ++i) light.push_back(actor<Tally>.options({.isolation = troupe::Isolation::kLight}).remote());
  for (int i = 0; i < 20; ++i) named.cast<&Tally::add>(1);
  expect(get(troupe::get_actor<Tally>("tally").call<&Tally::add>(1)) == 21, "an actor by its name");
  expect(get(detached.call<&Tally::keep>(troupe::put(filled(seed)))) == seed, "an actor that keeps an array");
  std::vector<ObjectRef<int>> refs;
  for (auto& one : light) refs.push_back(one.call<&Tally::add>(5));
  for (int value : get(refs)) expect(value == 5, "light actors");
  troupe::kill(detached);
}

#ifdef SOAK_OTHER_BUILD
int cube(int x) { return x * x * x; }
#endif

int driver(std::span<char* const> arguments) {
  const std::string mode = arguments.size() > 2 ? arguments[1] : "";
  const int seed = arguments.size() > 3 ? std::atoi(arguments[3]) : 1;
  if (mode == "unkeep") {
    if (auto kept = troupe::try_get_actor<Tally>("kept"); kept.ok()) troupe::kill(*kept);
    return 0;
  }
  if (mode == "keep")
    return get(actor<Tally>.options({.name = "kept", .lifetime = troupe::Lifetime::kDetached})
        .remote().call<&Tally::add>(1)) -
           1;
  if (mode == "ask") {
#ifdef SOAK_OTHER_BUILD
    get(task<&cube>.remote(2));
#endif
    try {
      std::printf("total %d\n", get(troupe::get_actor<Tally>("kept").call<&Tally::add>(1)));
      return 0;
    } catch (const troupe::UnauthenticatedError& error) {
      std::printf("refused: %s\n", error.what());
      return 5;
    }
  }
  while (mode == "tasks" && all_right) tasks();
  if (mode != "work" && mode != "forever") {
    std::fprintf(stderr, "usage: soak_driver work|forever|tasks|unkeep|keep|ask N [SEED]\n");
    return 2;
  }
  do {
    tasks();
    objects(seed);
    streams();
    actors(seed);
  } while (mode == "forever" && all_right);
  return all_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string space = std::string("soak-") + (argc > 2 ? argv[2] : "none");
  return troupe::run(argc, argv, {.name_space = space}, &driver);
}
