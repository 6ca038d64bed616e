// Bench: one core on surroundings that the test holds in its hands: time stands until it is moved, frames that leave
// are kept, work is done when the test says so.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "core/executor/executors.h"
#include "core/executor/hosted_actor.h"
#include "core/process/core.h"

namespace troupe::worker {

struct SentFrame {
  ProcessId ring;
  net::FrameHeader header;
  std::vector<std::byte> payload;
  wire::FrameKind kind() const { return wire::FrameKind(header.kind); }
  bool is(wire::Method method) const {
    return (kind() == wire::FrameKind::kRequest || kind() == wire::FrameKind::kNotice) &&
           header.arg0 == std::uint64_t(method);
  }
  bool is(Control what) const { return kind() == wire::FrameKind::kControl && header.arg0 == std::uint64_t(what); }
  template <class M> M decode() const { return wire::decode_message<M>(payload).value(); }
};

class Bench : private Clock, private Transport, private ServiceThread, private Executors {
 public:
  /// `endpoint`: where a test has threads that wait (its time is the real one).
  explicit Bench(wire::Role role = wire::Role::kDriver, net::Endpoint* endpoint = nullptr)
      : core(identity(role), {*this, *this, *this}, endpoint, *this) {}
  ~Bench() override {
    work.clear();
    core.take_apart();
  }

  static constexpr ProcessId kSelf{1, 1}, kDaemon{1, 0};

