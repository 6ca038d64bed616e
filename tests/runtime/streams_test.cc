// Generators: what the reader sees, how far ahead the producer runs, crashes in the middle, and what ends a producer.
#include "check.h"

using namespace std::chrono_literals;
using troupe::Generator, troupe::ObjectRef, troupe::RefStream, troupe::get, troupe::task, troupe::actor;

namespace {

struct Local {
  explicit Local(std::string file) : file(std::move(file)) {}
  ~Local() { rt::bump(file); }
  std::string file;
};

Generator<int> count_to(int n) { for (int i = 0; i < n; ++i) co_yield i; }
Generator<int> gated(std::string gate) {
  co_yield 1;
  rt::wait_for_file(gate);
  co_yield 2;
}
Generator<int> crash_once(std::string runs, int n, int at) {
  const int run = rt::bump(runs);
  for (int i = 0; i < n; ++i) {
    if (run == 1 && i == at) rt::crash();
    co_yield i;
  }
}
Generator<int> crash_always(int good) {
  for (int i = 0; i < good; ++i) co_yield i;
  rt::crash();
}
Generator<int> fail_after(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
  throw std::out_of_range("that was all");
}
Generator<int> track(std::string made, std::string destroyed) {
  Local local(destroyed);
  for (int i = 0;; ++i) {
    rt::bump(made);
    co_yield i;
  }
}
Generator<int> sleeper(std::string destroyed) {
  Local local(destroyed);
  co_yield 1;
  troupe::sleep_for(1h);
  co_yield 2;
}
Generator<int> computes(std::string pid) {
  co_yield 1;
  rt::write(pid, std::to_string(::getpid()));  // from here on it asks nobody
  for (volatile int i = 0;;) i = i + 1;
}
Generator<troupe::Array<double>> arrays(int n, int size) {
  for (int i = 0; i < n; ++i) {
    troupe::ArrayBuilder<double> b(size);
    for (int j = 0; j < size; ++j) b[j] = i;
    co_yield std::move(b).seal();
  }
}
Generator<ObjectRef<int>> refs(int n) { for (int i = 0; i < n; ++i) co_yield troupe::put(i); }
/// Goes on after it was interrupted, when `gate` is there.
Generator<int> stubborn(std::string gate, std::string told) {
  co_yield 0;
  try { rt::wait_for_file(gate); }
  catch (const troupe::Error&) { rt::touch(told); }
  rt::wait_for_file(gate);
  co_yield 100;
}
Generator<char> letters(const std::string& text) { for (char letter : text) co_yield letter; }
struct TellsCall {
  explicit TellsCall(std::string file) : file(std::move(file)) {}
  ~TellsCall() { rt::write(file, "ended in '" + troupe::runtime_context().task_name + "'"); }
  std::string file;
};
Generator<int> tells_call(std::string told) {
  TellsCall local(told);
  for (int i = 0;; ++i) co_yield i;
}
Generator<std::string> nothing() { co_return; }
Generator<int> doubles(ObjectRef<int> base, int n) { for (int i = 0; i < n; ++i) co_yield get(base) * i; }

class Source {
 public:
  Generator<int> numbers(int n) { for (int i = 0; i < n; ++i) co_yield next_++; }
  Generator<int> endless(std::string destroyed) {
    Local local(destroyed);
    for (int i = 0;; ++i) co_yield i;
  }
  Generator<char> letters(const std::string& text) { for (char letter : text) co_yield letter; }
  Generator<int> goes_on() {
    try { troupe::sleep_for(1h); }
    catch (const troupe::Error&) {}
    for (int i = 0; i < 1000; ++i) co_yield i;
  }
  int ping() { return 1; }

