// FLG-1: fragments are taken once.
#include <gtest/gtest.h>

#include "apps/rl/loops/fragment_ledger.h"

namespace rl {
namespace {

TEST(FragmentLedgerTest, FLG1_AFragmentIsTakenOnceInWhateverOrder) {
  FragmentLedger ledger;
  for (const std::int64_t sequence : {0, 2, 1, 5}) {
    EXPECT_TRUE(ledger.take({.runner = 1, .sequence = sequence}));
    EXPECT_FALSE(ledger.take({.runner = 1, .sequence = sequence})) << sequence;
  }
  for (const std::int64_t sequence : {0, 1, 2, 5}) EXPECT_FALSE(ledger.take({.runner = 1, .sequence = sequence}));
  EXPECT_TRUE(ledger.take({.runner = 1, .sequence = 3})) << "it was late, not taken";
  EXPECT_FALSE(ledger.take({.runner = 1, .sequence = 5, .version = 9})) << "the version does not make it another one";
}

TEST(FragmentLedgerTest, FLG1_RunnersAndTheirIncarnationsCountForThemselves) {
  FragmentLedger ledger;
  EXPECT_TRUE(ledger.take({.runner = 0, .incarnation = 0, .sequence = 0}));
  EXPECT_TRUE(ledger.take({.runner = 1, .incarnation = 0, .sequence = 0}));
  EXPECT_TRUE(ledger.take({.runner = 0, .incarnation = 1, .sequence = 0}));
  EXPECT_FALSE(ledger.take({.runner = 0, .incarnation = 1, .sequence = 0}));
}

TEST(FragmentLedgerTest, FLG1_WhatIsFarBehindIsRefused) {
  FragmentLedger ledger;
  constexpr auto kWindow = static_cast<std::int64_t>(FragmentLedger::kWindow);
  ASSERT_TRUE(ledger.take({.sequence = 3 * kWindow}));
  EXPECT_FALSE(ledger.take({.sequence = 2 * kWindow}));
  EXPECT_TRUE(ledger.take({.sequence = 2 * kWindow + 1}));
}

}  // namespace
}  // namespace rl