  // ---- what comes in
  void deliver(ProcessId ring, net::FrameHeader header, const std::vector<std::byte>& payload) {
    if (header.source == ProcessId{}) header.source = ring;
    header.destination = kSelf;
    header.payload_size = std::uint32_t(payload.size());
    core.handler().on_message(ring, header, payload);
  }
  template <class M> void notice(wire::Method method, const M& message) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kNotice);
    header.arg0 = std::uint64_t(method);
    deliver(kDaemon, header, wire::encode_message(message));
  }
  /// Answers a request that left.
  template <class M> void respond(const SentFrame& request, const M& message, bool failed = false) {
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kResponse);
    header.token = request.header.token;
    header.arg0 = failed ? 1 : 0;
    deliver(kDaemon, header, wire::encode_message(message));
  }
  /// The reply of a call that left: its results are empty, or it failed.
  void reply(const SentFrame& call, const ErrorPtr& error = nullptr, std::uint32_t run_us = 5000, bool lent = false,
             bool not_begun = false) {
    std::vector<std::byte> memory;
    FrameWriter out(memory);
    CallHead head;
    std::memcpy(&head, call.payload.data(), sizeof head);
    ReplyHead answer{.call_id = head.call_id, .run_us = run_us, .values = error ? std::uint16_t(0) : head.returns};
    if (error) answer.status = ReplyStatus::kError;
    if (not_begun) answer.index = kNotBegun;
    answer.lent = lent;
    out.put(answer);
    if (error) {
      const auto bytes = wire::encode_message(error->record());
      out.bytes(bytes.data(), bytes.size());
    }
    for (int i = 0; i < answer.values; ++i) out.put(ValueHead{});
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kReply);
    header.source = call.header.destination;
    deliver(call.ring, header, memory);
  }

  // ---- time and work
  void advance(Duration by) {
    time += by;
    core.service_queue().run_due();
  }
  void do_work() {
    while (!work.empty()) {
      auto one = std::move(work.front());
      work.pop_front();
      one();
    }
  }

  // ---- what left
  /// The first frame of this kind that left, taken out; fails the test when there is none.
  template <class What> SentFrame take(What what) {
    for (auto at = sent.begin(); at != sent.end(); ++at)
      if (at->is(what)) {
        SentFrame found = std::move(*at);
        sent.erase(at);
        return found;
      }
    ADD_FAILURE() << "no such frame left";
    return {};
  }
  template <class What> std::size_t count(What what) const {
    std::size_t n = 0;
    for (const auto& one : sent) n += one.is(what);
    return n;
  }
  std::vector<SentFrame> take_kind(wire::FrameKind kind) {
    std::vector<SentFrame> found;
    for (auto at = sent.begin(); at != sent.end();) {
      if (at->kind() != kind) { ++at; continue; }
      found.push_back(std::move(*at));
      at = sent.erase(at);
    }
    return found;
  }

  // ---- tasks
  detail::ObjectPtr submit(const TaskOptions* options = nullptr, detail::Value arguments = {}) {
    static detail::FunctionNode function{detail::FunctionKind::kFunction, nullptr, "[with auto F = model]"};
    detail::OutgoingCall call;
    call.function = &function;
    call.arguments = std::move(arguments);
    detail::ObjectPtr result;
    CoreLock lock(core);
    core.tasks().submit(std::move(call), options, &result, nullptr);
    return result;
  }
  detail::ObjectPtr call(const detail::HandlePtr& handle, const CallOptions* options = nullptr) {
    static detail::FunctionNode method{detail::FunctionKind::kMethod, nullptr, "[with A = Model; auto M = model]"};
    detail::OutgoingCall call;
    call.function = &method;
    detail::ObjectPtr result;
    CoreLock lock(core);
    client_of(handle).submit(std::move(call), CallKind::kActorCall, options, &result, nullptr);
    return result;
  }
  /// A value whose bytes are memory of another node.
  detail::Value remote_value() {
    auto* entry = new BufferEntry(core.owner().buffers());
    entry->desc = {2, 7, 1, 100};
    entry->set_size(100);
    entry->state = BufferEntry::State::kRemote;
    detail::Value value;
    value.large_body = detail::BufferPtr(entry);
    return value;
  }
  /// Grants what is wanted of the newest class, on this worker.
  void grant(ProcessId worker, bool shared = false) {
    const auto wanted = take(wire::Method::kLeaseWanted).decode<wire::LeaseWanted>();
    notice(wire::Method::kLeaseGranted, wire::LeaseGranted{wanted.request_id, ++last_lease, worker, 100, {}, shared});
  }
  static ErrorCode code_of(const detail::ObjectPtr& object) {
    return object->state() == detail::ObjectBase::kFailed ? entry_of(object).error->code() : ErrorCode{};
  }
  static bool pending(const detail::ObjectPtr& object) { return object->state() == detail::ObjectBase::kPending; }

  exec::Deadline time{std::chrono::hours(1)};
  std::vector<SentFrame> sent;
  std::set<ProcessId> attached_peers{kDaemon};
  std::deque<std::function<void()>> work;
  std::map<ProcessId, std::size_t> backlogs;        // what waits for the ring of a peer
  std::function<void(ProcessId ring)> on_send;
  std::vector<IncomingPtr> ran;                     // calls that were run, in order
  std::vector<std::pair<ProcessId, std::uint64_t>> begun_notes;
  std::uint64_t last_lease = 0;
  net::BegunCalls begun_by_peer;                    // what a peer that dies had begun
  int kills = 0;
  std::function<void(const IncomingPtr&, HostedActor*)> run_call;  // what a call does; none: it returns empty results
  Core core;

 private:
  static Identity identity(wire::Role role) {
    wire::Welcome welcome;
    welcome.self = kSelf;
    welcome.node_id = "node";
    welcome.job = 1;
    welcome.call_memory = std::uint64_t(1) << 30;
    return {std::move(welcome), role == wire::Role::kDriver, false};
  }
  exec::Deadline now() const override { return time; }
  double chance() override { return 0.5; }
  bool send(ProcessId peer, const net::FrameHeader& header, ByteView payload) override {
    if (!attached_peers.contains(peer)) return false;
    sent.push_back({peer, header, {payload.begin(), payload.end()}});
    if (on_send) on_send(peer);
    return true;
  }
  bool attached(ProcessId peer) const override { return attached_peers.contains(peer); }
  std::size_t backlog(ProcessId peer) const override {
    auto found = backlogs.find(peer);
    return found == backlogs.end() ? 0 : found->second;
  }
  void set_begun(ProcessId peer, std::uint64_t number) override { begun_notes.emplace_back(peer, number); }
  net::BegunCalls begun(ProcessId) const override { return begun_by_peer; }
  void drain_and_close(ProcessId peer) override { attached_peers.erase(peer); }
  void wake() noexcept override {}
  void flush_soon() noexcept override {}
  bool is_this_thread() const noexcept override { return false; }
  void work_queued() override {}
  bool takes_tasks() const override { return true; }
  void start_threads(HostedActor&) override {}
  void post(HostedActor&, std::function<void()> what) override { work.push_back(std::move(what)); }
  void run_beside(std::function<void()> what) override { work.push_back(std::move(what)); }
  void stop() override {}
  void kill_process() override { ++kills; }
  void run(const IncomingPtr& call, HostedActor* actor) override {
    ran.push_back(call);
    if (run_call) return run_call(call, actor);
    CallContext context;
    core.host().begin_run(call, actor, context);
    detail::Invocation invocation;
    for (std::uint32_t i = 0; i < call->head.returns; ++i) invocation.results.emplace_back();
    core.host().end_run(call, actor, context, invocation, nullptr);
  }
  void join_threads(const HostedActor*) override {}
};

}  // namespace troupe::worker
