// GM-1's messages, the record of a group, cards, introductions, and what ranks say to each other on their sockets:
// WC-3, NIT-1, HOV-1, HOV-2, RC-2, MSC-2, TL-1, TL-5, TCS-2. Valid ones with a few edits are a value, an error, or a
// failure that the group hears of; none takes memory out of proportion, and nothing but what proves itself is passed
// on.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collective/group/reception.h"
#include "collective/group/registry.h"
#include "collective/tcp/links.h"
#include "collective/tcp/streams.h"
#include "core/base/check.h"
#include "core/net/base/proof.h"
#include "core/net/data/introduction.h"
#include "core/node/daemon/peers/hand_overs.h"
#include "core/wire/codec.h"
#include "core/wire/group_messages.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_watch.h"

namespace {

using namespace troupe;
using namespace troupe::collective;
using fuzz::Input;
using Bytes = std::vector<std::byte>;

template <class M> void message(const M& good, Input& input) {
  Bytes bytes = wire::encode_message(good);
  fuzz::edit_all(bytes, input);
  const fuzz::Exact exact(bytes);
  const fuzz::MemoryWatch memory;
  const Result<M> back = wire::decode_message<M>(exact.view());
  memory.require(3 * (32 * bytes.size() + (1 << 20)), "a group message");
  if (!back.ok()) return TROUPE_CHECK(back.error().code() == ErrorCode::kSerialization, "bad bytes say so");
  TROUPE_CHECK(wire::encode_message(*back).size() == bytes.size(), "a message has one size");
}

void messages(Input& input) {
  switch (input.byte() % 6) {
    case 0: {
      wire::ExpectRanks ranks{9, 1, "dp", 0, {}};
      ranks.from.resize(3);
      return message(ranks, input);
    }
    case 1: return message(wire::RankLeft{9, 1}, input);
    case 2: return message(wire::RankSocket{9, 1, 2, 0, 1}, input);
    case 3: return message(wire::RankDoor{1, 2}, input);
    case 4: {
      wire::GroupWord word;
      word.key = "__collective/1/dp";
      word.record = "troupe-group-3 1 0";
      word.text = "rank 1 died";
      word.missing = {1, 2, 3};
      return message(word, input);
    }
    default: return message(wire::GroupAnswer{77, 5}, input);
  }
}

void record(Input& input) {
  GroupRecord good;
  good.epoch = 3;
  good.timeout_ns = 5'000'000'000;
  good.id = 99;
  good.secret = std::string(64, 'a');
  good.founder = {1, 2};
  good.memories = {{"node", 77, 5}, {"", 1, 2}};
  good.members.resize(3);
  for (GroupMember& member : good.members) member.actor = "a", member.node = "n", member.data_address = "127.0.0.1:5";
  const std::string text = encode(good);
  Bytes bytes(as_bytes(text).begin(), as_bytes(text).end());
  const bool same = fuzz::edit_all(bytes, input);
  const std::string said(as_text(bytes));
  const fuzz::MemoryWatch memory;
  const Result<GroupRecord> back = decode_record(said);
  memory.require(64 * said.size() + (256 << 10), "the record of a group");
  TROUPE_CHECK(!same || back.ok(), "what encode wrote is read");
  if (back.ok()) TROUPE_CHECK(encode(*back) == said, "a record has one text");
}

template <class T> void append(Bytes& bytes, const T& value) {
  const auto view = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), view.begin(), view.end());
}

void card(Input& input) {
  Visit own;
  own.hello.size = 4;
  own.hello.build = 1;
  Visit good = own;
  good.hello.rank = 2;
  const MeetingSecret secret("token");
  const MeetingNonce nonce{1};
  const MeetingAnswer answer{good.card, secret.answer(good.hello, nonce, good.card)};
  Bytes bytes;
  append(bytes, good.hello);
  append(bytes, answer);
  const Bytes before = bytes;
  fuzz::edit_all(bytes, input);
  bytes.resize(before.size());
  const bool same = bytes == before;
  MeetingAnswer shown;
  std::memcpy(&good.hello, bytes.data(), sizeof good.hello);
  std::memcpy(&shown, bytes.data() + sizeof good.hello, sizeof shown);
  good.card = shown.card;
  const Judgement early = judge_hello(good.hello, own.hello, "", true);
  const bool proven = net::same_proof(shown.proof, secret.answer(good.hello, nonce, shown.card));
  const Judgement judgement = judge(good, own, std::vector<bool>(4));
  using Ruling = Judgement::Ruling;
  TROUPE_CHECK(proven == same, "an edited hello, card or proof proves nothing");
  if (same) TROUPE_CHECK(early.ruling == Ruling::kWelcome, "a right hello is taken");
  if (same) TROUPE_CHECK(judgement.ruling == Ruling::kWelcome, "a right card is welcome");
  TROUPE_CHECK(early.ruling != Ruling::kDisagrees, "without a proof nobody ends a meeting that asks for a token");
  if (judgement.ruling == Ruling::kWelcome)
    TROUPE_CHECK(good.hello.rank >= 1 && good.hello.rank < 4, "who is welcome has a place");
  TROUPE_CHECK(early.text.size() + judgement.text.size() < 1024, "what is said of it is short");
  (void)same_machine(good.card, own.card);
}

