#include "collective/tcp/links.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/tcp/blame.h"
#include "core/base/thread.h"

namespace troupe::collective {
namespace {

constexpr std::uint32_t kFrameMagic = 0x31435254;  // "TRC1"
constexpr int kBufferBytes = 4 << 20;
constexpr std::uint32_t kThreadWake = ~std::uint32_t(0);
constexpr std::uint32_t kUnprovenTag = 1u << 30;  // above the numbers of ranks

void set_options(int fd, Channel channel) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const bool tcp = ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                   (address.ss_family == AF_INET || address.ss_family == AF_INET6);
  if (channel == Channel::kData) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
  }
  if (!tcp) return;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (channel != Channel::kControl) {
    // a daemon that accepted it has set a limit: a rank that is frozen for longer is slow, not dead
    const int never = 0;
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof never);
    return;
  }
  // A peer's machine that is gone without a word: seen within 4 to 5 seconds.
  const int second = 1, times = 4, unanswered_ms = 5000;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

void signal_fd(int fd) {
  const std::uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);
}
std::size_t send_some(int socket, std::string_view bytes) {
  const ssize_t n = bytes.empty() ? 0 : ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return n > 0 ? std::size_t(n) : 0;
}
void clear_fd(int fd) {
  std::uint64_t count = 0;
  (void)!::read(fd, &count, sizeof count);
}

}  // namespace

TcpLinks::TcpLinks(const Identity& identity)
    : identity_(identity),
      data_(std::size_t(identity.ranks)),
      peers_(std::size_t(identity.ranks) + 1),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (auto& fd : data_) fd.store(-1, std::memory_order_relaxed);
  if (!wake_ || !thread_wake_ || !epoll_) {  // TL-6
    failure_ = {Reason::kBackend,
                fmt::format("rank {}: no descriptors for its links: {}", identity.rank, std::strerror(errno)),
                {}};
    failed_.store(true, std::memory_order_release);
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kThreadWake;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, thread_wake_.get(), &event);
  if (identity.ranks == 1) return;
  thread_ = start_thread([this] { loop(); });
}

TcpLinks::~TcpLinks() { leave(); }

void TcpLinks::leave() {
  if (stopping_.exchange(true)) return;
  signal_fd(thread_wake_.get());
  if (thread_.joinable()) thread_.join();  // TL-4
  std::lock_guard lock(mutex_);
  const ControlFrame frame = goodbye();
  send_all(frame);
  for (auto& [tag, one] : unproven_)  // TL-5: a goodbye says nothing; without it the peer would take this for a death
    if (one.channel == Channel::kControl) send_first(one.fd.get(), frame);
  actions_.clear();
}

void TcpLinks::arrive(int peer, Channel channel, UniqueFd fd) {
  set_options(fd.get(), channel);
  std::lock_guard lock(mutex_);
  join(peer, channel, std::move(fd));
}

/// Lock held.
void TcpLinks::join(int peer, Channel channel, UniqueFd fd) {
  Peer& one = peers_[std::size_t(peer)];
  if (channel == Channel::kData) {
    if (one.data) return;
    one.data = std::move(fd);
    data_[std::size_t(peer)].store(one.data.get(), std::memory_order_release);
  } else {
    if (one.control) return;
    one.control = std::move(fd);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = std::uint32_t(peer);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, one.control.get(), &event);
    if (failure_) send_one(one, frame_of_failure());  // TL-1: who comes late hears of it as well
    else if (told_ != 0 || through_ != 0) send_one(one, frame_of_progress());
    if (stopping_.load()) send_one(one, goodbye());  // it comes behind leave()
  }
  wake();
}

void TcpLinks::arrive_unproven(int peer, Channel channel, UniqueFd fd, const net::Token::Digest& proof) {
  set_options(fd.get(), channel);
  std::lock_guard lock(mutex_);
  const std::uint32_t tag = kUnprovenTag | std::uint32_t(channel) << 16 | std::uint32_t(peer);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = tag;
  Unproven& one = unproven_[tag];
  one = {.peer = peer, .channel = channel, .fd = std::move(fd), .expected = proof};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, one.fd.get(), &event);
  if (stopping_.load() && channel == Channel::kControl) send_first(one.fd.get(), goodbye());  // it comes behind leave()
}

