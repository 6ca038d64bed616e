#include "collective/tcp/streams.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "kernels/cpu/isa/dtype.h"

namespace troupe::collective {
namespace {

constexpr std::size_t kReadAhead = 16u << 10;        // a small frame comes with one call
constexpr std::size_t kAtOnce = 512u << 10;          // then the other direction has its turn
constexpr std::size_t kStreamStashMax = std::size_t(256) << 20;
constexpr std::uint64_t kMessage = 0xff;             // no Kind
constexpr int kPartsMax = 16;

}  // namespace

TcpStreams::TcpStreams(TcpLinks& links) : links_(links), peers_(std::size_t(links.ranks())) {
  for (Peer& peer : peers_) peer.buffer = std::make_unique_for_overwrite<std::byte[]>(kReadAhead);
}

void TcpStreams::begin(const Progress& progress) {
  current_ = progress;
  in_operation_ = true;
}

void TcpStreams::send(int to, const std::byte* data, std::size_t bytes) {
  peers_[std::size_t(to)].out.push_back(
      {{bytes, current_.sequence, current_.signature.what, current_.signature.count, current_.signature.scale},
       data,
       0,
       nullptr});
}
void TcpStreams::receive(int from, std::byte* to, std::size_t bytes) {
  peers_[std::size_t(from)].in.push_back({to, bytes});
}

void TcpStreams::post(Transfer& transfer) {
  Peer& peer = peers_[std::size_t(transfer.peer)];
  if (!transfer.sends) return peer.recvs.push_back(&transfer);
  peer.out.push_back(
      {{transfer.bytes, 0, kMessage | std::uint64_t(transfer.type) << 8, std::uint64_t(std::int64_t(transfer.tag)), 0},
       transfer.from,
       0,
       &transfer});
}

bool TcpStreams::has_messages() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) {
    return !peer.recvs.empty() || std::ranges::any_of(peer.out, [](const Out& out) { return out.transfer != nullptr; });
  });
}

void TcpStreams::clear() {
  for (Peer& peer : peers_) {
    peer.out.clear();
    peer.in.clear();
    peer.recvs.clear();
    peer.target = nullptr;
    peer.transfer = nullptr;
    peer.stash = nullptr;
  }
  failed_ = true;
}

bool TcpStreams::wants_input(const Peer& peer) const {
  if (peer.ended) return false;
  if (peer.target) return true;                                          // in the middle of a frame
  if (!peer.has_header) return in_operation_ || !peer.recvs.empty();
  return false;                                                          // decided when what it waits for changes
}

TcpStreams::Moved TcpStreams::pump() {
  if (failed_) return Moved::kFailed;
  bool moved = false;
  for (int p = 0; p < links_.ranks(); ++p) {
    Peer& peer = peers_[std::size_t(p)];
    if (p == links_.rank()) {
      const std::size_t before = peer.out.size() + peer.recvs.size();
      loop_back();
      moved |= before != peer.out.size() + peer.recvs.size();
    } else if (links_.data(p) >= 0) {
      if (!peer.out.empty()) moved |= write_some(p);
      if (in_operation_ || !peer.recvs.empty() || peer.target) moved |= read_some(p);
    }
    if (failed_ || links_.has_failed()) return Moved::kFailed;
  }
  return moved ? Moved::kSomething : Moved::kNothing;
}

