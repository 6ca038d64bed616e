// Callbacks of a training run: CBK-1, CBK-2.
#include <gtest/gtest.h>

#include <stdexcept>

#include "apps/rl/training/callbacks.h"

#include <troupe/error.h>

namespace rl {
namespace {

// They stay registered for the whole process: one test.
TEST(Callbacks, CBK1_CBK2_AllSeeEveryRoundAndOneThatThrowsIsTheRunsError) {
  EXPECT_THROW(register_callback({}), troupe::InvalidArgumentError);
  TrainingLog log;
  EXPECT_FALSE(call_callbacks(log));
  int calls = 0;
  register_callback([](const TrainingLog& seen) { return seen.steps >= 100; });
  register_callback([&](const TrainingLog&) { return ++calls < 0; });
  log.steps = 99;
  EXPECT_FALSE(call_callbacks(log));
  log.steps = 100;
  EXPECT_TRUE(call_callbacks(log));
  EXPECT_EQ(calls, 2);
  register_callback([](const TrainingLog&) -> bool { throw std::runtime_error("no"); });
  try {
    (void)call_callbacks(log);
    FAIL() << "it threw nothing";
  } catch (const troupe::Error& error) {
    EXPECT_EQ(error.message(), "a callback threw: no");
  }
}

}  // namespace
}  // namespace rl
