// NET-1, NET-2, NET-3, NET-5, NET-7 and NET-9 of networks on a GPU, against those on the CPU. The kernels come from a
// plug-in: the emulated one (TROUPE_EMULATED_CUDA, set when this is built), or the one that TROUPE_CUDA_LIB names.
#include <cstdlib>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <troupe/error.h>

#include "apps/rl/networks/column_network.h"
#include "apps/rl/networks/device_network.h"
#include "apps/rl/networks/layered_network.h"

namespace {

using namespace rl;
using troupe::kernels::Isa;
using troupe::kernels::cuda::Table;

const Table& table() {
  const char* named = std::getenv("TROUPE_CUDA_LIB");
  static const Table* const found =
      troupe::kernels::cuda::cuda_table_of(named != nullptr ? named : TROUPE_EMULATED_CUDA).value();
  return *found;
}

std::vector<float> drawn(Generator& random, std::size_t count, double scale = 1) {
  std::vector<float> out(count);
  for (float& x : out) x = static_cast<float>(random.uniform(-scale, scale));
  return out;
}

struct Case {
  const char* name;
  NetworkSpec spec;
};

std::vector<Case> cases() {
  return {{"linear", {.input = {3}, .hidden = {}, .outputs = 2}},
          {"one layer", {.input = {3}, .hidden = {5}, .outputs = 2}},
          {"two tanh layers", {.input = {4}, .hidden = {64, 64}, .outputs = 3}},
          {"three relu layers", {.input = {7}, .hidden = {70, 65, 5}, .activation = Activation::kRelu, .outputs = 3}},
          {"a trunk", {.input = {4}, .hidden = {7, 6}, .outputs = 0}},
          {"convolutions",
           {.input = {6, 5, 2}, .convolutions = {{.filters = 4, .kernel = 3}, {.filters = 3, .kernel = 2, .stride = 2}},
            .hidden = {5}, .activation = Activation::kTanh, .outputs = 2}},
          {"wide strides",
           {.input = {11, 9, 3}, .convolutions = {{.filters = 8, .kernel = 3, .stride = 4}}, .hidden = {5},
            .activation = Activation::kRelu, .outputs = 0}}};
}

void expect_near(std::span<const float> got, std::span<const float> want, double near, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], near) << what << " " << i;
}

/// A network, rows for it, and what it makes of them.
struct Pass {
  Pass(const NetworkSpec& of, std::size_t rows, std::uint64_t seed)
      : spec(of), random(seed), params(drawn(random, of.parameter_count(), 0.3)),
        x(drawn(random, rows * of.inputs())), dy(drawn(random, rows * of.row_size())), y(dy.size(), 9.0f),
        grads(params.size(), 9.0f), dx(x.size(), 9.0f) {}
  void run(Network<float>& net) {
    net.forward(params, x, y);
    net.backward(params, dy, grads, dx);
  }
  NetworkSpec spec;
  Generator random;
  std::vector<float> params, x, dy, y, grads, dx;
};

TEST(DeviceNetwork, NET2_NET5_NET7_NET9_GivesWhatTheCpuGives) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    DeviceNetwork net(one.spec, Gpu(table()));  // the same for all batches: NET-3
    for (const std::size_t rows : {33u, 1u, 130u, 0u, 64u}) {
      SCOPED_TRACE(rows);
      Pass got(one.spec, rows, 3), want = got;
      got.run(net);
      LayeredNetwork<float> layered(one.spec, Isa::kReference);
      want.run(layered);
      expect_near(got.y, want.y, 1e-5, "y");
      expect_near(got.dx, want.dx, 1e-5, "dx");
      expect_near(got.grads, want.grads, 1e-4, "gradient");
      std::vector<float> only(got.x.size(), 9.0f), some = got.dy;
      net.forward(got.params, got.x, got.y);
      net.backward(got.params, got.dy, {}, only);
      EXPECT_EQ(only, got.dx);
      std::vector<float> grads(got.grads.size(), 9.0f);
      net.backward(got.params, got.dy, grads, {});
      EXPECT_EQ(grads, got.grads);
      const std::size_t outputs = one.spec.row_size(), inputs = one.spec.inputs();
      for (std::size_t i = 0; i < some.size(); ++i)
        if (i / outputs % 3 != 0) some[i] = 0;
      net.backward(got.params, some, {}, only);
      for (std::size_t i = 0; i < only.size(); ++i) ASSERT_EQ(only[i], i / inputs % 3 == 0 ? got.dx[i] : 0.0f) << i;
    }
  }
}