/// Lock held. TL-5
void TcpLinks::read_proof(std::uint32_t tag) {
  const auto found = unproven_.find(tag);
  if (found == unproven_.end()) return;
  Unproven& one = found->second;
  while (one.have < one.got.size()) {
    const ssize_t n = ::recv(one.fd.get(), one.got.data() + one.have, one.got.size() - one.have, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) break;
    one.have += std::size_t(n);
  }
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.fd.get(), nullptr);
  Unproven ended = std::move(one);
  unproven_.erase(found);
  if (ended.have < ended.got.size()) {  // TL-2: it hung up
    if (!peers_[std::size_t(ended.peer)].goodbye) await_others_of(std::size_t(ended.peer));
    return;
  }
  const auto text = [](const net::Token::Digest& proof) {
    return std::string_view(reinterpret_cast<const char*>(proof.data()), proof.size());
  };
  if (net::constant_time_equal(text(ended.got), text(ended.expected)))
    return join(ended.peer, ended.channel, std::move(ended.fd));
  if (failure_) return;
  failure_ = Failure{Reason::kBackend,
                     fmt::format("whoever listens at the address of rank {} does not know the group's key", ended.peer),
                     {ended.peer}};
  failed_.store(true, std::memory_order_release);
  send_all(frame_of_failure());
  signal_fd(wake_.get());
}

/// Lock held.
void TcpLinks::on_event(std::uint32_t tag) {
  if ((tag & kUnprovenTag) != 0) read_proof(tag);
  else serve_control(tag);
}

std::optional<Failure> TcpLinks::failure() const {
  if (!has_failed()) return std::nullopt;
  std::lock_guard lock(mutex_);
  return failure_;
}

void TcpLinks::fail(const Failure& failure) { set_failure(failure, false); }

void TcpLinks::fail_for_part(const Failure& of_part, const std::vector<int>& members) {
  look();
  fail(told_above(of_part, members));
}

void TcpLinks::supersede() { set_failure({Reason::kStale, "the group was formed again or destroyed", {}}, true); }

void TcpLinks::set_failure(const Failure& failure, bool stale) {
  {
    std::lock_guard lock(mutex_);
    const bool news = !failure_ || (stale && !stale_.load());
    if (stale) stale_.store(true, std::memory_order_release);
    if (!failure_) failure_ = failure;
    if (!news) return;
    failed_.store(true, std::memory_order_release);
    send_all(frame_of_failure());
  }
  wake();
  run_actions();
}

void TcpLinks::on_failure(std::function<void(const Failure&)> action) {
  {
    std::lock_guard lock(mutex_);
    actions_.push_back(std::move(action));
    if (!failure_) return;
  }
  run_actions();
}

void TcpLinks::run_actions() {
  std::vector<std::function<void(const Failure&)>> actions;
  Failure failure;
  {
    std::lock_guard lock(mutex_);
    if (!failure_) return;
    actions.swap(actions_);
    failure = *failure_;
  }
  for (const auto& action : actions) action(failure);
}

TcpLinks::ControlFrame TcpLinks::frame_of_failure() const {
  ControlFrame frame;
  frame.magic = kFrameMagic;
  frame.word = Word::kFailure;
  frame.reason = std::uint8_t(failure_->reason);
  frame.stale = stale_.load() ? 1 : 0;
  frame.ranks = set_of(failure_->missing_ranks);
  failure_->text.copy(frame.text.data(), frame.text.size() - 1);
  return frame;
}

/// To whom nothing has been sent yet: there is room for a frame.
void TcpLinks::send_first(int socket, const ControlFrame& frame) { send_some(socket, bytes_of(frame)); }

