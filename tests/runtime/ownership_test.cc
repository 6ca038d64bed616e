// Ownership: what keeps an object alive, that nothing is kept longer, and what readers see when an owner dies.
#include <future>
#include <map>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorHandle, troupe::Array, troupe::ArrayBuilder, troupe::ObjectRef, troupe::OwnerDiedError,
    troupe::actor, troupe::get, troupe::put, troupe::task;

namespace {

constexpr std::size_t kBig = 100'000;  // doubles: 800 kB, surely in the store

Array<double> filled(double value) {
  ArrayBuilder<double> b(kBig);
  for (std::size_t i = 0; i < kBig; ++i) b[i] = value;
  return std::move(b).seal();
}
double sum(Array<double> a) {
  double s = 0;
  for (double x : a) s += x;
  return s;
}
double sum_ref(ObjectRef<Array<double>> a) { return sum(get(a)); }
ObjectRef<Array<double>> put_inside(double value) { return put(filled(value)); }
struct Nest {
  std::vector<ObjectRef<Array<double>>> refs;
  std::map<std::string, ObjectRef<int>> numbers;
  Array<float> direct;
};
Nest nest(int n) {
  Nest out;
  for (int i = 0; i < n; ++i) out.refs.push_back(put(filled(i)));
  for (int i = 0; i < n; ++i) out.numbers[std::to_string(i)] = put(i);
  ArrayBuilder<float> b(kBig);
  for (auto& x : b) x = 2;
  out.direct = std::move(b).seal();
  return out;
}
double read_nest(Nest nest) {
  double s = 0;
  for (auto& ref : nest.refs) s += get(ref)[0];
  for (auto& [name, ref] : nest.numbers) s += get(ref);
  return s + nest.direct[0];
}
/// Passes the ref on to another process, n times.
double chain(ObjectRef<Array<double>> a, int more) {
  if (more == 0) return get(a)[0];
  return get(task<&chain>.remote(ObjectRef<Array<double>>(a), more - 1));
}
double by_name(ObjectRef<ObjectRef<Array<double>>> inner) { return get(get(inner))[0]; }

class Keeper {
 public:
  void keep(ObjectRef<Array<double>> a) { kept_ = std::move(a); }
  void keep_nest(Nest n) { nest_ = std::move(n); }
  double read() { return kept_ ? get(kept_)[0] : -1; }
  double read_nest() { return ::read_nest(nest_); }
  ObjectRef<Array<double>> give() { return kept_; }
  ObjectRef<Array<double>> make(double value) { return put(filled(value)); }
  ObjectRef<int> make_small(int value) { return put(value); }
  void drop() { kept_ = {}; nest_ = {}; }
  double hand_on(ActorHandle<Keeper> other) {
    get(other.call<&Keeper::keep>(kept_));
    return 1;
  }
  ObjectRef<int> pending(std::string gate) { return task<&Keeper::wait_gate>.remote(gate); }
  static int wait_gate(std::string gate) {
    rt::wait_for_file(gate);
    return 1;
  }
  int pid() { return ::getpid(); }

 private:
  ObjectRef<Array<double>> kept_;
  Nest nest_;
};
class Holder {  // keeps the handle of another actor
 public:
  explicit Holder(ActorHandle<Keeper> other) : other_(std::move(other)) {}
  int ask() { return get(other_.call<&Keeper::pid>()); }
  ActorHandle<Keeper> give() { return other_; }

