#include "core/net/link/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::net {

void Session::send(const FrameHeader& given, ByteView payload) {
  FrameHeader header = given;
  header.version = kFrameVersion;
  header.payload_size = static_cast<std::uint32_t>(payload.size());
  header.reserved = 0;
  std::vector<std::byte> frame(sizeof header + payload.size());
  std::memcpy(frame.data(), &header, sizeof header);
  if (!payload.empty()) std::memcpy(frame.data() + sizeof header, payload.data(), payload.size());
  kept_bytes_ += frame.size();
  kept_.push_back(std::move(frame));
  if (!flowing_) return;
  handed_ = first_ + kept_.size();
  output_.transmit(out_link_, kept_.back());
}

void Session::control(std::uint64_t link, Control what, std::uint64_t number, std::uint32_t begins) {
  FrameHeader header;
  header.kind = kSessionKind;
  header.token = what;
  header.arg0 = number;
  header.arg1 = self_;
  header.arg2 = peer_;
  header.arg3 = begins;
  output_.transmit(link, std::as_bytes(std::span(&header, 1)));
}

bool Session::identify(std::uint64_t peer) {
  if (peer_ == 0) peer_ = peer;
  return peer == peer_;
}

void Session::link_up(std::uint64_t link) {
  out_link_ = link;
  const bool fresh = first_ == 0 && handed_ == 0;
  flowing_ = fresh;
  control(link, kBegin, first_, ++begun_ << 1 | (fresh ? 1 : 0));
  if (fresh) flow();  // the peer cannot have anything of us: nothing to ask
}

bool Session::is_given_up(std::uint64_t link) const {
  return std::find(given_up_.begin(), given_up_.end(), link) != given_up_.end();
}

void Session::link_down(std::uint64_t link) {
  if (link == out_link_) {
    out_link_ = 0;
    flowing_ = false;
  }
  if (link == in_link_) in_link_ = 0;
  std::erase(given_up_, link);
}

/// Everything that is kept goes out, from the first.
void Session::flow() {
  flowing_ = true;
  handed_ = first_ + kept_.size();
  for (const std::vector<std::byte>& frame : kept_) output_.transmit(out_link_, frame);
}

bool Session::acknowledged(std::uint64_t next) {
  if (next < first_ || next > handed_) return false;  // NSE-5: what was never sent, or is not wanted again
  for (; first_ < next; ++first_) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
  return true;
}

bool Session::restore_acknowledged(std::uint64_t frames) {
  presume_given();
  return acknowledged(frames);
}

Session::Took Session::receive(std::uint64_t link, const FrameHeader& header, ByteView payload) {
  if (header.kind == kSessionKind) return take_control(link, header);
  if (link != in_link_) return is_given_up(link) ? Took::kStale : Took::kOutside;
  ++wanted_;
  unacked_bytes_ += sizeof header + payload.size();
  const bool due = ++unacked_frames_ >= options_.ack_frames || unacked_bytes_ >= options_.ack_bytes;
  output_.deliver(header, payload);
  if (due && in_link_ == link) {
    unacked_frames_ = unacked_bytes_ = 0;
    control(link, kAck, wanted_);
  }
  return Took::kDelivered;
}

Session::Took Session::take_control(std::uint64_t link, const FrameHeader& header) {
  if (header.arg1 != peer_) return Took::kViolation;  // another incarnation speaks
  switch (header.token) {
    case kBegin: return take_begin(link, header);
    case kResume:
      if (link != out_link_) return Took::kControl;  // the answer to a question on a link that was given up
      if (flowing_ || !acknowledged(header.arg0)) return Took::kViolation;
      flow();
      return Took::kControl;
    case kAck:
      // An old link may still bring one: what it says stays true.
      if (header.arg0 >= first_ && !acknowledged(header.arg0)) return Took::kViolation;
      return Took::kControl;
    default: return Took::kViolation;
  }
}

Session::Took Session::take_begin(std::uint64_t link, const FrameHeader& header) {
  if (header.arg2 != 0 && header.arg2 != self_) return Took::kViolation;  // meant for our predecessor
  if (link == in_link_ || is_given_up(link)) return Took::kViolation;  // a link begins once
  const std::uint32_t begun = header.arg3 >> 1;
  if (in_link_ != 0 && begun <= in_begun_) {  // overtaken by the Begin on in_link_
    given_up_.push_back(link);
    return Took::kViolation;
  }
  const bool follows = (header.arg3 & 1) != 0;
  if (follows ? wanted_ != 0 || header.arg0 != 0 : header.arg0 > wanted_) return Took::kViolation;
  if (in_link_ != 0) given_up_.push_back(in_link_);
  in_link_ = link;
  in_begun_ = begun;
  unacked_frames_ = unacked_bytes_ = 0;
  if (!follows) control(link, kResume, wanted_);
  return Took::kControl;
}

std::vector<FrameHeader> Session::end() {
  std::vector<FrameHeader> never;
  for (std::uint64_t number = handed_; number < first_ + kept_.size(); ++number) {
    FrameHeader& header = never.emplace_back();
    std::memcpy(&header, kept_[number - first_].data(), sizeof header);
  }
  kept_.clear();
  kept_bytes_ = 0;
  out_link_ = in_link_ = 0;
  flowing_ = false;
  return never;
}

}  // namespace troupe::net
