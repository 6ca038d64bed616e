// HandOvers: which ranks of collective groups are expected at this daemon's data port, and who has come before that. A
// worker listens on nothing: it says whom it expects, and is given the connection of each that proves to be the one.
//
//   expected --a connection with the right proof--> passed on, the key is used up
//   a connection that nobody expects --waits--> passed on when it is expected | closed: too long, or too many wait
//
// Pure: descriptors are kept and given out, never read. The caller passes on what comes back, and logs what was
// refused.
//
// Thread rule: the loop's thread.
//
// Invariants
//   HOV-1  A connection is passed on only to the process that expects exactly this pair of ranks, channel and epoch,
//          with a proof by that pair's key; each key passes on one connection.
//   HOV-2  At most `early_max` connections wait, each kEarlyWait at most; the oldest of the source of which most wait
//          makes way (SRC-1). What is refused is closed.
//   HOV-3  Of a process that is gone or a rank that has left nothing is expected any more.
#pragma once
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/net/base/source.h"
#include "core/net/data/introduction.h"
#include "core/wire/group_messages.h"
#include <troupe/duration.h>

namespace troupe::node {

class HandOvers {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kEarlyMax = 1024;  ///< where descriptors are plenty
  static constexpr Duration kEarlyWait = std::chrono::seconds(10);

  struct Passed {
    ProcessId to;
    wire::RankSocket what;
    UniqueFd fd;
    net::Token::Digest acceptance;  ///< to be sent on it first: this side's proof
  };

  explicit HandOvers(std::size_t early_max = kEarlyMax) : early_max_(early_max) {}

  /// What had come early and is expected now. An earlier expectation of the same pair is replaced.
  std::vector<Passed> expect(ProcessId owner, const wire::ExpectRanks& ranks);
  /// Nothing: it waits, or was refused.
  std::optional<Passed> arrive(const net::Introduction& who, UniqueFd fd, TimePoint now, net::Source source = {});
  void left(ProcessId owner, const wire::RankLeft& rank);
  void process_died(ProcessId owner);
  void expire(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  /// Why connections were closed since the last call.
  std::vector<std::string> take_refusals() { return std::exchange(refusals_, {}); }
  wire::RankDoor door() const { return {expected_.size(), early_.size()}; }

 private:
  using Pair = std::tuple<std::uint64_t, std::int32_t, std::int32_t, std::uint16_t>;  // group, to, from, channel
  struct Expected {
    ProcessId owner;
    std::uint64_t epoch;
    net::PairKey key;
    std::string name;
  };
  struct Early {
    net::Introduction who;
    UniqueFd fd;
    TimePoint until;
    net::Source source;
  };
  static Pair pair_of(const net::Introduction& who) { return {who.group, who.to, who.from, who.channel}; }
  std::optional<Passed> judge(const net::Introduction& who, UniqueFd fd);
  void make_room();
  void refuse(const net::Introduction& who, const std::string& name, const char* why);

  const std::size_t early_max_;
  std::map<Pair, Expected> expected_;
  std::deque<Early> early_;
  std::vector<std::string> refusals_;
};

}  // namespace troupe::node
