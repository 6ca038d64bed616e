// NDS-1 to NDS-3, NDS-5, PX-1, HK-3: real data sockets on loopback, of which one end is the fuzzer's. What the server
// is asked is a request with a few edits, behind a right or an edited proof; what the client is answered is a reply
// with chunks that were edited. The server goes on serving, the client's fetch ends once, and is right only with the
// right bytes. A hang is found by the socket's time limit.
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/net/base/handshakes.h"
#include "core/net/base/proof.h"
#include "core/net/base/socket.h"
#include "core/net/data/codec.h"
#include "core/net/data/data_socket.h"
#include "core/net/data/format.h"
#include "core/net/data/introduction.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_watch.h"

namespace {

using namespace troupe;
using namespace troupe::net;
using fuzz::Input;
using Bytes = std::vector<std::byte>;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kBuffer = 3000, kChunk = 4096;
constexpr std::size_t kMemoryMax = 4 << 20;  // of both ends and their threads, whatever is said

Bytes buffer() {
  Bytes bytes(kBuffer);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7);
  return bytes;
}
Token token() { return *Token::parse(std::string(64, 'a')); }
ProofSelf self() { return {.token = token(), .purpose = ProofPurpose::kData, .incarnation = 5}; }

template <class Header> void append(Bytes& bytes, const Header& header) {
  const auto view = std::as_bytes(std::span(&header, 1));
  bytes.insert(bytes.end(), view.begin(), view.end());
}

void set_limits(int fd) {
  const timeval patience{30, 0};
  const linger reset{1, 0};  // no port waits for late packets of a connection that is over
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}
void send_all(int fd, ByteView bytes) { (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
/// Exactly so many; false: the end.
bool read_whole(int fd, std::byte* to, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::recv(fd, to + done, size - done, 0);
    TROUPE_CHECK(n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK), "the other end hangs");
    if (n <= 0) return false;
    done += std::size_t(n);
  }
  return true;
}
void read_to_the_end(int fd) {
  std::byte bytes[4096];
  while (read_whole(fd, bytes, 1)) {}
}
/// Carries the exchange on over the socket. False: it failed or the other end hung up.
bool prove(int fd, ProofExchange& exchange) {
  for (;;) {
    const std::string out = exchange.output();
    send_all(fd, as_bytes(out));
    if (exchange.proven()) return true;
    if (exchange.failure()) return false;
    Bytes in(exchange.wanted());
    if (!read_whole(fd, in.data(), in.size())) return false;
    exchange.take(in);
  }
}

class Source final : public DataSource {
 public:
  Result<PinnedBytes> open(const BufferKey& key) override {
    if (key.slot != 1) return NotFoundError("no such buffer");
    return PinnedBytes{*bytes_, bytes_};
  }

 private:
  std::shared_ptr<const Bytes> bytes_ = std::make_shared<const Bytes>(buffer());
};

/// Both ends, for all inputs.
struct World {
  World() {
    DataServerOptions options{.token = token()};
    options.io_threads = 1;
    options.chunk_bytes = kChunk;
    options.hand_over = [](UniqueFd, ByteView body) { (void)decode_introduction(body); };
    server = std::move(DataServer::open(source, std::move(options))).value();
    client = std::move(DataClient::open({.token = token(), .io_threads = 1})).value();
    listener = std::move(listen_tcp("127.0.0.1", 0)).value();
    address = "127.0.0.1:" + std::to_string(*local_port(listener.get()));
  }
  Source source;
  std::unique_ptr<DataServer> server;
  std::unique_ptr<DataClient> client;
  UniqueFd listener;
  std::string address;
};

UniqueFd connect_to(int port) {
  const auto address = *parse_address("127.0.0.1:" + std::to_string(port));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_limits(fd.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) fd.reset();
  return fd;
}

DataRequest request_for(std::uint64_t offset, std::uint64_t length) {
  DataRequest request;
  request.id = 3;
  request.slot = 1;
  request.offset = offset;
  request.length = length;
  request.check = header_check(request);
  return request;
}

