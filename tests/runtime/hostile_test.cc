// What a user who means no good, or is only unlucky, does with values, refs and streams: features combined where each
// alone is proved elsewhere. Every case ends with the right value or a typed error, leaves worker and store usable, and
// hangs nowhere. The same for actors and their ends: hostile_actor_test.cc.
#include <future>

#include "check.h"

using namespace std::chrono_literals;
using troupe::ActorDiedError, troupe::ActorHandle, troupe::Array, troupe::CancelledError, troupe::Generator,
    troupe::ObjectRef, troupe::TaskError, troupe::actor, troupe::get, troupe::put, troupe::submit, troupe::task,
    troupe::try_get;

namespace {

constexpr std::size_t kStore = 64 << 20;

struct NoStandardError { int x = 7; };

/// Throws where it is told to: 1 while it is written, 2 while it is read; the fuse burns down with each.
struct Bomb {
  int where = 0;
  std::string text = "harmless";
  template <class Archive> void serialize(Archive& ar) {
    ar(where, text);
    if constexpr (Archive::kReading) {
      if (where == 2) throw std::domain_error("while reading");
      if (where == 3) throw 3;
      if (where == 4) ar.fail("refused");
    } else if (where == 1) {
      throw std::domain_error("while writing");
    }
  }
};
std::string open_bomb(Bomb bomb) { return bomb.text; }
Bomb make_bomb(int where) { return {where, "made"}; }
Generator<Bomb> bombs() {
  co_yield Bomb{0, "first"};
  co_yield Bomb{1, "second"};
  co_yield Bomb{0, "third"};
}

int square(int x) { return x * x; }
int late(std::string gate, int x) {
  rt::wait_for_file(gate);
  return x;
}
int throws_anything(int kind) {
  if (kind == 0) throw NoStandardError{};
  if (kind == 1) throw "text";
  if (kind == 2) throw nullptr;
  if (kind == 3) throw std::make_shared<int>(3);
  return kind;
}
Generator<int> throws_after(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
  throw NoStandardError{};
}
std::string text_of(std::size_t n) { return std::string(n, 'x'); }
Generator<std::string> small_then_huge() {
  co_yield "small";
  co_yield std::string(kStore + (1 << 20), 'x');
}
int count_attempts(std::string file, int good) {
  const int run = rt::bump(file);
  if (troupe::runtime_context().attempt != run - 1) throw std::logic_error("attempt is wrong");
  if (run < good) throw std::out_of_range("again");
  return run;
}
bool out_of_range_only(const TaskError& e) { return e.is<std::out_of_range>(); }

struct Parcel {
  ObjectRef<int> number;
  std::vector<ObjectRef<Array<int>>> arrays;
  std::optional<ActorHandle<class Keeper>> from;
};
Array<int> array_of(int x, std::size_t n = 50000) {
  troupe::ArrayBuilder<int> b(n);
  for (auto& v : b) v = x;
  return std::move(b).seal();
}

/// Holds and gives out what its callers hand to it.
class Keeper {
 public:
  int add(int x) { return sum_ += x; }
  int throws(int kind) { return throws_anything(kind); }
  Generator<Parcel> parcels(int n) {
    for (int i = 0; i < n; ++i) {
      Parcel p;
      p.number = put(i);
      for (int k = 0; k < 3; ++k) p.arrays.push_back(put(array_of(i + k)));
      co_yield p;
    }
  }
  void keep(Parcel p) { kept_.push_back(std::move(p)); }
  int read() { return get(kept_.at(0).number); }

