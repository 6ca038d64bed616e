// PX-1 to PX-3 of net/base/proof.h: two exchanges without a socket, and everybody who might stand between them.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "core/net/base/proof.h"

namespace troupe::net {
namespace {

constexpr const char* kPlace = "10.0.0.2:7000";

Token token_of(char digit) { return *Token::parse(std::string(64, digit)); }
ProofSelf node(std::uint64_t incarnation, char token = 'a') {
  return {.token = token_of(token), .cluster_id = "cluster-1", .incarnation = incarnation};
}
ProofSelf head(std::uint64_t epoch) {
  return {
      .token = token_of('a'), .cluster_id = "cluster-1", .role = ProofRole::kHead, .incarnation = 99, .epoch = epoch};
}
using Change = std::function<void(std::string&)>;

/// Carries what the sides say, as the network would; `change` may touch each message. Ends when nobody has anything to
/// say.
void talk(ProofExchange& dialler, ProofExchange& listener, const Change& change = {}) {
  for (int round = 0; round < 4; ++round) {
    for (auto [from, to] : {std::pair(&dialler, &listener), std::pair(&listener, &dialler)}) {
      std::string said = from->output();
      if (change && !said.empty()) change(said);
      if (!said.empty() && to->wanted() >= said.size()) to->take(as_bytes(said));
    }
  }
}

struct Two {
  ProofExchange dialler, listener;
  Two(const ProofSelf& a, const ProofSelf& b, const ProofTarget& target = {}, const char* dialled = kPlace,
      const char* came_in_at = kPlace)
      : dialler(*ProofExchange::dial(a, target, dialled)), listener(*ProofExchange::listen(b, came_in_at)) {}
  bool both() { return dialler.proven() && listener.proven(); }
  bool neither() { return !dialler.proven() && !listener.proven(); }
};

TEST(Proof, PX1_BothSidesAreProvenAndKnowEachOther) {
  Two two(node(5), node(6), {.role = ProofRole::kNode, .incarnation = 6});
  talk(two.dialler, two.listener);
  ASSERT_TRUE(two.both()) << (two.dialler.failure() ? two.dialler.failure()->message() : "");
  EXPECT_EQ(two.dialler.peer().incarnation, 6u);
  EXPECT_EQ(two.listener.peer().incarnation, 5u);
  EXPECT_EQ(two.dialler.wanted() + two.listener.wanted(), 0u) << "what follows belongs to the next layer";
}

TEST(Proof, PX1_ByteByByteIsTheSame) {
  Two two(node(5), node(6));
  while (!two.both()) {
    for (auto [from, to] : {std::pair(&two.dialler, &two.listener), std::pair(&two.listener, &two.dialler)}) {
      for (const char byte : from->output()) to->take(as_bytes({&byte, 1}));
    }
    ASSERT_FALSE(two.dialler.failure() || two.listener.failure());
  }
}

TEST(Proof, PX1_AnotherTokenClusterOrPurposeProvesNothing) {
  ProofSelf other_cluster = node(6), data = node(6), silent = node(6);
  other_cluster.cluster_id = "cluster-2";
  data.purpose = ProofPurpose::kData;
  silent.token = {};
  for (const ProofSelf& wrong : {node(6, 'b'), other_cluster, data, silent}) {
    Two two(node(5), wrong);
    talk(two.dialler, two.listener);
    EXPECT_TRUE(two.neither());
    EXPECT_TRUE(two.dialler.failure());
    if (!wrong.token.is_set()) continue;
    Two turned(wrong, node(6));
    talk(turned.dialler, turned.listener);
    EXPECT_TRUE(turned.neither());
  }
  ProofSelf fresh = node(5);
  fresh.cluster_id.clear();  // it has not learned its cluster yet
  Two two(fresh, node(6));
  talk(two.dialler, two.listener);
  EXPECT_TRUE(two.both());
}

TEST(Proof, PX1_EveryBitOfEveryMessageCounts) {
  for (int message = 0; message < 3; ++message) {
    const std::size_t size = message == 0   ? sizeof(ProofHello)
                             : message == 1 ? sizeof(ProofWelcome)
                                            : sizeof(ProofAnswer);
    for (std::size_t at = 0; at < size; ++at) {
      Two two(node(5), node(6));
      int seen = 0;
      talk(two.dialler, two.listener, [&](std::string& said) {
        if (seen++ == message) said[at] = char(said[at] ^ 1);
      });
      // The dialler's last message leaves it proven already: it proved the listener before. The listener is not
      // deceived.
      EXPECT_FALSE(two.listener.proven()) << message << ", byte " << at;
      EXPECT_TRUE(message == 2 || !two.dialler.proven()) << message << ", byte " << at;
    }
  }
}

TEST(Proof, PX2_ATakenOverPortGetsNothingUsable) {
  // A stranger listens where a node listened: it hears a hello, which holds no secret, and can answer nothing.
  ProofExchange dialler = *ProofExchange::dial(node(5), {}, kPlace);
  const std::string hello = dialler.output();
  EXPECT_EQ(hello.find(token_of('a').hex()), std::string::npos);
  ProofWelcome invented;
  invented.role = ProofRole::kNode;
  dialler.take(std::as_bytes(std::span(&invented, 1)));
  EXPECT_FALSE(dialler.proven());
  EXPECT_TRUE(dialler.failure());
  EXPECT_TRUE(dialler.output().empty()) << "and no proof of the dialler leaves it";
}

TEST(Proof, PX2_WhatWasOverheardCannotBeSaidAgain) {
  std::string welcome, answer;
  Two first(node(5), node(6));
  talk(first.dialler, first.listener,
       [&](std::string& said) { (said.size() == sizeof(ProofWelcome) ? welcome : answer) = said; });
  ASSERT_TRUE(first.both());
  ProofExchange again = *ProofExchange::dial(node(5), {}, kPlace);
  again.take(as_bytes(welcome));
  EXPECT_FALSE(again.proven());
  Two second(node(5), node(6));
  talk(second.dialler, second.listener, [&](std::string& said) {
    if (said.size() == sizeof(ProofAnswer)) said = answer;
  });
  EXPECT_FALSE(second.listener.proven());
}

TEST(Proof, PX2_AReflectionProvesNothing) {
  // Whoever took over the port asks the dialler itself, at its own port, for the proof that it cannot make.
  ProofExchange dialler = *ProofExchange::dial(node(5), {}, kPlace);
  const std::string hello = dialler.output();
  // its own port; and even if that were the address that it dialled
  for (const char* own : {"10.0.0.1:7000", kPlace}) {
    ProofExchange own_port = *ProofExchange::listen(node(5), own);
    own_port.take(as_bytes(hello));
    ProofExchange copy = dialler;
    copy.take(as_bytes(own_port.output()));
    EXPECT_FALSE(own_port.proven());
    // Where the addresses agree the process talks to itself: it knows that by its incarnation.
    EXPECT_FALSE(copy.proven() && copy.peer().incarnation != 5);
    EXPECT_TRUE(own == std::string(kPlace) || !copy.proven());
  }
  // A listener's proof is none for a dialler: the labels of the sides differ.
  Two two(node(5), node(6));
  talk(two.dialler, two.listener, [&](std::string& said) {
    if (said.size() != sizeof(ProofWelcome)) return;
    ProofWelcome welcome;
    std::memcpy(&welcome, said.data(), sizeof welcome);
    two.listener.take(std::as_bytes(std::span(&welcome.proof, 1)));
  });
  EXPECT_FALSE(two.listener.proven());
}

TEST(Proof, PX3_ARelayIsRefused) {
  // The stranger at the taken-over address passes everything on to a living node, unchanged or with the address put
  // right.
  Two relayed(node(5), node(6), {}, kPlace, "10.0.0.3:8000");
  talk(relayed.dialler, relayed.listener);
  EXPECT_TRUE(relayed.neither());
  Two forged(node(5), node(6), {}, kPlace, "10.0.0.3:8000");
  talk(forged.dialler, forged.listener, [](std::string& said) {
    if (said.size() != sizeof(ProofHello)) return;
    ProofHello hello;
    std::memcpy(&hello, said.data(), sizeof hello);
    hello.address = {};
    std::memcpy(hello.address.data(), "10.0.0.3:8000", 13);
    std::memcpy(said.data(), &hello, sizeof hello);
  });
  EXPECT_TRUE(forged.neither());
}

TEST(Proof, PX3_ASuccessorOnThePortIsNotTheOneThatWasMeant) {
  Two other_process(node(5), node(7), {.incarnation = 6});
  talk(other_process.dialler, other_process.listener);
  EXPECT_TRUE(other_process.neither());
  Two a_node(node(5), node(7), {.role = ProofRole::kHead});
  talk(a_node.dialler, a_node.listener);
  EXPECT_TRUE(a_node.neither());
  Two old_head(node(5), head(2), {.role = ProofRole::kHead, .epoch = 3});
  talk(old_head.dialler, old_head.listener);
  EXPECT_TRUE(old_head.neither());
  Two by_name(node(5), head(3), {.role = ProofRole::kHead, .epoch = 3}, kPlace, "172.17.0.4:7000");
  talk(by_name.dialler, by_name.listener);
  EXPECT_TRUE(by_name.both()) << "a head may be reached by a service's address: its epoch says who it is";
  EXPECT_EQ(by_name.dialler.peer().epoch, 3u);
}

}  // namespace
}  // namespace troupe::net
