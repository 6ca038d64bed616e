#include "collective/group/rank_net.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "core/net/data/data_socket.h"
#include "core/net/data/introduction.h"
#include "core/net/base/token.h"
#include "core/process/core.h"

namespace troupe::collective {
namespace {

constexpr Channel kChannels[] = {Channel::kData, Channel::kControl};

net::PairKey key_of(const RankIdentity& identity, int from, int to, Channel channel) {
  return net::hmac_sha256(
      identity.secret, fmt::format("troupe ranks {} {} {} {} {}", identity.id, identity.epoch, from, to, int(channel)));
}

/// Ends what open_rank began (RN-1).
class Registration {
 public:
  Registration(worker::Core& core, RankIdentity identity) : core_(core), identity_(std::move(identity)) {}
  ~Registration();
  const RankIdentity& identity() const { return identity_; }

 private:
  worker::Core& core_;
  const RankIdentity identity_;
};

/// Who of this process is where: for connections that arrive, and for splits.
struct Present {
  std::mutex mutex;
  // by group's number and rank
  std::map<std::pair<std::uint64_t, int>, std::pair<std::weak_ptr<TcpLinks>, std::weak_ptr<Registration>>> ranks;
};
Present& present() {
  static Present& instance = *new Present;  // threads of user code may outlive main
  return instance;
}

Registration::~Registration() {
  {
    std::lock_guard lock(present().mutex);
    present().ranks.erase({identity_.id, identity_.rank});
  }
  if (core_.shutting_down()) return;
  worker::CoreLock lock(core_);
  core_.frames().notice(core_.daemon(), wire::Method::kRankLeft, wire::RankLeft{identity_.id, identity_.rank});
}

std::shared_ptr<Registration> registration_of(const TcpLinks& links) {
  // Whoever else holds them may let go of them just now. Then they end here, and their registration wants the mutex.
  std::vector<std::shared_ptr<TcpLinks>> seen;
  std::lock_guard lock(present().mutex);
  for (const auto& [where, rank] : present().ranks) {
    seen.push_back(rank.first.lock());
    if (seen.back().get() == &links) return rank.second.lock();
  }
  return nullptr;
}

struct Dialled {
  UniqueFd fd;
  net::Token::Digest acceptance;  ///< what the other side has to send first
};
Result<Dialled> dial_rank(const RankIdentity& identity, int to, Channel channel, Clock::time_point deadline) {
  const net::PairKey key = key_of(identity, identity.rank, to, channel);
  auto introduction =
      net::introduce({identity.id, identity.epoch, identity.rank, to, std::uint16_t(channel)}, key);
  if (!introduction.ok()) return introduction.error_ptr();
  auto socket =
      net::dial_hand_over(identity.addresses[std::size_t(to)], net::bytes_of_introduction(*introduction), deadline);
  if (!socket.ok()) return socket.error_ptr();
  return Dialled{*std::move(socket), net::acceptance(*introduction, key)};
}

}  // namespace

Result<Secret> make_secret() {
  Secret secret{};
  if (Status filled = net::fill_random(secret); !filled.ok()) return filled.error_ptr();
  return secret;
}

std::string hex_of(const Secret& secret) {
  std::string text;
  for (std::uint8_t byte : secret) text += fmt::format("{:02x}", byte);
  return text;
}

Result<Secret> secret_of(const std::string& hex) {
  Secret secret{};
  if (hex.size() != 2 * secret.size() || hex.find_first_not_of("0123456789abcdef") != std::string::npos)
    return SerializationError("the secret of a group's record is none");
  for (std::size_t i = 0; i < secret.size(); ++i)
    secret[i] = std::uint8_t(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return secret;
}

std::uint64_t number_of(const Secret& secret, const std::string& purpose) {
  const auto digest = net::hmac_sha256(secret, "troupe number " + purpose);
  std::uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

RankIdentity identity_in(const GroupRecord& record, const std::string& name, int rank) {
  RankIdentity identity{.name = name,
                        .id = record.id,
                        .epoch = record.epoch,
                        .secret = secret_of(record.secret).value(),
                        .rank = rank,
                        .addresses = {}};
  for (const GroupMember& member : record.members) identity.addresses.push_back(member.data_address);
  return identity;
}

std::shared_ptr<TcpLinks> open_rank(worker::Core& core, RankIdentity identity) {
  const int rank = identity.rank, ranks = int(identity.addresses.size());
  auto links = TcpLinks::create({rank, ranks, identity.epoch});
  std::vector<int> nodes;  // a node has one daemon
  for (const std::string& address : identity.addresses)
    nodes.push_back(int(std::ranges::find(identity.addresses, address) - identity.addresses.begin()));
  links->know_nodes(std::move(nodes));
  wire::ExpectRanks expected{identity.id, identity.epoch, identity.name, rank, {}};
  for (int from = rank + 1; from < ranks; ++from)
    for (Channel channel : kChannels)
      expected.from.push_back({from, std::uint16_t(channel), key_of(identity, from, rank, channel)});
  auto registration = std::make_shared<Registration>(core, std::move(identity));
  links->keep(registration);
  {
    std::lock_guard lock(present().mutex);
    present().ranks[{expected.group, rank}] = {links, registration};
  }
  worker::CoreLock lock(core);
  core.frames().notice(core.daemon(), wire::Method::kExpectRanks, expected);
  return links;
}

Status dial_lower_ranks(TcpLinks& links, Clock::time_point deadline) {
  const std::shared_ptr<Registration> registration = registration_of(links);
  if (!registration)
    return CollectiveError::from({.reason = Reason::kStale, .operation = "connect"},
                                 "the group was formed again or destroyed");
  for (int to = 0; to < links.rank(); ++to)
    for (Channel channel : kChannels) {
      auto socket = dial_rank(registration->identity(), to, channel, deadline);
      if (!socket.ok()) {
        const bool late = socket.error().code() == ErrorCode::kDeadlineExceeded;
        const bool dead = socket.error().code() == ErrorCode::kNodeDied;
        if (!late && !dead)  // this process has no socket for it: nobody else is to blame
          return CollectiveError::from({.reason = Reason::kBackend,
                                        .group = registration->identity().name,
                                        .epoch = registration->identity().epoch,
                                        .operation = "connect",
                                        .rank = links.rank()},
                                       fmt::format("rank {} cannot connect: {}", links.rank(),
                                                   socket.error().message()));
        return CollectiveError::from({.reason = late ? Reason::kTimeout : Reason::kDied,
                                      .group = registration->identity().name,
                                      .epoch = registration->identity().epoch,
                                      .operation = "connect",
                                      .rank = links.rank(),
                                      .missing_ranks = {to}},
                                     fmt::format("rank {} is not to be reached: {}", to, socket.error().message()));
      }
      links.arrive_unproven(to, channel, std::move(socket->fd), socket->acceptance);  // RN-3
    }
  return {};
}

Connect connect_by_daemons(worker::Core& core) {
  return [&core](TcpLinks& old, const Subgroup& subgroup,
                 Clock::time_point deadline) -> Result<std::shared_ptr<TcpLinks>> {
    const std::shared_ptr<Registration> registration = registration_of(old);
    if (!registration)
      return CollectiveError::from({.reason = Reason::kStale, .operation = "split"},
                                   "the group was formed again or destroyed");
    std::shared_ptr<TcpLinks> links;
    if (!subgroup.members.empty()) {
      const RankIdentity& parent = registration->identity();
      const std::string purpose = fmt::format("split {}", subgroup.key);
      RankIdentity identity{.name = parent.name + "/split",
                            .id = number_of(parent.secret, purpose),
                            .epoch = parent.epoch,
                            .secret = net::hmac_sha256(parent.secret, "troupe " + purpose),
                            .rank = subgroup.rank,
                            .addresses = {}};
      for (int r : subgroup.members) identity.addresses.push_back(parent.addresses[std::size_t(r)]);
      links = open_rank(core, std::move(identity));
    }
    // Nobody dials before all have said whom they expect.
    const std::uint64_t here = 1;
    std::vector<std::uint64_t> all(std::size_t(old.ranks()));
    if (!subgroup.exchange(&here, all.data(), sizeof here) || !links) return std::shared_ptr<TcpLinks>();
    if (Status dialled = dial_lower_ranks(*links, deadline); !dialled.ok()) return dialled.error_ptr();
    return links;
  };
}

void rank_arrived(const wire::RankSocket& what, UniqueFd fd) {
  std::shared_ptr<TcpLinks> links;
  {
    std::lock_guard lock(present().mutex);
    if (const auto found = present().ranks.find({what.group, what.to}); found != present().ranks.end())
      links = found->second.first.lock();
  }
  const bool ours = links && links->epoch() == what.epoch && what.from >= 0 && what.from < links->ranks() &&
                    what.channel <= std::uint16_t(Channel::kControl);
  if (ours) links->arrive(what.from, Channel(what.channel), std::move(fd));  // RN-2
}

}  // namespace troupe::collective
