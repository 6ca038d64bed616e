// Device arrays between actors: one puts them, another process of the node reads them, without a copy where CUDA lets
// it.
//
// Runs on a GPU, and, with TROUPE_CUDA_LIB naming the fake of tests/collective and TROUPE_DEVICE_IPC=0, without one
// (the bytes then go through the store). Exit code: 0 all right, 1 something is wrong, 77 no GPU or no plug-in (a
// skip).
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <troupe/collective.h>
#include <troupe/troupe.h>

namespace {

using troupe::collective::DeviceArray;

int failures = 0;
void expect(bool ok, const char* what) {
  if (ok) return;
  ++failures;
  std::printf("FAILED: %s\n", what);
}

std::vector<float> values_of(const DeviceArray<float>& array) {
  std::vector<float> host(array.size());
  array.copy_to(host);
  return host;
}

class Owner {
 public:
  /// Empty: there is a GPU.
  std::string lacks() {
    try {
      DeviceArray<float> probe(1);
      return "";
    } catch (const troupe::Error& error) {
      return error.what();
    }
  }
  troupe::ObjectRef<DeviceArray<float>> make(int rows, int columns, float value) {
    DeviceArray<float> array({std::size_t(rows), std::size_t(columns)});
    array.copy_from(std::vector<float>(array.size(), value));
    return troupe::put(std::move(array));
  }
  /// How many different addresses n arrays have, of which each is dropped before the next is made.
  int addresses(int n) {
    std::vector<const float*> seen;
    for (int k = 0; k < n; ++k) {
      const auto ref = make(1000, 100, float(k));
      const DeviceArray<float> array = troupe::get(ref);
      const float* const at = array.data();
      if (std::find(seen.begin(), seen.end(), at) == seen.end()) seen.push_back(at);
    }
    return int(seen.size());
  }
  /// DVA-1, in the process that owns it.
  bool immutable_after_put() {
    DeviceArray<float> array(10);
    array.copy_from(std::vector<float>(10, 1.0f));
    const auto ref = troupe::put(std::move(array));
    DeviceArray<float> again = troupe::get(ref);
    try {
      again.copy_from(std::vector<float>(10, 2.0f));
      return false;
    } catch (const troupe::InvalidArgumentError&) {
      return values_of(again) == std::vector<float>(10, 1.0f);
    }
  }
};

class Reader {
 public:
  double sum(troupe::ObjectRef<DeviceArray<float>> ref) {
    const DeviceArray<float> array = troupe::get(ref);
    double total = 0;
    for (float x : values_of(array)) total += double(x);
    return total;
  }
  std::vector<std::size_t> shape(const DeviceArray<float>& array) {
    return {array.shape().begin(), array.shape().end()};
  }
  /// Keeps it while the ref of whoever gave it is gone.
  void keep(const DeviceArray<float>& array) { kept_ = values_of(array), size_ = array.size(); }
  bool kept(float value) { return size_ != 0 && kept_ == std::vector<float>(size_, value); }

 private:
  std::vector<float> kept_;
  std::size_t size_ = 0;
};

int drive() {
  auto owner = troupe::actor<Owner>.remote();
  auto reader = troupe::actor<Reader>.remote();
  if (const std::string lacks = troupe::get(owner.call<&Owner::lacks>()); !lacks.empty()) {
    std::printf("skipped: %s\n", lacks.c_str());
    return 77;
  }
  auto ref = troupe::get(owner.call<&Owner::make>(100, 20, 0.5f));
  expect(troupe::get(reader.call<&Reader::sum>(ref)) == 1000, "DVA-2: another actor reads what one has put");
  expect(troupe::get(reader.call<&Reader::shape>(ref)) == std::vector<std::size_t>{100, 20}, "the shape travels");
  expect(troupe::get(owner.call<&Owner::immutable_after_put>()), "DVA-1: an array that was put is immutable");
  troupe::get(reader.call<&Reader::keep>(ref));
  ref = {};
  expect(troupe::get(reader.call<&Reader::kept>(0.5f)), "what was read stays");
  expect(troupe::get(owner.call<&Owner::addresses>(50)) < 25,
         "DV-1: memory of arrays that nobody refers to is used again");
  for (int k = 0; k < 20; ++k) {
    auto one = troupe::get(owner.call<&Owner::make>(10, 10, float(k)));
    expect(troupe::get(reader.call<&Reader::sum>(one)) == 100.0 * k,
           "DV-1: no memory is given to another while it is read");
  }
  if (failures == 0) std::printf("device arrays went from actor to actor\n");
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return troupe::run(argc, argv, {.cpus = 2}, drive); }