net::PairKey key_of(std::uint8_t seed) {
  net::PairKey key;
  key.fill(seed);
  return key;
}

void introductions(Input& input) {
  node::HandOvers door(8);
  wire::ExpectRanks expected{9, 1, "dp", 0, {}};
  for (int from = 1; from < 4; ++from) expected.from.push_back({from, 0, key_of(std::uint8_t(from))});
  node::HandOvers::TimePoint now{std::chrono::seconds(100)};
  for (int steps = 0; steps < 32 && !input.empty(); ++steps) {
    const std::uint8_t step = input.byte();
    if (step % 8 == 0) {
      for (const auto& passed : door.expect({1, 5}, expected)) TROUPE_CHECK(passed.what.to == 0, "the right rank");
    } else if (step % 8 == 1) {
      door.left({1, 5}, {9, 0});
    } else if (step % 8 == 2) {
      door.expire(now += std::chrono::milliseconds(input.number(2)));
    } else {
      const int from = 1 + step / 8 % 4;
      const auto made = net::introduce({.group = 9, .epoch = 1, .from = from, .to = 0, .channel = 0},
                                       key_of(std::uint8_t(from)));
      Bytes bytes(net::bytes_of_introduction(*made).begin(), net::bytes_of_introduction(*made).end());
      const bool same = fuzz::edit_all(bytes, input);
      const fuzz::Exact exact(bytes);
      const auto who = net::decode_introduction(exact.view());
      TROUPE_CHECK(!same || who.ok(), "what was introduced is read");
      if (!who.ok()) continue;
      TROUPE_CHECK(same || !net::proves(*who, key_of(std::uint8_t(from))), "an edited proof proves nothing");
      const auto passed = door.arrive(*who, UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), now);
      TROUPE_CHECK(!passed || same, "only who proves itself is passed on");
    }
    TROUPE_CHECK(door.door().early <= 8, "few wait");
    (void)door.take_refusals();
  }
}

UniqueFd near_end(UniqueFd& far) {
  int fds[2] = {-1, -1};
  TROUPE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "a pair of sockets");
  far = UniqueFd(fds[0]);
  return UniqueFd(fds[1]);
}

/// A frame on a control or data socket, as the peer would write it.
struct ControlFrame {
  std::uint32_t magic = 0x31435254;
  std::uint8_t word = 2, reason = 0, stale = 0, reserved = 0;
  std::uint64_t sequence = 1, what = 0, count = 0, scale = 0;
  std::uint64_t missing[8] = {};
  char text[920] = {};
};
static_assert(sizeof(ControlFrame) == 1024);
struct StreamHeader { std::uint64_t bytes = 0, sequence = 1, what = 0, count = 0, scale = 0; };

void sockets(Input& input) {
  const std::uint8_t how = input.byte();
  Bytes control, data;
  net::Token::Digest proof{};
  proof.fill(7);
  if (how & 1) append(control, proof), append(data, proof);
  ControlFrame frame;
  frame.word = std::uint8_t(1 + how / 2 % 3);
  std::strcpy(frame.text, "rank 1 died");
  frame.missing[0] = 2;
  append(control, frame);
  StreamHeader header{100, how & 8 ? 0u : 1u, how & 8 ? 0xffu : 0u, 0, 0};
  for (int frames = 0; frames < 2; ++frames) append(data, header), data.resize(data.size() + 100);
  fuzz::edit_all(control, input);
  fuzz::edit_all(data, input);

  const fuzz::MemoryWatch memory;
  auto links = TcpLinks::create({.rank = 0, .ranks = 2, .epoch = 1, .grace = std::chrono::milliseconds(0)});
  UniqueFd far_control, far_data;
  if (how & 1) {
    links->arrive_unproven(1, Channel::kControl, near_end(far_control), proof);
    links->arrive_unproven(1, Channel::kData, near_end(far_data), proof);
  } else {
    links->arrive(1, Channel::kControl, near_end(far_control));
    links->arrive(1, Channel::kData, near_end(far_data));
  }
  (void)!::send(far_control.get(), control.data(), control.size(), MSG_NOSIGNAL);
  (void)!::send(far_data.get(), data.data(), data.size(), MSG_NOSIGNAL);
  links->look();
  TcpStreams streams(*links);
  Bytes into(200);
  Transfer transfer;
  transfer.peer = 1;
  transfer.to = into.data();
  transfer.bytes = 100;
  streams.begin({1, {}});
  if (how & 8) streams.post(transfer);
  else streams.receive(1, into.data(), 100);
  for (int i = 0; i < 8 && streams.pump() == TcpStreams::Moved::kSomething; ++i) {}
  for (std::size_t i = 100; i < into.size(); ++i) TROUPE_CHECK(into[i] == std::byte{0}, "nothing is written beyond");
  far_control.reset();
  far_data.reset();
  links->look();
  links->leave();
  memory.require((256 << 20) + (2 << 20), "the sockets of a rank");  // addresses more than pages: TCS-4
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  switch (input.byte() % 6) {
    case 0: messages(input); break;
    case 1: record(input); break;
    case 2: card(input); break;
    case 3: introductions(input); break;
    default: sockets(input);
  }
  return 0;
}