void ask_server(World& world, Input& input) {
  const UniqueFd fd = connect_to(world.server->port());
  if (!fd) return;
  const std::uint8_t how = input.byte();
  Bytes said;
  if (how % 4 == 0) {  // what strangers say
    if (how & 4) {
      HandOverHeader header;
      header.body_size = sizeof(Introduction);
      append(said, header);
      append(said, *introduce({.group = 9, .epoch = 1, .from = 1, .to = 0, .channel = 0}, PairKey{}));
    } else {
      auto exchange = *ProofExchange::dial(self(), {.role = ProofRole::kNode}, peer_address(fd.get()));
      const std::string hello = exchange.output();
      said.assign(as_bytes(hello).begin(), as_bytes(hello).end());
    }
  } else {
    auto exchange = *ProofExchange::dial(self(), {.role = ProofRole::kNode}, peer_address(fd.get()));
    if (!prove(fd.get(), exchange)) return;
    DataRequest request = request_for(how & 8 ? input.number(2) : 0, how & 8 ? input.number(2) : kBuffer);
    append(said, request);
    if (how & 16) append(said, request);
  }
  fuzz::edit_all(said, input);
  if (how & 32 && said.size() >= sizeof(DataRequest)) {  // the edits are seen by more than the checksum
    auto request = header_from<DataRequest>(said.data());
    request.check = header_check(request);
    std::memcpy(said.data(), &request, sizeof request);
  }
  send_all(fd.get(), said);
  ::shutdown(fd.get(), SHUT_WR);
  read_to_the_end(fd.get());
}

/// NDS-5: an honest client is served as before.
void fetch_honestly(World& world) {
  const UniqueFd fd = connect_to(world.server->port());
  if (!fd) return;
  auto exchange = *ProofExchange::dial(self(), {.role = ProofRole::kNode}, peer_address(fd.get()));
  TROUPE_CHECK(prove(fd.get(), exchange), "an honest client is served");
  send_all(fd.get(), bytes_of(request_for(0, kBuffer)));
  Bytes reply(sizeof(DataReply) + sizeof(DataChunk) + kBuffer);
  TROUPE_CHECK(read_whole(fd.get(), reply.data(), reply.size()), "it gets the buffer");
  TROUPE_CHECK(Bytes(reply.end() - std::ptrdiff_t(kBuffer), reply.end()) == buffer(), "and all of it");
}

/// The answer to a request, in chunks of the input's sizes.
Bytes answer_to(const DataRequest& request, Input& input) {
  Bytes said;
  DataReply reply;
  reply.id = request.id;
  const std::uint8_t how = input.byte();
  if (how % 8 == 7) {
    const std::string why = "it is not here";
    reply.error = std::uint16_t(how & 8 ? ErrorCode::kObjectLost : ErrorCode(input.number(2)));
    // That one is the client's own word here: it would be silence.
    if (reply.error == std::uint16_t(ErrorCode::kDeadlineExceeded)) reply.error = std::uint16_t(ErrorCode::kUser);
    reply.message_size = std::uint32_t(why.size());
    reply.check = header_check(reply);
    append(said, reply);
    said.insert(said.end(), as_bytes(why).begin(), as_bytes(why).end());
    return said;
  }
  const Bytes whole = buffer();
  reply.total = how % 8 == 6 ? input.number(8) : kBuffer;
  reply.length = how % 8 == 5 ? input.number(8) : request.length;
  reply.check = header_check(reply);
  append(said, reply);
  const std::size_t step = 1 + input.number(2) % kBuffer;
  for (std::size_t at = request.offset; at < kBuffer && said.size() < 3 * kBuffer; at += step) {
    const ByteView piece = ByteView(whole).subspan(at, std::min(step, kBuffer - at));
    DataChunk chunk;
    chunk.size = std::uint32_t(piece.size());
    chunk.offset = at;
    chunk.check = chunk_check(piece, at);
    append(said, chunk);
    said.insert(said.end(), piece.begin(), piece.end());
  }
  return said;
}

