// A small store under pressure: writers wait for room, objects are spilled and come back whole, what can never fit is refused,
// and afterwards all of it is free.
#include "check.h"

using namespace std::chrono_literals;
using troupe::Array, troupe::ArrayBuilder, troupe::ObjectRef, troupe::get, troupe::put, troupe::task;

namespace {

constexpr std::size_t kStore = 64 << 20;
constexpr std::size_t kN = 1 << 19;  // doubles: 4 MiB

Array<double> filled(int value) {
  ArrayBuilder<double> b(kN);
  for (std::size_t i = 0; i < kN; ++i) b[i] = value + double(i % 1000);
  return std::move(b).seal();
}
bool right(const Array<double>& a, int value) {
  if (a.size() != kN) return false;
  for (std::size_t i = 0; i < kN; i += 97)
    if (a[i] != value + double(i % 1000)) return false;
  return true;
}
int check_it(Array<double> a, int value) { return right(a, value); }

}  // namespace

int main(int argc, char** argv) {
  return rt::main(argc, argv, {.cpus = 2, .object_store_memory = kStore}, {
    {"four times the store, put and read back whole", [] {
      std::vector<ObjectRef<Array<double>>> refs;
      for (int i = 0; i < 64; ++i) refs.push_back(put(filled(i)));
      for (int i = 0; i < 64; ++i) CHECK(right(get(refs[i], {.timeout = 60s}), i));
      for (int i = 63; i >= 0; i -= 7) CHECK_EQ(get(task<&check_it>.remote(refs[i], i), {.timeout = 60s}), 1);
    }},
    {"results of tasks beyond the store", [] {
      std::vector<ObjectRef<Array<double>>> refs;
      for (int i = 0; i < 40; ++i) refs.push_back(task<&filled>.remote(i));
      for (int i = 0; i < 40; ++i) CHECK(right(get(refs[i], {.timeout = 60s}), i));
    }},
    {"what can never fit is refused with a typed error", [] {
      CHECK_THROWS(troupe::ObjectStoreFullError, (void)ArrayBuilder<double>(kStore));
      CHECK_THROWS(troupe::ObjectStoreFullError, put(std::string(kStore + (1 << 20), 'x')));
      CHECK_THROWS(troupe::InvalidArgumentError, (void)ArrayBuilder<double>({std::size_t(1) << 40, std::size_t(1) << 40}));
      CHECK_EQ(ArrayBuilder<double>(0).size(), 0);
      CHECK(right(get(put(filled(1))), 1));
    }},
    {"a writer waits for room that a reader holds, and goes on when it is given back", [] {
      std::vector<Array<double>> held;
      for (int i = 0; i < 13; ++i) held.push_back(get(put(filled(i))));
      auto more = task<&filled>.remote(50);
      std::vector<ObjectRef<Array<double>>> others;
      for (int i = 0; i < 8; ++i) others.push_back(task<&filled>.remote(60 + i));
      std::this_thread::sleep_for(300ms);
      for (std::size_t i = 0; i < held.size(); ++i) CHECK(right(held[i], int(i)));
      held.clear();
      CHECK(right(get(more, {.timeout = 60s}), 50));
      for (int i = 0; i < 8; ++i) CHECK(right(get(others[i], {.timeout = 60s}), 60 + i));
    }},
    {"nothing stays", [] {
      CHECK(rt::eventually([] { auto u = troupe::object_store_usage(); return u.objects == 0; }, 30));
      CHECK_EQ(troupe::object_store_usage().spilled, 0);
    }},
  }, 150);
}
