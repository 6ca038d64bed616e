#include "collective/rank_net.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "core/net/data_socket.h"
#include "core/net/introduction.h"
#include "core/net/token.h"
#include "core/worker/core.h"

namespace troupe::collective {
namespace {

constexpr Channel kChannels[] = {Channel::kData, Channel::kControl};

net::PairKey key_of(const RankPlace& place, int from, int to, Channel channel) {
  return net::hmac_sha256(place.secret, fmt::format("troupe ranks {} {} {} {} {}", place.id, place.epoch, from, to, int(channel)));
}

/// Ends what open_rank began (RN-1).
class Stay {
 public:
  Stay(worker::Core& core, RankPlace place) : core_(core), place_(std::move(place)) {}
  ~Stay();
  const RankPlace& place() const { return place_; }

 private:
  worker::Core& core_;
  const RankPlace place_;
};

/// Who of this process is where: for connections that arrive, and for splits.
struct Present {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, int>, std::pair<std::weak_ptr<TcpLinks>, std::weak_ptr<Stay>>> ranks;  // by group's number and rank
};
Present& present() {
  static Present& instance = *new Present;  // threads of user code may outlive main
  return instance;
}

Stay::~Stay() {
  {
    std::lock_guard lock(present().mutex);
    present().ranks.erase({place_.id, place_.rank});
  }
  if (core_.shutting_down()) return;
  worker::CoreLock lock(core_);
  core_.courier().notice(core_.daemon(), wire::Method::kRankLeft, wire::RankLeft{place_.id, place_.rank});
}

std::shared_ptr<Stay> stay_of(const TcpLinks& links) {
  std::lock_guard lock(present().mutex);
  for (const auto& [where, rank] : present().ranks)
    if (rank.first.lock().get() == &links) return rank.second.lock();
  return nullptr;
}

Result<UniqueFd> dial_rank(const RankPlace& place, int to, Channel channel, Clock::time_point deadline) {
  auto introduction = net::introduce({place.id, place.epoch, place.rank, to, std::uint16_t(channel)}, key_of(place, place.rank, to, channel));
  if (!introduction.ok()) return introduction.error_ptr();
  return net::dial_hand_over(place.addresses[std::size_t(to)], net::bytes_of_introduction(*introduction), deadline);
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
  if (hex.size() != 2 * secret.size() || hex.find_first_not_of("0123456789abcdef") != std::string::npos) return SerializationError("the secret of a group's record is none");
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = std::uint8_t(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return secret;
}

std::uint64_t number_of(const Secret& secret, const std::string& purpose) {
  const auto digest = net::hmac_sha256(secret, "troupe number " + purpose);
  std::uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

RankPlace place_in(const GroupRecord& record, const std::string& name, int rank) {
  RankPlace place{.name = name, .id = record.id, .epoch = record.epoch, .secret = secret_of(record.secret).value(), .rank = rank, .addresses = {}};
  for (const GroupMember& member : record.members) place.addresses.push_back(member.data_address);
  return place;
}

std::shared_ptr<TcpLinks> open_rank(worker::Core& core, RankPlace place) {
  const int rank = place.rank, ranks = int(place.addresses.size());
  auto links = TcpLinks::create({rank, ranks, place.epoch});
  std::vector<int> nodes;  // a node has one daemon
  for (const std::string& address : place.addresses) nodes.push_back(int(std::ranges::find(place.addresses, address) - place.addresses.begin()));
  links->know_nodes(std::move(nodes));
  wire::ExpectRanks expected{place.id, place.epoch, place.name, rank, {}};
  for (int from = rank + 1; from < ranks; ++from)
    for (Channel channel : kChannels) expected.from.push_back({from, std::uint16_t(channel), key_of(place, from, rank, channel)});
  auto stay = std::make_shared<Stay>(core, std::move(place));
  links->keep(stay);
  {
    std::lock_guard lock(present().mutex);
    present().ranks[{expected.group, rank}] = {links, stay};
  }
  worker::CoreLock lock(core);
  core.courier().notice(core.daemon(), wire::Method::kExpectRanks, expected);
  return links;
}

Status dial_lower_ranks(TcpLinks& links, Clock::time_point deadline) {
  const std::shared_ptr<Stay> stay = stay_of(links);
  if (!stay) return CollectiveError::from({.reason = Reason::kStale, .operation = "connect"}, "the group was formed again or destroyed");
  for (int to = 0; to < links.rank(); ++to)
    for (Channel channel : kChannels) {
      auto socket = dial_rank(stay->place(), to, channel, deadline);
      if (!socket.ok()) {
        const bool late = socket.error().code() == ErrorCode::kDeadlineExceeded;
        return CollectiveError::from({.reason = late ? Reason::kTimeout : Reason::kDied, .group = stay->place().name, .epoch = stay->place().epoch, .operation = "connect", .rank = links.rank(),
                                      .missing_ranks = {to}},
                                     fmt::format("rank {} is not to be reached: {}", to, socket.error().message()));
      }
      links.arrive(to, channel, *std::move(socket));
    }
  return {};
}

Connect connect_by_daemons(worker::Core& core) {
  return [&core](TcpLinks& old, const Subgroup& subgroup, Clock::time_point deadline) -> Result<std::shared_ptr<TcpLinks>> {
    const std::shared_ptr<Stay> stay = stay_of(old);
    if (!stay) return CollectiveError::from({.reason = Reason::kStale, .operation = "split"}, "the group was formed again or destroyed");
    std::shared_ptr<TcpLinks> links;
    if (!subgroup.members.empty()) {
      const RankPlace& parent = stay->place();
      const std::string purpose = fmt::format("split {}", subgroup.key);
      RankPlace place{.name = parent.name + "/split", .id = number_of(parent.secret, purpose), .epoch = parent.epoch, .secret = net::hmac_sha256(parent.secret, "troupe " + purpose),
                      .rank = subgroup.rank, .addresses = {}};
      for (int r : subgroup.members) place.addresses.push_back(parent.addresses[std::size_t(r)]);
      links = open_rank(core, std::move(place));
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
    if (const auto found = present().ranks.find({what.group, what.to}); found != present().ranks.end()) links = found->second.first.lock();
  }
  const bool ours = links && links->epoch() == what.epoch && what.from >= 0 && what.from < links->ranks() && what.channel <= std::uint16_t(Channel::kControl);
  if (ours) links->arrive(what.from, Channel(what.channel), std::move(fd));  // RN-2
}

}  // namespace troupe::collective
