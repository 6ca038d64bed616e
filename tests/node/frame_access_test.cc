// Who may ask a daemon what: REVIEW C.3. At f0736ec any worker could end a node (kShutdown), start actors or declare
// nodes dead.
#include <gtest/gtest.h>

#include "core/node/daemon/admission/frame_access.h"

namespace troupe::node {
namespace {

using wire::Method;
constexpr Sender kAll[] = {Sender::kHead, Sender::kDaemon, Sender::kLocalProcess, Sender::kRemoteProcess};

TEST(FrameAccess, SendersAreToldByTheirIds) {
  EXPECT_EQ(sender_of(kHead, 3), Sender::kHead);
  EXPECT_EQ(sender_of(daemon_of(4), 3), Sender::kDaemon);
  EXPECT_EQ(sender_of({3, 7}, 3), Sender::kLocalProcess);
  EXPECT_EQ(sender_of({4, 7}, 3), Sender::kRemoteProcess);
  EXPECT_TRUE(sent_by_its_node({4, 7}, 4));
  EXPECT_FALSE(sent_by_its_node({5, 7}, 4));
  EXPECT_FALSE(sent_by_its_node(kHead, 4)) << "a node does not speak for the head";
  EXPECT_TRUE(sent_by_its_node(kHead, 0));
}

TEST(FrameAccess, FA1_WhatIsNotInTheTableIsRefused) {
  for (int number = 200; number < 400; ++number)
    for (Sender sender : kAll) EXPECT_FALSE(may_ask_daemon(static_cast<Method>(number), sender)) << number;
  for (Method method : {Method::kLeaseGranted, Method::kConstructActor, Method::kRegisterNode, Method::kCreateActor})
    for (Sender sender : kAll) EXPECT_FALSE(may_ask_daemon(method, sender)) << "not for a daemon";
}

TEST(FrameAccess, FA2_OnlyTheHeadEndsStartsAndFences) {
  for (Method method : {Method::kShutdown, Method::kStartActor, Method::kKillActorProcess, Method::kJobEnded,
                        Method::kNodeDied, Method::kClusterView, Method::kKeep, Method::kKeepNoMore})
    for (Sender sender : kAll)
      EXPECT_EQ(may_ask_daemon(method, sender), sender == Sender::kHead) << static_cast<int>(method);
}

TEST(FrameAccess, DaemonsSpeakForTheirNodesAndProcessesForThemselves) {
  for (Method method : {Method::kForwardLease, Method::kLeaseCounted, Method::kJobImage, Method::kProcessDied})
    for (Sender sender : kAll)
      EXPECT_EQ(may_ask_daemon(method, sender), sender == Sender::kDaemon) << static_cast<int>(method);
  for (Method method : {Method::kConnect, Method::kLeaseWanted, Method::kStoreLease, Method::kStoreFree,
                        Method::kStoreWithdraw, Method::kExpectRanks})
    for (Sender sender : kAll)
      EXPECT_EQ(may_ask_daemon(method, sender), sender == Sender::kLocalProcess) << static_cast<int>(method);
  for (Method method :
       {Method::kRegisterNode, Method::kRegisterJob, Method::kNodeLoad, Method::kActorPlaced, Method::kProcessDied})
    EXPECT_FALSE(may_ask_head(method)) << static_cast<int>(method);
  for (Method method : {Method::kCreateActor, Method::kKvPut, Method::kListState, Method::kActorExited})
    EXPECT_TRUE(may_ask_head(method));
}

}  // namespace
}  // namespace troupe::node