 private:
  int next_ = 0;
};
int read_one_then(troupe::ActorHandle<Source> source, std::string destroyed, std::string how) {
  auto stream = source.call<&Source::endless>(destroyed);
  auto at = stream.begin();
  const int first = get(*at);
  if (how == "crash") rt::crash();
  return first;
}

template <class T> std::vector<T> all(RefStream<T> stream) {
  std::vector<T> out;
  for (auto& item : stream) out.push_back(get(item));
  return out;
}
std::vector<int> up_to(int n) {
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(i);
  return out;
}
int sum_stream(int n) {
  int sum = 0;
  auto stream = task<&count_to>.remote(n);
  for (auto& item : stream) sum += get(item);
  return sum;
}
bool gone(const std::string& pid_file) {
  const std::string pid = rt::read(pid_file);
  return !pid.empty() && ::kill(std::stoi(pid), 0) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2}, {
    {"items come in order, each once, and the stream ends", [] {
      CHECK(all(task<&count_to>.remote(0)).empty());
      CHECK(all(task<&nothing>.remote()).empty());
      CHECK(all(task<&count_to>.remote(1)) == up_to(1));
      CHECK(all(task<&count_to>.remote(5000)) == up_to(5000));
    }},
    {"items can be read before the task ends", [] {
      rt::Folder dir;
      auto stream = task<&gated>.remote(dir / "gate");
      auto at = stream.begin();
      CHECK_EQ(get(*at), 1);
      rt::touch(dir / "gate");
      ++at;
      CHECK_EQ(get(*at), 2);
      ++at;
      CHECK(at == stream.end());
    }},
    {"a crash in the middle: the reader still sees each item once, also far beyond the window", [] {
      for (int at : {0, 1, 63, 64, 65, 500}) {
        rt::Folder dir;
        CHECK(all(task<&crash_once>.remote(dir / "runs", 700, at)) == up_to(700));
        CHECK_EQ(rt::count(dir / "runs"), 2);
      }
    }},
    {"a producer that always crashes gives its items, then a typed error as the last item", [] {
      auto stream = task<&crash_always>.options({.retry = {.max_retries = 1, .backoff = {.initial = 5ms}}}).remote(10);
      int n = 0;
      bool failed = false;
      for (auto& item : stream) {
        CHECK(!failed);
        auto value = troupe::try_get(item);
        if (value.ok()) CHECK_EQ(*value, n++);
        else {
          failed = true;
          CHECK(value.error().code() == troupe::ErrorCode::kWorkerCrashed);
        }
      }
      CHECK(failed);
    }},
    {"an exception is the last item", [] {
      auto stream = task<&fail_after>.remote(3);
      std::vector<troupe::Result<int>> seen;
      for (auto& item : stream) seen.push_back(troupe::try_get(item));
      CHECK_EQ(seen.size(), 4);
      const auto* error = dynamic_cast<const troupe::TaskError*>(&seen.back().error());
      CHECK(error && error->is<std::out_of_range>() && error->message() == "that was all");
    }},
    {"the producer runs at most its buffer ahead", [] {
      for (std::uint32_t buffer : {1u, 5u, 0u}) {
        rt::Folder dir;
        {
          auto stream = task<&track>.options({.stream_buffer = buffer}).remote(dir / "made", dir / "destroyed");
          auto at = stream.begin();
          const int most = int(buffer ? buffer : 64);
          for (int i = 1; i <= 100; ++i, ++at) CHECK_EQ(get(*at), i - 1);
          std::this_thread::sleep_for(100ms);
          const int made = rt::count(dir / "made");
          CHECK(made >= 101 && made <= 101 + most + 1);
        }
        CHECK(rt::eventually([&] { return rt::count(dir / "destroyed") == 1; }, 20));  // before the folder goes
      }
    }},
    {"dropping the stream stops the producer and destroys its locals, wherever it waits", [] {
      rt::Folder dir;
      { auto stream = task<&track>.remote(dir / "a", dir / "a gone"); auto at = stream.begin(); CHECK_EQ(get(*at), 0); }
      { auto stream = task<&sleeper>.remote(dir / "b gone"); auto at = stream.begin(); CHECK_EQ(get(*at), 1); }
      auto source = actor<Source>.remote();
      { auto stream = source.call<&Source::endless>(dir / "c gone"); auto at = stream.begin(); CHECK_EQ(get(*at), 0); }
      CHECK(rt::eventually(
          [&] {
            return rt::count(dir / "a gone") == 1 && rt::count(dir / "b gone") == 1 && rt::count(dir / "c gone") == 1;
          },
          20));
      CHECK_EQ(get(source.call<&Source::ping>(), {.timeout = 20s}), 1);
      CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 2; }, 20));
    }},
    {"dropping the stream ends a producer that only computes", [] {
      rt::Folder dir;
      {
        auto stream = task<&computes>.remote(dir / "pid");
        auto at = stream.begin();
        CHECK_EQ(get(*at), 1);
        // One that was dropped before it went on would end between two items, and its process would stay.
        CHECK(rt::eventually([&] { return !rt::read(dir / "pid").empty(); }, 20));
      }
      CHECK(rt::eventually([&] { return gone(dir / "pid"); }, 20));
    }},
    {"a stream that nobody begins to read is stopped too", [] {
      rt::Folder dir;
      { auto stream = task<&track>.remote(dir / "made", dir / "gone"); }
      {
        auto stream = task<&track>.remote(dir / "made2", dir / "gone2");
        CHECK(rt::eventually([&] { return rt::exists(dir / "made2"); }));
      }
      CHECK(rt::eventually([&] { return rt::count(dir / "gone2") == 1; }, 20));
      CHECK(rt::eventually([&] { return rt::count(dir / "made") == 0 || rt::count(dir / "gone") == 1; }, 20));
      CHECK(rt::eventually([] { return troupe::available_resources()["CPU"] == 2; }, 20));
    }},
    {"an actor whose stream's reader died goes on", [] {
      rt::Folder dir;
      auto source = actor<Source>.remote();
      auto reader =
          task<&read_one_then>.options({.retry = {.max_retries = 0}}).remote(source, dir / "gone",
              std::string("crash"));
      CHECK_THROWS(troupe::WorkerCrashedError, get(reader, {.timeout = 20s}));
      CHECK_EQ(get(source.call<&Source::ping>(), {.timeout = 20s}), 1);
      CHECK_EQ(rt::count(dir / "gone"), 1);
      CHECK_EQ(get(task<&read_one_then>.remote(source, dir / "gone", std::string("leave"))), 0);
      CHECK_EQ(get(source.call<&Source::ping>(), {.timeout = 20s}), 1);
      CHECK_EQ(rt::count(dir / "gone"), 2);
    }},
    {"streams of an actor's methods, in order with its other calls", [] {
      auto source = actor<Source>.remote();
      auto a = source.call<&Source::numbers>(10), b = source.call<&Source::numbers>(10);
      std::vector<int> seen;
      for (auto& item : a) seen.push_back(get(item));
      for (auto& item : b) seen.push_back(get(item));
      CHECK(seen == up_to(20));
    }},
    {"a cast of a generator runs to its end, however long, and its actor goes on", [] {
      auto source = actor<Source>.remote();
      source.cast<&Source::numbers>(1000);
      auto after = source.call<&Source::ping>();
      CHECK_EQ(get(after, {.timeout = 30s}), 1);  // at f0736ec its actor waited for a reader from item 65 on
      CHECK(all(source.call<&Source::numbers>(2)) == std::vector<int>({1000, 1001}));
    }},
    {"an idempotency key on a generator is refused", [] {
      auto source = actor<Source>.remote();
      CHECK_THROWS(troupe::InvalidArgumentError, task<&count_to>.options({.idempotency_key = "k"}).remote(3));
      CHECK_THROWS(troupe::InvalidArgumentError, source.options({.idempotency_key = "k"}).call<&Source::numbers>(3));
      CHECK_EQ(get(source.options({.idempotency_key = "k"}).call<&Source::ping>(), {.timeout = 30s}), 1);
    }},
    {"two streams read by turns, and a stream read in a task", [] {
      auto a = task<&count_to>.remote(300), b = task<&count_to>.remote(300);
      auto at = a.begin(), bt = b.begin();
      for (int i = 0; i < 300; ++i, ++at, ++bt) CHECK_EQ(get(*at) + get(*bt), 2 * i);
      CHECK(at == a.end() && bt == b.end());
      CHECK_EQ(get(task<&sum_stream>.remote(1000)), 499500);
    }},
    {"what a late producer still makes goes to no other stream", [] {
      rt::Folder dir;
      {
        auto late = task<&stubborn>.options({.name = "late", .timeout = 3s}).remote(dir / "gate", dir / "told");
        auto at = late.begin();
        CHECK_EQ(get(*at), 0);
        ++at;
        CHECK_THROWS(troupe::DeadlineExceededError, get(*at));
      }
      auto stream = task<&gated>.remote(dir / "gate2");  // at 737bcd8 it had the memory of the one before
      auto at = stream.begin();
      CHECK_EQ(get(*at), 1);
      CHECK(rt::eventually([&] { return rt::exists(dir / "told"); }, 20));
      rt::touch(dir / "gate");
      CHECK(rt::eventually([] { return troupe::list_tasks({.filter = {{"name", "late"}}}).empty(); }, 20));
      rt::touch(dir / "gate2");
      ++at;
      CHECK_EQ(get(*at), 2);
      ++at;
      CHECK(at == stream.end());
    }},
    {"a generator may take its arguments by reference, and be a closure with captures", [] {
      const std::string text = "a text that is too long to stand in the string itself";
      auto made = all(task<&letters>.remote(text));
      CHECK_EQ(std::string(made.begin(), made.end()), text);
      auto source = actor<Source>.remote();
      made = all(source.call<&Source::letters>(text));
      CHECK_EQ(std::string(made.begin(), made.end()), text);
      const int from = 1000, step = 3;
      auto closure = [from, step](const int& n) -> Generator<int> {
        for (int i = 0; i < n; ++i) co_yield from + i * step;
      };
      CHECK(all(troupe::submit(closure, 4)) == std::vector<int>({1000, 1003, 1006, 1009}));
    }},
    {"the locals of a generator that is interrupted before its next item end within its call", [] {
      rt::Folder dir;
      auto stream = task<&tells_call>.options({.name = "the call", .timeout = 2s}).remote(dir / "told");
      CHECK(rt::eventually([&] { return rt::exists(dir / "told"); }, 20));
      CHECK_EQ(rt::read(dir / "told"), "ended in 'the call'");
    }},
    {"a generator that goes on after its timeout ends where it would wait for its reader", [] {
      for (auto isolation : {troupe::Isolation::kProcess, troupe::Isolation::kLight}) {
        auto source = actor<Source>.options({.isolation = isolation}).remote();
        auto stream = source.options({.timeout = 200ms}).call<&Source::goes_on>();
        CHECK_THROWS(troupe::DeadlineExceededError, get(*stream.begin(), {.timeout = 20s}));
        CHECK_EQ(get(source.call<&Source::ping>(), {.timeout = 20s}), 1);  // at 737bcd8 its actor did nothing more
      }
    }},
    {"items may be arrays and refs, and arguments refs", [] {
      int n = 0;
      auto items = task<&arrays>.remote(100, 20000);
      for (auto& item : items) {
        auto array = get(item);
        CHECK(array.size() == 20000 && array[0] == n && array[19999] == n);
        ++n;
      }
      CHECK_EQ(n, 100);
      int sum = 0;
      auto inner = task<&refs>.remote(50);
      std::vector<ObjectRef<int>> kept;
      for (auto& item : inner) kept.push_back(get(item));
      for (auto& ref : kept) sum += get(ref, {.timeout = 20s});
      CHECK_EQ(sum, 1225);
      CHECK(all(task<&doubles>.remote(troupe::put(3), 3)) == std::vector<int>({0, 3, 6}));
    }},
    {"unread and half-read streams of arrays leave nothing in the store", [] {
      const auto before = troupe::object_store_usage();
      for (int round = 0; round < 5; ++round) {
        auto stream = task<&arrays>.remote(100, 50000);
        auto at = stream.begin();
        for (int i = 0; i < 10 * round; ++i) ++at;
      }
      CHECK(rt::eventually([&] { return troupe::object_store_usage().objects <= before.objects; }, 20));
    }},
    {"a stream whose argument fails gives that error as its only item", [] {
      auto bad = troupe::submit([]() -> int { throw std::logic_error("no base"); });
      auto stream = task<&doubles>.remote(troupe::put(1), bad);
      int n = 0;
      for (auto& item : stream) {
        CHECK_THROWS(troupe::TaskError, get(item));
        ++n;
      }
      CHECK_EQ(n, 1);
    }},
  });
}