 private:
  int sum_ = 0;
  std::vector<Parcel> kept_;
};
Generator<Parcel> parcels_of_task(int n) {
  for (int i = 0; i < n; ++i) {
    Parcel p;
    p.number = task<&square>.remote(i);
    p.arrays.push_back(put(array_of(i)));
    co_yield p;
  }
}

class ThrowsAtEnd {
 public:
  int ping() { return 1; }
  ~ThrowsAtEnd() noexcept(false) { throw NoStandardError{}; }
};
class ThrowsAtStart {
 public:
  explicit ThrowsAtStart(int) { throw NoStandardError{}; }
  int ping() { return 1; }
};

void store_is_empty_again(std::size_t objects = 0) {
  CHECK(rt::eventually([&] { return troupe::object_store_usage().objects <= objects; }, 20));
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(
      argc, argv, {.cpus = 2, .object_store_memory = kStore},
      {
          {"exceptions of any type leave functions, methods, constructors, destructors and generators as TaskErrors",
           [] {
             auto e = CHECK_THROWS(TaskError, get(task<&throws_anything>.remote(0)));
             CHECK(e && e->type_name().find("NoStandardError") != std::string::npos && e->is<NoStandardError>() &&
                   !e->is<std::exception>());
             for (int kind : {1, 2, 3}) CHECK_THROWS(TaskError, get(task<&throws_anything>.remote(kind)));
             auto a = actor<Keeper>.remote();
             for (int kind : {0, 1, 2, 3}) CHECK_THROWS(TaskError, get(a.call<&Keeper::throws>(kind)));
             CHECK_EQ(get(a.call<&Keeper::add>(2)), 2);
             auto b = actor<ThrowsAtStart>.remote(1);
             CHECK_THROWS(TaskError, get(b.ready(), {.timeout = 20s}));
             CHECK_THROWS(TaskError, get(b.call<&ThrowsAtStart::ping>(), {.timeout = 20s}));
             auto c = actor<ThrowsAtEnd>.remote();
             CHECK_EQ(get(c.call<&ThrowsAtEnd::ping>()), 1);
             auto death = troupe::monitor(c);
             troupe::stop(c);
             CHECK(get(death, {.timeout = 20s}).cause == troupe::DeathCause::kFinished);
             int seen = 0;
             bool failed = false;
             for (auto& item : task<&throws_after>.remote(3)) {
               CHECK(!failed);
               auto r = try_get(item);
               if (r.ok()) CHECK_EQ(*r, seen++);
               else failed = r.error().code() == troupe::ErrorCode::kTask;
             }
             CHECK(seen == 3 && failed);
           }},
          {"serializing that throws: at the caller's door, in the argument, in the result, in an item",
           [] {
             CHECK_THROWS(std::domain_error, task<&open_bomb>.remote(Bomb{1}));
             CHECK_THROWS(std::domain_error, put(Bomb{1}));
             CHECK_THROWS(troupe::Error, get(task<&open_bomb>.remote(Bomb{2}), {.timeout = 20s}));
             CHECK_THROWS(troupe::Error, get(task<&open_bomb>.remote(Bomb{3}), {.timeout = 20s}));
             CHECK_THROWS(troupe::SerializationError, get(task<&open_bomb>.remote(Bomb{4}), {.timeout = 20s}));
             auto writes = CHECK_THROWS(TaskError, get(task<&make_bomb>.remote(1), {.timeout = 20s}));
             CHECK(writes && writes->message() == "while writing");
             CHECK_EQ(get(task<&open_bomb>.remote(task<&make_bomb>.remote(0))), "made");
             auto stored = put(Bomb{4});
             CHECK_THROWS(troupe::SerializationError, get(stored));
             CHECK(!try_get(stored).ok());
             std::vector<std::string> texts;
             for (auto& item : task<&bombs>.remote()) texts.push_back(try_get(item).ok() ? get(item).text : "error");
             CHECK(texts == std::vector<std::string>({"first", "error"}));
             std::promise<bool> told;
             troupe::on_ready(stored, [&](troupe::Result<Bomb>&& r) { told.set_value(r.ok()); });
             CHECK(!told.get_future().get());
           }},
          {"arguments, results and items that can never fit are refused, and the workers go on",
           [] {
             CHECK_THROWS(troupe::ObjectStoreFullError, task<&square>.remote(0);
                          (void)task<&open_bomb>.remote(Bomb{0, std::string(kStore + 1, 'a')}));
             CHECK_THROWS(troupe::ObjectStoreFullError,
                          get(task<&text_of>.remote(kStore + (1 << 20)), {.timeout = 30s}));
             int items = 0;
             bool full = false;
             for (auto& item : task<&small_then_huge>.remote()) {
               auto r = try_get(item, {.timeout = 30s});
               if (r.ok()) ++items;
               else full = r.error().code() == troupe::ErrorCode::kObjectStoreFull;
             }
             CHECK(items == 1 && full);
             CHECK_EQ(get(task<&text_of>.remote(1 << 20)).size(), 1 << 20);
             store_is_empty_again();
           }},
          {"refs and handles inside the items of streams live as long as somebody holds them",
           [] {
             {
               std::vector<Parcel> kept;
               for (auto& item : task<&parcels_of_task>.remote(12)) kept.push_back(get(item));
               for (int i = 0; i < 12; ++i) {
                 auto number = try_get(kept[i].number, {.timeout = 20s});
                 CHECK(number.ok() && *number == i * i);
                 CHECK_EQ(get(kept[i].arrays.at(0), {.timeout = 20s})[7], i);
               }
               auto a = actor<Keeper>.remote(), b = actor<Keeper>.remote();
               auto stream = a.call<&Keeper::parcels>(8);
               int n = 0;
               for (auto& item : stream) {
                 b.cast<&Keeper::keep>(item);  // a ref to an item, for a value parameter
                 if (++n == 5) break;
               }
               CHECK_EQ(get(b.call<&Keeper::read>(), {.timeout = 20s}), 0);
             }
             for (int i = 0; i < 5; ++i) (void)task<&parcels_of_task>.remote(10);  // nobody reads
             store_is_empty_again();
           }},
          {"a call that waits for its argument is cancelled: it never runs, and those behind it go on",
           [] {
             rt::Folder dir;
             auto a = actor<Keeper>.remote();
             auto argument = task<&late>.remote(dir / "gate", 100);
             auto waits = a.call<&Keeper::add>(argument);
             auto behind = a.call<&Keeper::add>(1);
             CHECK_THROWS(troupe::GetTimeoutError, get(behind, {.timeout = 50ms}));
             troupe::cancel(waits);
             CHECK_THROWS(CancelledError, get(waits, {.timeout = 20s}));
             CHECK_EQ(get(behind, {.timeout = 20s}), 1);
             auto timed = a.options({.timeout = 100ms}).call<&Keeper::add>(argument);
             auto next = a.call<&Keeper::add>(1);
             CHECK_THROWS(troupe::DeadlineExceededError, get(timed, {.timeout = 20s}));
             CHECK_EQ(get(next, {.timeout = 20s}), 2);
             rt::touch(dir / "gate");
             CHECK_EQ(get(argument, {.timeout = 20s}), 100);
             CHECK_EQ(get(a.call<&Keeper::add>(1)), 3);
           }},
          {"the same ref many times in one call, also when it is late, fails, or is cancelled",
           [] {
             rt::Folder dir;
             auto add4 = [](int a, int b, int c, int d) { return a + b + c + d; };
             auto x = task<&late>.remote(dir / "gate", 5);
             auto sum = submit(add4, x, x, x, x);
             auto dead = task<&throws_anything>.remote(x);
             rt::touch(dir / "gate");
             CHECK_EQ(get(sum, {.timeout = 20s}), 20);
             CHECK_EQ(get(dead), 5);
             auto bad = task<&throws_anything>.remote(0);
             CHECK_THROWS(TaskError, get(submit(add4, bad, x, bad, x), {.timeout = 20s}));
             auto never = task<&late>.remote(dir / "never", 5);
             auto hangs = submit(add4, never, never, x, never);
             troupe::cancel(hangs);
             CHECK_THROWS(CancelledError, get(hangs, {.timeout = 20s}));
             troupe::cancel(never);
           }},
          {"get of many refs has one deadline, and leaves them as they were",
           [] {
             rt::Folder dir;
             std::vector<ObjectRef<int>> refs;
             auto x = task<&late>.remote(dir / "gate", 3);
             for (int i = 0; i < 500; ++i) refs.push_back(task<&square>.remote(x));
             const double start = rt::now();
             CHECK_THROWS(troupe::GetTimeoutError, get(refs, {.timeout = 100ms}));
             CHECK(rt::now() - start < 30);  // and not 500 times 100 ms
             rt::touch(dir / "gate");
             for (int v : get(refs, {.timeout = 30s})) CHECK_EQ(v, 9);
           }},
          {"retries: the predicate decides by type, attempts are counted, the budget is one",
           [] {
             rt::Folder dir;
             const troupe::RetryPolicy some{.max_retries = 4,
                                            .retry_error = &out_of_range_only,
                                            .backoff = {.initial = 1ms, .factor = 2, .max = 4ms, .jitter = 0}};
             CHECK_EQ(get(task<&count_attempts>.options({.retry = some}).remote(dir / "a", 4)), 4);
             auto e =
                 CHECK_THROWS(TaskError, get(task<&count_attempts>.options({.retry = some}).remote(dir / "b", 100)));
             CHECK(e && e->context().attempt == 4);
             CHECK_EQ(rt::count(dir / "b"), 5);
             CHECK_THROWS(TaskError, get(task<&throws_anything>.options({.retry = some}).remote(0)));
             auto two = task<&count_attempts>.options({.retry = {.max_retries = 0, .retry_error = &out_of_range_only}})
                 .remote(dir / "c", 2);
             CHECK_THROWS(TaskError, get(two));
             CHECK_EQ(rt::count(dir / "c"), 1);
           }},
          {"casts to the dead, refs of the dead, handles inside objects of the dead: typed, never a hang",
           [] {
             auto a = actor<Keeper>.remote(), b = actor<Keeper>.remote();
             auto stream = a.call<&Keeper::parcels>(3);
             auto parcel = get(*stream.begin());
             auto boxed = put(std::vector<ActorHandle<Keeper>>{a, b});
             troupe::kill(a);
             CHECK_THROWS(troupe::OwnerDiedError, get(parcel.number, {.timeout = 20s}));
             b.cast<&Keeper::keep>(parcel);
             CHECK_THROWS(troupe::OwnerDiedError, get(b.call<&Keeper::read>(), {.timeout = 20s}));
             a.cast<&Keeper::add>(1);
             CHECK_THROWS(ActorDiedError, get(get(boxed)[0].call<&Keeper::add>(1), {.timeout = 20s}));
             CHECK_EQ(get(get(boxed)[1].call<&Keeper::add>(1), {.timeout = 20s}), 1);
             CHECK_THROWS(troupe::OwnerDiedError, get(task<&square>.remote(parcel.number), {.timeout = 20s}));
           }},
          {"one result of several dropped, cancelled, waited for",
           [] {
             rt::Folder dir;
             auto pair = [](std::string gate) {
               rt::wait_for_file(gate);
               return std::tuple<int, std::string>(1, "two");
             };
             auto [a, b] = submit(pair, dir / "gate");
             a = {};
             CHECK_THROWS(troupe::GetTimeoutError, get(b, {.timeout = 50ms}));
             rt::touch(dir / "gate");
             CHECK_EQ(get(b, {.timeout = 20s}), "two");
             auto [c, d] = submit(pair, dir / "never");
             troupe::cancel(c);
             CHECK_THROWS(CancelledError, get(d, {.timeout = 20s}));
             CHECK_THROWS(CancelledError, get(c, {.timeout = 20s}));
           }},
      });
}