void answer_client(World& world, Input& input) {
  Bytes into(kBuffer);
  std::promise<Status> done;
  Fetch fetch{.address = world.address, .key = {1, 1, 1}, .into = into, .deadline = SteadyClock::now()};
  fetch.deadline += std::chrono::seconds(60);
  world.client->fetch(fetch, [&](const Status& status) { done.set_value(status); });
  {
    pollfd ready{world.listener.get(), POLLIN, 0};
    (void)::poll(&ready, 1, 30'000);
    const UniqueFd fd(::accept4(world.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    TROUPE_CHECK(fd.get() >= 0, "the client connects");
    set_limits(fd.get());
    auto exchange = *ProofExchange::listen(self(), local_address(fd.get()));
    if (input.byte() % 8 == 0) {  // a listener without a proof
      Bytes hello(sizeof(ProofHello));
      if (read_whole(fd.get(), hello.data(), hello.size())) {
        exchange.take(hello);
        const std::string welcome = exchange.output();
        Bytes said(as_bytes(welcome).begin(), as_bytes(welcome).end());
        fuzz::edit_all(said, input);
        send_all(fd.get(), said);
      }
    } else if (prove(fd.get(), exchange)) {
      DataRequest request;
      if (read_whole(fd.get(), reinterpret_cast<std::byte*>(&request), sizeof request)) {
        Bytes said = answer_to(request, input);
        fuzz::edit_all(said, input);
        send_all(fd.get(), said);
      }
    }
    ::shutdown(fd.get(), SHUT_RDWR);
  }
  const Status status = done.get_future().get();  // the deadline ends it at the latest
  if (status.ok()) TROUPE_CHECK(into == buffer(), "what came right is right");
  else TROUPE_CHECK(status.error().code() != ErrorCode::kDeadlineExceeded, "a connection that ends is no silence");
}

/// PX-1 without sockets: who heard anything that was edited trusts nobody.
void exchange(Input& input) {
  auto dialler = *ProofExchange::dial(self(), {.role = ProofRole::kNode}, "127.0.0.1:5");
  auto listener = *ProofExchange::listen(self(), "127.0.0.1:5");
  bool right = true, same = true;  // right: more may have come after it, which is of the next message then
  const auto carry = [&](ProofExchange& from, ProofExchange& to) {
    const std::string out = from.output();
    const Bytes meant(as_bytes(out).begin(), as_bytes(out).end());
    Bytes said = meant;
    same &= fuzz::edit_all(said, input);
    right &= !meant.empty() && said.size() >= meant.size() && std::equal(meant.begin(), meant.end(), said.begin());
    for (ByteView rest = said; !rest.empty() && to.wanted() != 0;) {
      const ByteView piece = rest.first(std::min({rest.size(), to.wanted(), std::size_t(1) + input.byte()}));
      to.take(piece);
      rest = rest.subspan(piece.size());
    }
  };
  carry(dialler, listener);
  carry(listener, dialler);
  TROUPE_CHECK(right || !dialler.proven(), "a dialler trusts nobody but who answered what it said");
  carry(dialler, listener);
  TROUPE_CHECK(right || !listener.proven(), "a listener trusts nobody but who answered what it said");
  TROUPE_CHECK(!same || (dialler.proven() && listener.proven()), "an honest exchange ends well");
}

void run(Input input) {
  static World& world = *new World;
  static unsigned runs = 0;
  const std::uint8_t what = input.byte();
  if (what % 4 == 0) return exchange(input);
  const fuzz::MemoryWatch memory;
  if (what % 4 == 3) answer_client(world, input);
  else ask_server(world, input);
  memory.require(kMemoryMax, "a data socket");
  if (++runs % 64 == 0) fetch_honestly(world);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run({data, size});
  return 0;
}
