// Support for the store's tests: a daemon in this process (DirectDaemon), a daemon's voice in a forked child
// (SocketDaemon) and the parent's side of it (SocketService).
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "objectstore/client/client.h"
#include "objectstore/server/server.h"

namespace troupe::store::test {

inline constexpr ProcessId kDaemon{1, 0};
inline ProcessId process(std::uint32_t serial) { return {1, serial}; }

/// A StoreServer behind a lock, with answers by token. Stands for the daemon's loop.
class Hub {
 public:
  explicit Hub(StoreServerOptions options) {
    auto made = StoreServer::create(options);
    if (!made.ok()) throw std::runtime_error(made.error().what());
    server = std::move(*made);
  }

  /// Runs f on the "loop", then sorts the effects.
  template <class F>
  auto with(F&& f) {
    std::lock_guard lock(mutex);
    if constexpr (std::is_void_v<decltype(f(*server))>) {
      f(*server);
      pump();
    } else {
      auto result = f(*server);
      pump();
      return result;
    }
  }

  std::optional<StoreEffect> answer(Token token) {
    std::lock_guard lock(mutex);
    auto found = answers.find(token);
    if (found == answers.end()) return std::nullopt;
    StoreEffect effect = std::move(found->second);
    answers.erase(found);
    return effect;
  }

  StoreEffect wait(Token token) {
    std::unique_lock lock(mutex);
    answered.wait(lock, [&] { return answers.contains(token); });
    StoreEffect effect = std::move(answers.at(token));
    answers.erase(token);
    return effect;
  }

  Token new_token() {
    std::lock_guard lock(mutex);
    return ++last_token;
  }
  std::string audit() {
    return with([](StoreServer& s) { return s.audit(); });
  }
  StoreUsage usage() {
    return with([](StoreServer& s) { return s.usage(); });
  }

  std::unique_ptr<StoreServer> server;
  std::mutex mutex;
  std::condition_variable answered;
  std::map<Token, StoreEffect> answers;
  std::vector<StoreEffect> others;

  /// Pages are made here and now, unless a test takes that over.
  std::function<void(const PagesWanted&)> make_pages = [this](const PagesWanted& wanted) {
    server->pages_made(wanted.ticket, server->arena().reserve(wanted.range));
  };

 private:
  void pump() {
    for (auto effects = server->take_effects(); !effects.empty(); effects = server->take_effects()) sort(effects);
    answered.notify_all();
  }
  void sort(std::vector<StoreEffect>& effects) {
    for (StoreEffect& effect : effects) {
      if (auto* p = std::get_if<PagesWanted>(&effect)) make_pages(*p);
      else if (auto* e = std::get_if<LeaseGranted>(&effect)) answers[e->token] = std::move(effect);
      else if (auto* g = std::get_if<BufferGranted>(&effect)) answers[g->token] = std::move(effect);
      else if (auto* f = std::get_if<RequestFailed>(&effect)) answers[f->token] = std::move(effect);
      else if (!std::holds_alternative<TrimAsked>(effect) || others.size() < 1000) others.push_back(std::move(effect));
    }
  }
  Token last_token = 0;
};

/// A client's daemon by direct calls.
class DirectDaemon : public StoreDaemon {
 public:
  DirectDaemon(Hub& hub, ProcessId client) : hub_(hub), client_(client) {}
  Result<Lease> lease(const LeaseRequest& request) override {
    Token token = hub_.new_token();
    hub_.with([&](StoreServer& s) { s.lease(client_, token, request); });
    StoreEffect answer = hub_.wait(token);
    ++leases;
    if (auto* failed = std::get_if<RequestFailed>(&answer)) return failed->error;
    return std::get<LeaseGranted>(answer).lease;
  }
  void lease_ahead(const LeaseRequest& request) override {
    auto result = lease(request);
    if (result.ok() && client) client->add_lease(std::move(*result));
  }
  Result<Grant> allocate(std::uint64_t size) override {
    Token token = hub_.new_token();
    hub_.with([&](StoreServer& s) { s.allocate(client_, token, size); });
    StoreEffect answer = hub_.wait(token);
    if (auto* failed = std::get_if<RequestFailed>(&answer)) return failed->error;
    return std::get<BufferGranted>(answer).grant;
  }
  void maybe_free(std::span<const BufferId> ids) override {
    freed += ids.size();
    hub_.with([&](StoreServer& s) { s.maybe_free(client_, ids); });
  }
  void give_back(std::span<const ReturnedChunk> chunks, std::span<const std::uint32_t> slots) override {
    hub_.with([&](StoreServer& s) { s.give_back(client_, chunks, slots); });
  }

