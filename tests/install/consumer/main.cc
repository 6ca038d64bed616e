#include <troupe/troupe.h>

#include <cstdio>

int add(int a, int b) { return a + b; }

class Counter {  // a plain class: no base, no macro
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int delta) { return value_ += delta; }

 private:
  int value_;
};

int driver() {
  troupe::ObjectRef<int> three = troupe::task<&add>.remote(1, 2);   // runs in a worker process
  troupe::ObjectRef<int> ten = troupe::task<&add>.remote(three, 7); // a ref is an argument
  auto counter = troupe::actor<Counter>.options({.name = "hits", .max_restarts = 3}).remote(0);
  counter.cast<&Counter::add>(1);                                   // no reply
  troupe::ObjectRef<int> six = counter.call<&Counter::add>(5);      // ordered per caller

  troupe::ArrayBuilder<float> builder(1 << 20);                     // memory of the object store
  for (float& x : builder.span()) x = 0.5f;
  auto data = troupe::put(std::move(builder).seal());
  troupe::Array<float> view = troupe::get(data);                    // pinned, read-only, not copied

  std::printf("%d %d %zu\n", troupe::get(ten), troupe::get(six), view.size());
  return troupe::get(ten) == 10 ? 0 : 1;
}

int main(int argc, char** argv) { return troupe::run(argc, argv, &driver); }