TcpLinks::ControlFrame TcpLinks::goodbye() {
  ControlFrame frame;
  frame.magic = kFrameMagic;
  frame.word = Word::kGoodbye;
  return frame;
}

/// A rank sends a few such frames for each operation that somebody waits in for long, and without this peer none of
/// them ends: its buffer takes them. A frame for which it has no room is lost: the peer learns of it by the end.
void TcpLinks::send_one(Peer& peer, const ControlFrame& frame) {
  if (!peer.control || peer.ended) return;
  send_rest(peer);
  if (!peer.rest.empty()) return;
  const std::string_view bytes = bytes_of(frame);
  const std::size_t sent = send_some(peer.control.get(), bytes);
  if (sent == 0 || sent == bytes.size()) return;
  peer.rest = bytes.substr(sent);
  watch(peer, EPOLLIN | EPOLLOUT);
}
void TcpLinks::send_rest(Peer& peer) {
  if (peer.rest.empty()) return;
  peer.rest.erase(0, send_some(peer.control.get(), peer.rest));
  if (peer.rest.empty()) watch(peer, EPOLLIN);
}
void TcpLinks::watch(const Peer& peer, std::uint32_t for_what) {
  epoll_event event{};
  event.events = for_what;
  event.data.u32 = std::uint32_t(&peer - peers_.data());
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.control.get(), &event);
}
void TcpLinks::send_all(const ControlFrame& frame) {
  for (Peer& peer : peers_) send_one(peer, frame);
}

void TcpLinks::loop() {
  epoll_event events[32];
  while (!stopping_.load()) {
    // ends with a word of a peer, with the grace, or by leave()
    const int n = ::epoll_wait(epoll_.get(), events, 32, grace_left());
    if (n == 0) end_grace();
    for (int i = 0; i < n && !stopping_.load(); ++i) {
      if (events[i].data.u32 == kThreadWake) {
        clear_fd(thread_wake_.get());
        continue;
      }
      std::unique_lock lock(mutex_);
      on_event(events[i].data.u32);
    }
    if (has_failed()) wake(), run_actions();
  }
}

void TcpLinks::look() {
  epoll_event events[32];
  for (bool heard = true; std::exchange(heard, false);) {  // more may have spoken than there is room for
    const int n = ::epoll_wait(epoll_.get(), events, 32, 0);
    if (n <= 0) break;
    std::lock_guard lock(mutex_);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u32 == kThreadWake) continue;
      on_event(events[i].data.u32);
      heard = true;
    }
  }
  if (has_failed()) run_actions();
}

/// Lock held.
void TcpLinks::serve_control(std::size_t index) {
  Peer& peer = peers_[index];
  if (peer.control && !peer.ended) send_rest(peer);
  while (peer.control && !peer.ended) {
    const ssize_t n = ::recv(peer.control.get(), reinterpret_cast<char*>(&peer.in) + peer.got,
                             sizeof peer.in - peer.got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return ended(index);
    peer.got += std::size_t(n);
    if (peer.got < sizeof peer.in) continue;
    peer.got = 0;
    const ControlFrame frame = peer.in;
    take(index, frame);
  }
}

/// Lock held.
void TcpLinks::take(std::size_t index, const ControlFrame& frame) {
  Peer& peer = peers_[index];
  if (frame.magic != kFrameMagic) return ended(index);
  if (frame.word == Word::kGoodbye) {
    peer.goodbye = true;
    peer.dead = peer.in_doubt = false;
    end_grace_if_over();
  } else if (frame.word == Word::kProgress) {
    if (frame.sequence >= peer.progress.sequence)  // data of a later one may have been faster
      peer.progress = {frame.sequence, {frame.what, frame.count, frame.scale}};
    peer.waits_in = frame.sequence;
    peer.awaited = frame.ranks;
    peer.through = frame.through;
    peer.heard = ++heard_;
    if (frame.ranks != RankSet{}) {
      others_wait_in_ = std::max(others_wait_in_, frame.sequence);
      if (through_ >= frame.sequence) send_one(peer, frame_of_progress());  // it may not have heard of that
    }
    compare(index);
  } else if (frame.word == Word::kFailure) {
    if (frame.stale) stale_.store(true, std::memory_order_release);
    if (failure_) return;
    Failure failure{Reason(std::min<std::uint8_t>(frame.reason, std::uint8_t(Reason::kBackend))),
                    std::string(frame.text.data(), ::strnlen(frame.text.data(), frame.text.size())),
                    ranks_of(frame.ranks)};
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
    send_all(frame_of_failure());
    signal_fd(wake_.get());
  }
}

/// Lock held. TL-2
void TcpLinks::ended(std::size_t index) {
  Peer& peer = peers_[index];
  if (peer.ended) return;
  peer.ended = true;
  peer.in_doubt = false;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.control.get(), nullptr);
  if (!peer.goodbye && index != std::size_t(identity_.ranks)) await_others_of(index);
  else end_grace_if_over();
}