TEST(DeviceNetwork, NET3_SeesEveryChangeOfTheParametersAndSendsThemForNothingElse) {
  static int copies;
  static int (*copy)(troupe::kernels::cuda::Call, void*, const void*, std::size_t);
  Table counting = table();
  copy = counting.copy;
  counting.copy = [](troupe::kernels::cuda::Call call, void* to, const void* from, std::size_t bytes) {
    return ++copies, copy(call, to, from, bytes);
  };
  const NetworkSpec spec{.input = {5}, .hidden = {9}, .outputs = 2};
  DeviceNetwork net(spec, Gpu(counting));
  Pass pass(spec, 4, 5);
  const auto forward = [&] {
    copies = 0;
    net.forward(pass.params, pass.x, pass.y);
    return copies;
  };
  EXPECT_EQ(forward(), 3);
  EXPECT_EQ(forward(), 2);
  const std::vector<float> before = pass.y;
  pass.params.back() += 1;  // where they lie
  EXPECT_EQ(forward(), 3);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_FLOAT_EQ(pass.y[i], before[i] + (i % 2 == 1 ? 1.0f : 0.0f));
  pass.params.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(forward(), 3);
  EXPECT_EQ(forward(), 2);
  EXPECT_NE(pass.y[1], pass.y[1]);
}

TEST(DeviceNetwork, NET9_MakesNetworksOfTheRequestedKind) {
  const Gpu gpu(table());
  const NetworkSpec small{.input = {4}, .hidden = {8, 8}, .outputs = 2};
  EXPECT_NE(dynamic_cast<DeviceNetwork*>(make_network<float>(small, {.gpu = gpu}).get()), nullptr);
  EXPECT_THROW((void)make_network<double>(small, {.gpu = gpu}), troupe::InvalidArgumentError);
  const NetworkSpec gsde{.input = {4}, .hidden = {8, 6}, .outputs = 4, .gsde_first_log_std = -1};
  Pass got(gsde, 33, 7), want = got;
  got.run(*make_network<float>(gsde, {.input_gradients = true, .gpu = gpu}));
  want.run(*make_network<float>(gsde, {.input_gradients = true}));
  expect_near(got.y, want.y, 1e-5, "y");
  expect_near(got.dx, want.dx, 1e-4, "dx");
  expect_near(got.grads, want.grads, 1e-4, "gradient");
}

TEST(DeviceNetwork, NET9_WhatFailsThereIsThrownAndTheNextCallBeginsAnew) {
  static bool full;
  static int (*allocate)(void**, std::size_t);
  Table failing = table();
  allocate = failing.allocate;
  failing.allocate = [](void** to, std::size_t bytes) { return full ? 2 : allocate(to, bytes); };
  const NetworkSpec spec{.input = {5}, .hidden = {9}, .outputs = 2};
  DeviceNetwork net(spec, Gpu(failing));
  Pass pass(spec, 4, 5), want = pass;
  full = true;
  EXPECT_THROW(pass.run(net), troupe::OutOfMemoryError);
  full = false;
  std::thread([&] { pass.run(net); }).join();  // any thread
  ColumnNetwork<float> columns(spec, Isa::kReference);
  want.run(columns);
  expect_near(pass.y, want.y, 1e-5, "y");
  expect_near(pass.grads, want.grads, 1e-4, "gradient");
}

}  // namespace