  StoreClient* client = nullptr;
  std::atomic<std::uint64_t> freed{0}, leases{0};

 private:
  Hub& hub_;
  ProcessId client_;
};

/// A client in this process, joined to a hub.
struct Member {
  Member(Hub& hub, std::uint32_t serial, StoreClientOptions options = {}) : id(process(serial)), daemon(hub, id) {
    auto handles = hub.with([&](StoreServer& s) { return s.add_client(id); });
    if (!handles.ok()) throw std::runtime_error(handles.error().what());
    auto made = StoreClient::create(std::move(*handles), daemon, options);
    if (!made.ok()) throw std::runtime_error(made.error().what());
    client = std::move(*made);
    daemon.client = client.get();
  }
  /// A sealed buffer filled by pattern.
  Pin put(std::size_t size, unsigned char fill) {
    auto buffer = client->allocate(size);
    if (!buffer.ok()) throw std::runtime_error(buffer.error().what());
    std::memset(buffer->data(), fill, size);
    return client->seal(std::move(*buffer));
  }
  Pin put_shared(std::size_t size, unsigned char fill) {
    Pin pin = put(size, fill);
    client->mark_shared(pin);
    return pin;
  }

  ProcessId id;
  DirectDaemon daemon;
  std::unique_ptr<StoreClient> client;
};

inline bool all_equal(const Pin& pin, unsigned char fill) {
  for (std::byte b : pin.bytes()) {
    if (b != std::byte{fill}) return false;
  }
  return true;
}

// ---- between processes

struct Message {
  enum class Kind : std::uint32_t {
    kLease,
    kAllocate,
    kMaybeFree,
    kGiveBack,
    kShared,
    kAnswer,
    kError
  } kind = Kind::kLease;
  std::uint32_t count = 0, slots_count = 0, fill = 0;
  std::uint64_t bytes = 0;
  Range range;
  std::uint32_t chunk = 0, slots = 0;
  BufferId ids[64] = {};
  ReturnedChunk chunks[16] = {};
  std::uint32_t slot_list[1024] = {};
};

inline bool send_message(int fd, const Message& m) { return send(fd, &m, sizeof m, MSG_NOSIGNAL) == ssize_t(sizeof m); }
inline bool receive_message(int fd, Message& m) { return recv(fd, &m, sizeof m, 0) == ssize_t(sizeof m); }

/// In the child: each call is a message; lease and allocate wait for the answer. Exits when the parent is gone.
class SocketDaemon : public StoreDaemon {
 public:
  explicit SocketDaemon(int fd) : fd_(fd) {}
  Result<Lease> lease(const LeaseRequest& request) override {
    auto m = std::make_unique<Message>();
    m->kind = Message::Kind::kLease;
    m->bytes = request.bytes;
    m->slots = request.slots;
    call(*m);
    if (m->kind == Message::Kind::kError) return ObjectStoreFullError("refused");
    return Lease{m->chunk, m->range, {m->slot_list, m->slot_list + m->slots_count}};
  }
  void lease_ahead(const LeaseRequest&) override {}
  Result<Grant> allocate(std::uint64_t size) override {
    auto m = std::make_unique<Message>();
    m->kind = Message::Kind::kAllocate;
    m->bytes = size;
    call(*m);
    if (m->kind == Message::Kind::kError) return ObjectStoreFullError("refused");
    return Grant{m->ids[0], m->range};
  }
  void maybe_free(std::span<const BufferId> ids) override {
    for (std::size_t at = 0; at < ids.size(); at += 64) {
      auto m = std::make_unique<Message>();
      m->kind = Message::Kind::kMaybeFree;
      m->count = std::uint32_t(std::min<std::size_t>(64, ids.size() - at));
      std::copy_n(ids.begin() + at, m->count, m->ids);
      post(*m);
    }
  }
  void give_back(std::span<const ReturnedChunk> chunks, std::span<const std::uint32_t> slots) override {
    for (std::size_t at = 0; at < chunks.size() || at * 64 < slots.size(); at += 16) {
      auto m = std::make_unique<Message>();
      m->kind = Message::Kind::kGiveBack;
      m->count = at < chunks.size() ? std::uint32_t(std::min<std::size_t>(16, chunks.size() - at)) : 0;
      std::copy_n(chunks.begin() + std::min(at, chunks.size()), m->count, m->chunks);
      std::size_t first = std::min(at * 64, slots.size());
      m->slots_count = std::uint32_t(std::min<std::size_t>(1024, slots.size() - first));
      std::copy_n(slots.begin() + first, m->slots_count, m->slot_list);
      post(*m);
    }
  }
  /// Tells the parent of a buffer that it may pin; fill is its pattern.
  void announce(BufferId id, std::uint64_t size, unsigned char fill) {
    auto m = std::make_unique<Message>();
    m->kind = Message::Kind::kShared;
    m->ids[0] = id;
    m->bytes = size;
    m->fill = fill;
    post(*m);
  }