 private:
  ActorHandle<Keeper> other_;
};
std::tuple<ObjectRef<int>, int> put_and_pid() { return {put(5), ::getpid()}; }
int same(int x) { return x; }
ActorHandle<Keeper> made_in_task() {
  auto keeper = actor<Keeper>.remote();
  get(keeper.ready());
  return keeper;
}
int fails_with_refs(ObjectRef<Array<double>> a) {
  get(a);
  throw std::runtime_error("no");
}
int crashes_with_refs(ObjectRef<Array<double>> a) {
  get(a);
  rt::crash();
}

/// Does the check, then waits until the store and this process's objects are as they were.
void leaves_nothing(const char* what, const std::function<void()>& check) {
  const auto store = troupe::object_store_usage();
  const std::size_t objects = troupe::list_objects({.limit = 100000}).size();
  check();
  const bool clean = rt::eventually(
      [&] {
        return troupe::object_store_usage().objects <= store.objects &&
               troupe::list_objects({.limit = 100000}).size() <= objects;
      },
      20);
  if (!CHECK(clean)) {
    const auto after = troupe::object_store_usage();
    std::fprintf(stderr, "  %s left: %zu -> %zu buffers, %zu -> %zu bytes, %zu -> %zu objects\n", what,
                 std::size_t(store.objects), std::size_t(after.objects), std::size_t(store.used),
                 std::size_t(after.used), objects, troupe::list_objects({.limit = 100000}).size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(
      argc, argv, {.cpus = 2, .object_store_memory = 256 << 20},
      {
          {"values, results, arguments, nests: nothing stays when nobody holds it",
           [] {
             leaves_nothing("put", [] {
               for (int i = 0; i < 20; ++i) CHECK_EQ(get(put(filled(i)))[5], i);
             });
             leaves_nothing("small put", [] {
               for (int i = 0; i < 1000; ++i) CHECK_EQ(get(put(i)), i);
             });
             leaves_nothing("result", [] {
               for (int i = 0; i < 20; ++i) CHECK_EQ(get(task<&filled>.remote(i))[5], i);
             });
             leaves_nothing("unread result", [] {
               for (int i = 0; i < 20; ++i) (void)task<&filled>.remote(i);
             });
             leaves_nothing("value argument", [] {
               for (int i = 0; i < 20; ++i) CHECK_EQ(get(task<&sum>.remote(filled(1))), double(kBig));
             });
             leaves_nothing("ref argument", [] {
               auto ref = put(filled(1));
               for (int i = 0; i < 20; ++i) CHECK_EQ(get(task<&sum>.remote(ref)), double(kBig));
             });
             leaves_nothing("ref as ref", [] {
               auto ref = put(filled(1));
               for (int i = 0; i < 20; ++i) CHECK_EQ(get(task<&sum_ref>.remote(ref)), double(kBig));
             });
             leaves_nothing("dependency chain",
                            [] { CHECK_EQ(get(task<&sum>.remote(task<&filled>.remote(2))), 2.0 * kBig); });
             leaves_nothing("nest", [] { CHECK_EQ(get(task<&read_nest>.remote(task<&nest>.remote(5))), 22.0); });
             leaves_nothing("nest unread", [] {
               for (int i = 0; i < 5; ++i) (void)task<&nest>.remote(5);
             });
             leaves_nothing("nest put", [] { CHECK_EQ(read_nest(get(put(nest(5)))), 22.0); });
           }},
          {"a ref passes through many processes and outlives those that passed it on",
           [] {
             leaves_nothing("chain", [] { CHECK_EQ(get(task<&chain>.remote(put(filled(3)), 4)), 3.0); });
             leaves_nothing("inner ref", [] {
               CHECK_EQ(get(task<&by_name>.remote(ObjectRef<ObjectRef<Array<double>>>(put(put(filled(4)))))), 4.0);
             });
             leaves_nothing("returned ref", [] {
               for (int i = 0; i < 10; ++i) CHECK_EQ(get(get(task<&put_inside>.remote(i)), {.timeout = 20s})[7], i);
             });
             leaves_nothing("returned ref, passed on", [] {
               CHECK_EQ(get(task<&sum_ref>.remote(get(task<&put_inside>.remote(1)))), double(kBig));
             });
           }},
          {"an actor that keeps a ref keeps the object, also after the driver let go",
           [] {
             leaves_nothing("kept", [] {
               auto keeper = actor<Keeper>.remote();
               keeper.cast<&Keeper::keep>(put(filled(8)));
               CHECK_EQ(get(keeper.call<&Keeper::read>()), 8.0);
               std::this_thread::sleep_for(50ms);
               CHECK_EQ(get(keeper.call<&Keeper::read>()), 8.0);
               get(keeper.call<&Keeper::keep_nest>(nest(3)));
               CHECK_EQ(get(keeper.call<&Keeper::read_nest>()), 8.0);
               CHECK_EQ(get(get(keeper.call<&Keeper::give>()))[0], 8.0);
               get(keeper.call<&Keeper::drop>());
               CHECK_EQ(get(keeper.call<&Keeper::read>()), -1.0);
             });
           }},
          {"a ref handed from actor to actor outlives the first one",
           [] {
             leaves_nothing("handed on", [] {
               auto a = actor<Keeper>.remote(), b = actor<Keeper>.remote();
               get(a.call<&Keeper::keep>(put(filled(9))));
               CHECK_EQ(get(a.call<&Keeper::hand_on>(b)), 1.0);
               troupe::kill(a);
               CHECK_EQ(get(b.call<&Keeper::read>(), {.timeout = 20s}), 9.0);
             });
           }},
          {"an actor that dies with refs gives them back",
           [] {
             leaves_nothing("died with refs", [] {
               auto a = actor<Keeper>.remote();
               get(a.call<&Keeper::keep>(put(filled(1))));
               get(a.call<&Keeper::keep_nest>(nest(4)));
               troupe::kill(a);
               CHECK(rt::eventually([&] { return !troupe::try_get(a.call<&Keeper::read>()).ok(); }));
             });
             leaves_nothing("scoped end", [] {
               auto a = actor<Keeper>.remote();
               get(a.call<&Keeper::keep>(put(filled(1))));
             });
           }},
          {"tasks that fail or crash give their arguments back",
           [] {
             leaves_nothing(
                 "failed", [] { CHECK_THROWS(troupe::TaskError, get(task<&fails_with_refs>.remote(put(filled(1))))); });
             leaves_nothing("crashed",
                            [] {
                              auto ref = task<&crashes_with_refs>.options({.retry = {.max_retries = 1,
                                  .backoff = {.initial = 1ms}}}).remote(put(filled(1)));
                              CHECK_THROWS(troupe::WorkerCrashedError, get(ref));
                            });
             leaves_nothing("cancelled", [] {
               std::vector<ObjectRef<double>> refs;
               for (int i = 0; i < 50; ++i) refs.push_back(task<&sum>.remote(filled(i)));
               for (auto& ref : refs) troupe::cancel(ref);
               for (auto& ref : refs) (void)troupe::try_get(ref);
             });
           }},
          {"a dead owner is a typed error, at every reader, within seconds",
           [] {
             rt::Folder dir;
             auto a = actor<Keeper>.remote();
             auto big = get(a.call<&Keeper::make>(1.0));
             auto small = get(a.call<&Keeper::make_small>(1));
             auto pending = get(a.call<&Keeper::pending>(dir / "gate"));
             auto elsewhere = task<&sum_ref>.remote(big);
             CHECK_EQ(get(elsewhere), double(kBig));
             auto waits = std::async(std::launch::async, [&] { return troupe::try_get(pending, {.timeout = 20s}); });
             troupe::kill(a);
             CHECK_THROWS(OwnerDiedError, get(pending, {.timeout = 20s}));
             auto seen = waits.get();
             CHECK(!seen.ok() && seen.error().code() == troupe::ErrorCode::kOwnerDied);
             CHECK_THROWS(OwnerDiedError, get(small, {.timeout = 20s}));
             CHECK_THROWS(OwnerDiedError, get(big, {.timeout = 20s}));
             CHECK_THROWS(OwnerDiedError, get(task<&sum_ref>.remote(big), {.timeout = 20s}));
             CHECK_THROWS(OwnerDiedError, get(task<&sum>.remote(big), {.timeout = 20s}));
             CHECK_EQ(troupe::wait(std::vector<ObjectRef<int>>{small, pending}, {.num_returns = 2, .timeout = 20s})
                          .ready.size(),
                      2);
             rt::touch(dir / "gate");
           }},
          {"a task's worker that dies after it returned a ref: its objects are lost with a typed error",
           [] {
             auto [ref, pid] = task<&put_and_pid>.remote();
             auto inner = get(ref);
             ::kill(get(pid), SIGKILL);
             CHECK_THROWS(OwnerDiedError, get(inner, {.timeout = 20s}));
             CHECK_EQ(get(task<&same>.remote(3)), 3);
           }},
          {"a ref to a pending result may be passed before it is there",
           [] {
             rt::Folder dir;
             auto keeper = actor<Keeper>.remote();
             auto pending = get(keeper.call<&Keeper::pending>(dir / "gate"));
             auto later = task<&same>.remote(pending);
             auto held = put(std::vector<ObjectRef<int>>{pending, later});
             rt::touch(dir / "gate");
             CHECK_EQ(get(later, {.timeout = 20s}), 1);
             int sum = 0;
             for (auto& ref : get(held)) sum += get(ref, {.timeout = 20s});
             CHECK_EQ(sum, 2);
           }},
          {"handles travel as refs do: in arguments, results and other actors",
           [] {
             auto keeper = get(task<&made_in_task>.remote());
             const int pid = get(keeper.call<&Keeper::pid>(), {.timeout = 20s});
             auto holder = actor<Holder>.remote(keeper);
             CHECK_EQ(get(holder.call<&Holder::ask>()), pid);
             keeper = {};
             CHECK_EQ(get(holder.call<&Holder::ask>()), pid);
             auto again = get(holder.call<&Holder::give>());
             holder = {};
             CHECK_EQ(get(again.call<&Keeper::pid>(), {.timeout = 20s}), pid);
             auto death = troupe::monitor(again);
             again = {};
             CHECK(get(death, {.timeout = 20s}).cause == troupe::DeathCause::kFinished);
           }},
          {"a thousand refs in one object, read elsewhere",
           [] {
             leaves_nothing("thousand", [] {
               Nest n;
               for (int i = 0; i < 1000; ++i) n.numbers[std::to_string(i)] = put(i);
               CHECK_EQ(get(task<&read_nest>.remote([&] {
                          ArrayBuilder<float> b(1);
                          b[0] = 0;
                          n.direct = std::move(b).seal();
                          return n;
                        }())),
                        499500.0);
             });
           }},
          {"an array outlives its ref and its object",
           [] {
             leaves_nothing("array", [] {
               Array<double> array;
               {
                 auto ref = task<&filled>.remote(6);
                 array = get(ref);
               }
               for (int i = 0; i < 30; ++i) CHECK_EQ(get(put(filled(i)))[0], i);
               CHECK_EQ(sum(array), 6.0 * kBig);
             });
           }},
      });
}