bool TcpStreams::write_some(int index) {
  Peer& peer = peers_[std::size_t(index)];
  bool moved = false;
  for (std::size_t budget = kAtOnce; !peer.out.empty() && budget > 0;) {
    iovec parts[kPartsMax];
    int used = 0;
    std::size_t bytes = 0;
    for (auto out = peer.out.begin(); out != peer.out.end() && used + 2 <= kPartsMax && bytes < budget; ++out) {
      std::size_t done = out->done;
      if (done < sizeof(Header)) {
        parts[used++] = {reinterpret_cast<std::byte*>(&out->header) + done, sizeof(Header) - done};
        bytes += sizeof(Header) - done;
        done = sizeof(Header);
      }
      const std::size_t rest =
          std::min<std::size_t>(out->header.bytes - (done - sizeof(Header)), budget > bytes ? budget - bytes : 0);
      if (rest != 0) parts[used++] = {const_cast<std::byte*>(out->data) + (done - sizeof(Header)), rest};
      bytes += rest;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = std::size_t(used);
    const ssize_t n = ::sendmsg(links_.data(index), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (errno != EAGAIN) peer.out.clear(), links_.data_ended(index);
      return moved;
    }
    moved = true;
    budget -= std::min(budget, std::size_t(n));
    for (std::size_t left = std::size_t(n); left > 0;) {
      Out& out = peer.out.front();
      const std::size_t step = std::min<std::size_t>(left, out.header.bytes + sizeof(Header) - out.done);
      out.done += step;
      left -= step;
      if (out.done < out.header.bytes + sizeof(Header)) break;
      if (out.transfer) out.transfer->done = true;
      else ++peer.sent;
      peer.out.pop_front();
    }
    if (std::size_t(n) < bytes) return moved;
  }
  return moved;
}

bool TcpStreams::read_some(int index) {
  Peer& peer = peers_[std::size_t(index)];
  bool moved = take_stashed(index);
  const int fd = links_.data(index);
  for (std::size_t budget = kAtOnce; budget > 0 && !failed_;) {
    if (!peer.has_header) {
      if (peer.end - peer.begin < sizeof(Header)) {
        if (peer.ended) return moved;
        std::memmove(peer.buffer.get(), peer.buffer.get() + peer.begin, peer.end - peer.begin);
        peer.end -= peer.begin;
        peer.begin = 0;
        const ssize_t n = ::recv(fd, peer.buffer.get() + peer.end, kReadAhead - peer.end, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return moved;
        if (n <= 0) {
          peer.ended = true;
          links_.data_ended(index);
          return moved;
        }
        peer.end += std::size_t(n);
        moved = true;
        if (peer.end < sizeof(Header)) continue;
      }
      std::memcpy(&peer.header, peer.buffer.get() + peer.begin, sizeof(Header));
      peer.begin += sizeof(Header);
      peer.has_header = true;
      peer.got = 0;
      if (peer.header.sequence != 0)
        links_.seen(index, {peer.header.sequence, {peer.header.what, peer.header.count, peer.header.scale}});
    }
    if (!peer.target && !decide(index)) return moved;
    const std::size_t before = peer.got;
    bool more = true;
    const bool whole = take_payload(index, fd, more);
    moved |= whole || peer.got != before;
    budget -= std::min(budget, peer.got - before);
    if (whole) payload_done(index);
    else if (!more) return moved;
  }
  return moved;
}

/// True when the payload is complete; more: the socket may hold more.
bool TcpStreams::take_payload(int index, int fd, bool& more) {
  Peer& peer = peers_[std::size_t(index)];
  while (peer.got < peer.header.bytes) {
    const std::size_t left = peer.header.bytes - peer.got;
    if (peer.begin != peer.end) {
      const std::size_t n = std::min(left, peer.end - peer.begin);
      std::memcpy(peer.target + peer.got, peer.buffer.get() + peer.begin, n);
      peer.begin += n;
      peer.got += n;
      continue;
    }
    // Close to the end of a frame the next header comes along.
    const bool direct = left >= kReadAhead;
    const ssize_t n = direct ? ::recv(fd, peer.target + peer.got, std::min(left, kAtOnce), MSG_DONTWAIT)
                             : ::recv(fd, peer.buffer.get(), kReadAhead, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      more = false;
      if (n == 0 || errno != EAGAIN) peer.ended = true, links_.data_ended(index);
      return false;
    }
    if (direct) {
      peer.got += std::size_t(n);
      if (std::size_t(n) >= kAtOnce) return peer.got == peer.header.bytes;
    } else {
      peer.begin = 0;
      peer.end = std::size_t(n);
    }
  }
  return true;
}

/// A header is there: where does the payload go? False when it must wait, or nothing fits (TCS-2).
bool TcpStreams::decide(int index) {
  Peer& peer = peers_[std::size_t(index)];
  const Header& header = peer.header;
  static std::byte nowhere[1];
  if (header.sequence == 0) return decide_message(index);
  if (!in_operation_ || header.sequence > current_.sequence) return false;
  const Signature theirs{header.what, header.count, header.scale};
  if (header.sequence == current_.sequence && theirs != current_.signature) {
    links_.fail({Reason::kMismatch, describe_mismatch(links_.rank(), current_.signature, index, theirs), {}});
    return false;
  }
  if (header.sequence < current_.sequence) {
    links_.fail({Reason::kBackend, fmt::format("rank {} sent something of an operation that is over", index), {}});
    return false;
  }
  if (peer.in.empty()) return false;
  if (peer.in.front().bytes != header.bytes) {
    links_.fail({Reason::kMismatch,
                 fmt::format("{}: rank {} sends {} bytes to rank {}, which wants {}", describe(theirs), index,
                             header.bytes, links_.rank(), peer.in.front().bytes),
                 {}});
    return false;
  }
  peer.target = header.bytes == 0 ? nowhere : peer.in.front().to;
  return true;
}

bool TcpStreams::decide_message(int index) {
  Peer& peer = peers_[std::size_t(index)];
  const int tag = int(std::int64_t(peer.header.count));
  const bool older =
      std::ranges::any_of(peer.stashed, [&](const Stash& stash) { return stash.header.count == peer.header.count; });
  const auto recv = std::ranges::find_if(peer.recvs, [&](const Transfer* transfer) { return transfer->tag == tag; });
  if (!older && recv != peer.recvs.end()) {  // TCS-3: an older message of that tag goes first
    if ((*recv)->bytes != peer.header.bytes || (*recv)->type != detail::DType(peer.header.what >> 8 & 0xff))
      return mismatch_of(index, peer.header, **recv);
    peer.transfer = *recv;
    peer.target = peer.header.bytes == 0 ? peer.buffer.get() : (*recv)->to;
    return true;
  }
  if (peer.header.bytes > kStreamStashMax) return false;
  if (stashed_bytes_ + peer.header.bytes > kStreamStashMax && stashed_bytes_ > 0) return false;
  // TCS-4
  peer.stashed.push_back({peer.header, std::make_unique_for_overwrite<std::byte[]>(peer.header.bytes), false});
  peer.stash = &peer.stashed.back();
  stashed_bytes_ += peer.header.bytes;
  peer.target = peer.header.bytes == 0 ? peer.buffer.get() : peer.stash->data.get();
  return true;
}

void TcpStreams::payload_done(int index) {
  Peer& peer = peers_[std::size_t(index)];
  peer.has_header = false;
  peer.target = nullptr;
  if (peer.transfer) {
    peer.transfer->done = true;
    std::erase(peer.recvs, std::exchange(peer.transfer, nullptr));
  } else if (peer.stash) {
    std::exchange(peer.stash, nullptr)->whole = true;
    (void)take_stashed(index);
  } else {
    peer.in.pop_front();
    ++peer.received;
  }
}

bool TcpStreams::take_stashed(int index) {
  Peer& peer = peers_[std::size_t(index)];
  bool moved = false;
  for (auto recv = peer.recvs.begin(); recv != peer.recvs.end() && !peer.stashed.empty() && !failed_;) {
    Transfer& transfer = **recv;
    const auto found = std::ranges::find_if(
        peer.stashed, [&](const Stash& stash) { return int(std::int64_t(stash.header.count)) == transfer.tag; });
    if (found == peer.stashed.end() || !found->whole || &transfer == peer.transfer) { ++recv; continue; }
    if (found->header.bytes != transfer.bytes || detail::DType(found->header.what >> 8 & 0xff) != transfer.type)
      return mismatch_of(index, found->header, transfer);
    if (transfer.bytes != 0) std::memcpy(transfer.to, found->data.get(), transfer.bytes);
    stashed_bytes_ -= transfer.bytes;
    peer.stashed.erase(found);
    transfer.done = true;
    recv = peer.recvs.erase(recv);
    moved = true;
  }
  return moved;
}

/// Messages of this rank to itself.
void TcpStreams::loop_back() {
  const int me = links_.rank();
  Peer& peer = peers_[std::size_t(me)];
  for (; !peer.out.empty() && !failed_; peer.out.pop_front()) {
    const Out& out = peer.out.front();
    auto copy = std::make_unique_for_overwrite<std::byte[]>(out.header.bytes);
    if (out.header.bytes != 0) std::memcpy(copy.get(), out.data, out.header.bytes);
    peer.stashed.push_back({out.header, std::move(copy), true});
    stashed_bytes_ += out.header.bytes;
    if (out.transfer) out.transfer->done = true;
  }
  (void)take_stashed(me);
}

bool TcpStreams::mismatch_of(int index, const Header& header, const Transfer& transfer) {
  const auto text = [](std::uint64_t bytes, kernels::DType type) {
    const std::size_t size = kernels::size_of(type);
    return fmt::format("{} {}", size ? bytes / size : bytes, size ? kernels::name_of(type) : "bytes");
  };
  failed_ = true;
  links_.fail({Reason::kMismatch,
               fmt::format("rank {} sent {} with tag {}, rank {} wanted {}", index,
                           text(header.bytes, kernels::DType(header.what >> 8 & 0xff)), std::int64_t(header.count),
                           links_.rank(), text(transfer.bytes, kernels::DType(transfer.type))),
               {}});
  return false;
}

void TcpStreams::sleep(Clock::time_point deadline) {
  polled_.assign(1, {links_.wake_fd(), POLLIN, 0});
  for (int p = 0; p < links_.ranks(); ++p) {
    const Peer& peer = peers_[std::size_t(p)];
    const int fd = p == links_.rank() ? -1 : links_.data(p);
    const int events = (wants_input(peer) ? POLLIN : 0) | (peer.out.empty() ? 0 : POLLOUT);
    if (fd >= 0 && events != 0) polled_.push_back({fd, short(events), 0});
  }
  const auto left = deadline - Clock::now();
  if (left <= Clock::duration::zero()) return;
  (void)::poll(polled_.data(), polled_.size(),
               int(std::chrono::ceil<std::chrono::milliseconds>(std::min<Clock::duration>(left, std::chrono::hours(1)))
                       .count()));
  if (polled_[0].revents != 0) links_.clear_wake();
}

}  // namespace troupe::collective