void TcpLinks::data_ended(int rank) {
  look();
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[std::size_t(rank)];
    peer.in_doubt = !peer.goodbye && !peer.ended;
    if (!peer.goodbye) await_others_of(std::size_t(rank));
  }
  if (has_failed()) run_actions();
}

void TcpLinks::know_nodes(std::vector<int> nodes) {
  std::lock_guard lock(mutex_);
  nodes_ = std::move(nodes);
}

/// Lock held. TL-3
void TcpLinks::await_others_of(std::size_t index) {
  if (failure_) return;
  peers_[index].dead = true;
  if (!more_may_follow()) return report_dead();
  if (grace_until_) return;
  grace_until_ = std::chrono::steady_clock::now() + identity_.grace;
  signal_fd(thread_wake_.get());  // whoever saw it: the thread sees to its end
}

/// Lock held. Is there still one to tell: of its own death that is in doubt, or, being on the node of one of the dead,
/// that it has ended with it?
bool TcpLinks::more_may_follow() const {
  if (std::ranges::any_of(peers_, &Peer::in_doubt)) return true;
  if (nodes_.empty()) return false;
  const auto node_of = [&](std::size_t rank) { return nodes_[rank]; };
  for (std::size_t r = 0; r < std::size_t(identity_.ranks); ++r) {
    const Peer& peer = peers_[r];
    if (peer.dead || peer.ended || peer.goodbye || !peer.control || node_of(r) == node_of(std::size_t(identity_.rank)))
      continue;
    for (std::size_t d = 0; d < std::size_t(identity_.ranks); ++d)
      if (peers_[d].dead && node_of(d) == node_of(r)) return true;
  }
  return false;
}

/// Lock held. Somebody has told: is that all that was waited for?
void TcpLinks::end_grace_if_over() {
  if (!grace_until_ || more_may_follow()) return;
  if (std::ranges::any_of(peers_, &Peer::dead)) report_dead();
  else grace_until_.reset();
}

/// Lock held.
void TcpLinks::report_dead() {
  grace_until_.reset();
  if (failure_) return;
  std::vector<int> dead;
  for (int r = 0; r < identity_.ranks; ++r)
    if (peers_[std::size_t(r)].dead) dead.push_back(r);
  const bool one = dead.size() == 1;
  failure_ = Failure{Reason::kDied,
                     fmt::format("rank{} {} died: {} to rank {} ended", one ? "" : "s", fmt::join(dead, ", "),
                                 one ? "its connection" : "their connections", identity_.rank),
                     dead};
  failed_.store(true, std::memory_order_release);
  send_all(frame_of_failure());
  signal_fd(wake_.get());
}

/// Milliseconds for epoll.
int TcpLinks::grace_left() const {
  std::lock_guard lock(mutex_);
  if (!grace_until_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*grace_until_ - std::chrono::steady_clock::now());
  return int(std::max<std::int64_t>(left.count(), 0));
}

