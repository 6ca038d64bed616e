// In which order those that wait are served (turns.h).
#include "scheduler/turns.h"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

const ProcessId kFirst{1, 1}, kSecond{1, 2};

struct TurnsTest : testing::Test {
  Turns turns;
  std::map<Turns::Request, int> wanted;
  int room = 0;
  std::vector<Turns::Request> order, asked;

  void serve(const std::vector<Turns::Candidate>& candidates) {
    order.clear();
    asked.clear();
    turns.serve(candidates, [&](Turns::Request request) {
      asked.push_back(request);
      if (room == 0 || wanted[request] == 0) return false;
      --room;
      --wanted[request];
      order.push_back(request);
      return true;
    });
  }
};

using Order = std::vector<Turns::Request>;

TEST_F(TurnsTest, TUR2_BetweenJobsThenRequestersThenRequests) {
  wanted = {{1, 9}, {2, 9}, {3, 9}, {4, 9}};
  room = 8;
  // Job 1: two requests of one requester and one of another; job 2: one request.
  serve({{1, kFirst, 1, 0}, {1, kFirst, 2, 0}, {1, kSecond, 3, 0}, {2, kFirst, 4, 0}});
  EXPECT_EQ(order, (Order{1, 4, 3, 4, 2, 4, 3, 4}));
}

TEST_F(TurnsTest, TheNextRoundGoesOnWhereTheLastOneEnded) {
  wanted = {{1, 9}, {2, 9}, {3, 9}};
  for (const Order& expected : {Order{1}, Order{3}, Order{2}, Order{3}}) {
    room = 1;
    serve({{1, kFirst, 1, 0}, {1, kSecond, 2, 0}, {2, kFirst, 3, 0}});
    EXPECT_EQ(order, expected);
  }
}

TEST_F(TurnsTest, WhoHadAPlaceLongestAgoIsFirst) {
  wanted = {{1, 1}, {2, 1}, {3, 1}};
  room = 3;
  serve({{1, kFirst, 1, 7}, {1, kFirst, 2, 3}, {1, kFirst, 3, 5}});
  EXPECT_EQ(order, (Order{2, 3, 1}));
}

TEST_F(TurnsTest, WhoIsGoneTakesNoTurn) {
  wanted = {{1, 9}, {2, 9}, {3, 9}};
  room = 2;
  serve({{1, kFirst, 1, 0}, {2, kFirst, 2, 0}});
  EXPECT_EQ(order, (Order{1, 2}));
  turns.job_ended(2);
  room = 2;
  serve({{1, kFirst, 1, 0}, {3, kFirst, 3, 0}});
  EXPECT_EQ(order, (Order{3, 1}));
  order.clear();
  turns.serve({{1, kFirst, 1, 0}, {1, kSecond, 2, 0}}, [&](Turns::Request request) {  // the first place ends the other
    const bool placed = order.empty();
    if (placed) order.push_back(request);
    return placed;
  });
  EXPECT_EQ(order.size(), 1u);
}

TEST_F(TurnsTest, TUR1_WhatDoesNotFitHoldsNobodyUpAndIsAskedOnce) {
  wanted = {{1, 0}, {2, 2}, {3, 0}};
  room = 9;
  serve({{1, kFirst, 1, 0}, {1, kFirst, 2, 1}, {2, kFirst, 3, 0}});
  EXPECT_EQ(order, (Order{2, 2}));
  EXPECT_EQ(asked, (Order{1, 2, 3, 2, 2}));
}

}  // namespace
}  // namespace troupe::sched