 private:
  void post(const Message& m) {
    std::lock_guard lock(mutex_);
    if (!send_message(fd_, m)) _exit(3);
  }
  void call(Message& m) {
    std::lock_guard lock(mutex_);
    if (!send_message(fd_, m) || !receive_message(fd_, m)) _exit(3);
  }
  int fd_;
  std::mutex mutex_;
};

/// In the parent: carries out a child's message and answers it. False: the child is gone.
class SocketService {
 public:
  SocketService(Hub& hub, ProcessId client, int fd) : hub_(hub), client_(client), fd_(fd) {}
  std::function<void(BufferId, std::uint64_t, unsigned char)> on_shared;

  bool serve_one() {
    auto m = std::make_unique<Message>();
    if (!receive_message(fd_, *m)) return false;
    switch (m->kind) {
      case Message::Kind::kLease: return answer_lease(*m);
      case Message::Kind::kAllocate: return answer_allocate(*m);
      case Message::Kind::kMaybeFree:
        hub_.with([&](StoreServer& s) { s.maybe_free(client_, {m->ids, m->count}); });
        return true;
      case Message::Kind::kGiveBack:
        hub_.with([&](StoreServer& s) { s.give_back(client_, {m->chunks, m->count}, {m->slot_list, m->slots_count}); });
        return true;
      case Message::Kind::kShared:
        if (on_shared) on_shared(m->ids[0], m->bytes, static_cast<unsigned char>(m->fill));
        return true;
      default: return false;
    }
  }

 private:
  bool answer_lease(Message& m) {
    Token token = hub_.new_token();
    hub_.with([&](StoreServer& s) {
      s.lease(client_, token, {m.bytes, m.slots});
      s.expire(TimePoint::max() - std::chrono::seconds(1));
    });
    auto answer = hub_.answer(token);
    m.kind = Message::Kind::kError;
    if (!answer) {  // queued: refuse, the child goes on with something else
      hub_.with([&](StoreServer& s) { s.cancel_request(client_, token); });
    } else if (auto* granted = std::get_if<LeaseGranted>(&*answer)) {
      m.kind = Message::Kind::kAnswer;
      m.chunk = granted->lease.chunk;
      m.range = granted->lease.range;
      m.slots_count = std::uint32_t(granted->lease.slots.size());
      std::copy(granted->lease.slots.begin(), granted->lease.slots.end(), m.slot_list);
    }
    return send_message(fd_, m);
  }
  bool answer_allocate(Message& m) {
    Token token = hub_.new_token();
    hub_.with([&](StoreServer& s) { s.allocate(client_, token, m.bytes); });
    auto answer = hub_.answer(token);
    m.kind = Message::Kind::kError;
    if (!answer) {
      hub_.with([&](StoreServer& s) { s.cancel_request(client_, token); });
    } else if (auto* granted = std::get_if<BufferGranted>(&*answer)) {
      m.kind = Message::Kind::kAnswer;
      m.ids[0] = granted->grant.id;
      m.range = granted->grant.range;
    }
    return send_message(fd_, m);
  }
  Hub& hub_;
  ProcessId client_;
  int fd_;
};

}  // namespace troupe::store::test