/// After a look that found nothing: a thread that stood still may find that a word came in time.
void TcpLinks::end_grace() {
  std::lock_guard lock(mutex_);
  if (grace_until_ && std::chrono::steady_clock::now() >= *grace_until_) report_dead();
}

TcpLinks::RankSet TcpLinks::set_of(const std::vector<int>& ranks) {
  RankSet set{};
  for (int rank : ranks)
    if (rank >= 0 && rank < kTcpRanksMax) set[std::size_t(rank) / 64] |= std::uint64_t(1) << (rank % 64);
  return set;
}

std::vector<int> TcpLinks::ranks_of(const RankSet& set) const {
  std::vector<int> ranks;
  for (int r = 0; r < identity_.ranks; ++r)
    if (set[std::size_t(r) / 64] >> (r % 64) & 1) ranks.push_back(r);
  return ranks;
}

void TcpLinks::working_on(const Progress& progress) {
  std::lock_guard lock(mutex_);
  own_ = progress;
}

void TcpLinks::tell_progress(const std::vector<int>& awaited) {
  const RankSet set = set_of(awaited);
  bool differ = false;
  {
    std::lock_guard lock(mutex_);
    if ((told_ == own_.sequence && told_awaited_ == set) || identity_.ranks == 1) return;
    told_ = own_.sequence;
    told_awaited_ = set;
    send_all(frame_of_progress());
    for (std::size_t r = 0; r < std::size_t(identity_.ranks); ++r) compare(r);
    differ = failure_.has_value();
  }
  if (differ) wake(), run_actions();
}

void TcpLinks::is_through() {
  std::lock_guard lock(mutex_);
  through_ = own_.sequence;
  const bool told = told_ == own_.sequence && told_awaited_ != RankSet{};
  told_awaited_ = {};
  if (told || others_wait_in_ >= own_.sequence) send_all(frame_of_progress());
}

/// Lock held.
TcpLinks::ControlFrame TcpLinks::frame_of_progress() const {
  ControlFrame frame;
  frame.magic = kFrameMagic;
  frame.word = Word::kProgress;
  frame.sequence = own_.sequence;
  frame.what = own_.signature.what;
  frame.count = own_.signature.count;
  frame.scale = own_.signature.scale;
  frame.through = through_;
  if (told_ == own_.sequence) frame.ranks = told_awaited_;
  return frame;
}

/// Lock held. Two ranks that wait in different operations with the same number never meet: that is found here.
void TcpLinks::compare(std::size_t index) {
  const Peer& peer = peers_[index];
  if (failure_ || index == std::size_t(identity_.rank) || peer.progress.sequence == 0 ||
      peer.progress.sequence != own_.sequence)
    return;
  if (peer.progress.signature == own_.signature) return;
  failure_ = Failure{
      Reason::kMismatch, describe_mismatch(identity_.rank, own_.signature, int(index), peer.progress.signature), {}};
  failed_.store(true, std::memory_order_release);
  send_all(frame_of_failure());
  signal_fd(wake_.get());
}

void TcpLinks::seen(int peer, const Progress& progress) {
  std::lock_guard lock(mutex_);
  Progress& known = peers_[std::size_t(peer)].progress;
  if (known.sequence < progress.sequence) known = progress;
}

std::vector<int> TcpLinks::to_blame(std::uint64_t sequence, const std::vector<int>& awaited) const {
  std::vector<Standing> ranks;
  {
    std::lock_guard lock(mutex_);
    for (std::size_t r = 0; r < std::size_t(identity_.ranks); ++r) {
      const Peer& peer = peers_[r];
      ranks.push_back({peer.progress.sequence, peer.through, peer.waits_in, ranks_of(peer.awaited), peer.heard});
    }
  }
  return collective::to_blame({identity_.rank, sequence, awaited}, ranks);
}

void TcpLinks::wake() { signal_fd(wake_.get()); }
void TcpLinks::clear_wake() { clear_fd(wake_.get()); }

}  // namespace troupe::collective
