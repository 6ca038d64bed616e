// NBT-1, NSE-5, HS-1, FC-1, WC-3: whatever a link brings, the session and the head's state machine take it: no crash,
// no failed check of their own, no memory out of proportion. The batches are what a daemon and its processes say to a
// head, and what two sessions say to each other, with a few edits.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/head/service/frame_codec.h"
#include "core/head/state/state.h"
#include "core/net/link/batch.h"
#include "core/net/link/session.h"
#include "core/wire/codec.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_watch.h"

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using fuzz::Input;
using wire::FrameKind, wire::Method;

using Batch = std::vector<std::byte>;

void append(Batch& batch, FrameKind kind, ProcessId from, Method method, std::vector<std::byte> payload,
            std::uint64_t token = 7) {
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(kind);
  header.source = from;
  header.destination = kHead;
  header.token = token;
  header.arg0 = static_cast<std::uint64_t>(method);
  header.payload_size = static_cast<std::uint32_t>(payload.size());
  const auto bytes = std::as_bytes(std::span(&header, 1));
  batch.insert(batch.end(), bytes.begin(), bytes.end());
  batch.insert(batch.end(), payload.begin(), payload.end());
}
template <class M> void ask(Batch& batch, ProcessId from, Method method, const M& message) {
  append(batch, FrameKind::kRequest, from, method, wire::encode_message(message));
}
template <class M> void tell(Batch& batch, ProcessId from, Method method, const M& message) {
  append(batch, FrameKind::kNotice, from, method, wire::encode_message(message));
}

wire::RegisterNode node_info(double cpus) {
  wire::RegisterNode request;
  request.info.address = "127.0.0.1:1";
  request.info.resources = request.info.available = {{"CPU", cpus}, {"memory", 1e9}};
  request.info.labels = {{"zone", "a"}};
  request.info.pid = 77;
  return request;
}
wire::ActorSpec actor(ProcessId creator, std::uint32_t sequence, const std::string& name) {
  wire::ActorSpec spec;
  spec.id = {creator, sequence};
  spec.job = 1;
  spec.creator = creator;
  spec.class_name = "Counter";
  spec.name = name;
  spec.resources.cpus = 1;
  spec.max_restarts = 2;
  return spec;
}

/// One kind of talk of node 1 and its processes.
void sample(Batch& batch, unsigned which) {
  constexpr ProcessId kDaemon = daemon_of(1), kDriver{1, 2}, kWorker{1, 3};
  const ActorId first{kDriver, 1};
  switch (which % 20) {
    case 0: return ask(batch, kDriver, Method::kCreateActor, actor(kDriver, 1, "name"));
    case 1: return ask(batch, kDriver, Method::kCreateActor, actor(kDriver, 2, ""));
    case 2: return tell(batch, kWorker, Method::kActorStarted, wire::ActorStarted{first, 0, kWorker, 99});
    case 3: return ask(batch, kDriver, Method::kGetNamedActor, wire::NamedActor{"name", ""});
    case 4: return tell(batch, kDriver, Method::kHandleCounts, wire::HandleCounts{kDriver, {first}, {first, first}});
    case 5: return ask(batch, kDriver, Method::kKillActor, wire::KillActor{first, true});
    case 6: return ask(batch, kDriver, Method::kKvPut, wire::KvEntry{"key", "value"});
    case 7: return ask(batch, kDriver, Method::kKvSwap, wire::KvSwap{"key", "value", "other"});
    case 8: return ask(batch, kDriver, Method::kKvKeys, wire::KvKey{"k"});
    case 9: {
      wire::StateQuery query;
      query.filter = {{"state", "ALIVE"}};
      query.limit = 5;
      return ask(batch, kDriver, Method::kListState, query);
    }
    case 10: {
      wire::NodeLoad load;
      load.node = 1;
      load.version = 2;
      load.available = {{"CPU", 1.0}};
      return tell(batch, kDaemon, Method::kNodeLoad, load);
    }
    case 11: {
      wire::ProcessDied died;
      died.process = kWorker;
      died.job = 1;
      died.reason = "killed";
      died.log_tail = {"one", "two"};
      died.actor = first;
      return tell(batch, kDaemon, Method::kProcessDied, died);
    }
    case 12: {
      wire::LightActors light;
      light.process = kWorker;
      light.job = 1;
      light.class_name = "Light";
      light.started = {{kWorker, 1}, {kWorker, 2}};
      light.ended = {{kWorker, 1}};
      return tell(batch, kWorker, Method::kLightActors, light);
    }
    case 13: {
      wire::MetricsReport report{kWorker, {}};
      report.points.resize(1);
      report.points[0].name = "calls";
      report.points[0].kind = "histogram";
      report.points[0].bounds = {1, 2, 3};
      report.points[0].values = {1, 1, 1, 1, 4};
      return tell(batch, kWorker, Method::kMetrics, report);
    }
    case 14: return tell(batch, kDaemon, Method::kLinkReport, wire::LinkReport{2, wire::LinkState::kDown, "reset"});
    case 15: {
      wire::ActorExited exited;
      exited.actor = first;
      exited.process = kWorker;
      return tell(batch, kWorker, Method::kActorExited, exited);
    }
    case 16: return ask(batch, kDriver, Method::kResolveActor, wire::ResolveActor{first});
    case 17: return append(batch, FrameKind::kResponse, kDaemon, Method(0), {}, 1);  // a ping's answer
    case 18: {
      wire::JobFinished finished;
      finished.job = 1;
      finished.driver = kDriver;
      return tell(batch, kDaemon, Method::kJobFinished, finished);
    }
    default: {
      wire::Checkpoint checkpoint;
      checkpoint.actor = first;
      checkpoint.number = 1;
      checkpoint.keys.assign(20, std::byte{1});
      return tell(batch, kWorker, Method::kCheckpoint, checkpoint);
    }
  }
}

/// A head with two nodes, a job, and what the input makes of it.
class Head {
 public:
  Head() : state_({}) {
    for (head::LinkId link = 1; link <= 2; ++link) {
      Batch batch;
      ask(batch, {}, Method::kRegisterNode, node_info(4));
      take(link, batch);
    }
    Batch batch;
    wire::RegisterJob job;
    job.driver = {1, 2};
    job.driver_pid = 5;
    ask(batch, daemon_of(1), Method::kRegisterJob, job);
    take(1, batch);
    TROUPE_CHECK(state_.membership().infos().size() == 2 && state_.jobs().find(1), "the nodes and the job are there");
  }

  void take(head::LinkId link, ByteView batch) {
    for (;;) {
      const net::BatchFrame frame = net::next_frame(batch);
      if (frame.state == net::BatchFrame::State::kBad) return apply(head::LinkClosed{link});
      if (frame.state == net::BatchFrame::State::kEnd) return;
      if (auto decoded = head::decode_frame(link, frame.header, frame.payload)) apply(std::move(*decoded));
    }
  }
  void pass(std::chrono::nanoseconds span) {
    now_ += span;
    for (int ticks = 0; ticks < 64; ++ticks) {
      const auto next = state_.next_deadline();
      if (!next || *next > now_) return;
      apply(head::Tick{});
    }
  }
  void apply(head::Event event) {
    head::Effects effects;
    state_.apply(now_, std::move(event), effects);
    std::vector<head::Frame> answers;
    for (const head::Effect& effect : effects.list()) {
      const auto* send = std::get_if<head::Send>(&effect);
      if (!send) continue;
      (void)head::encode_send(*send);
      if (send->kind == FrameKind::kRequest && send->method == Method::kPing)
        answers.push_back({send->to.node, FrameKind::kResponse, send->to, send->token, {}, false, wire::Empty{}});
    }
    for (head::Frame& answer : answers) apply(std::move(answer));  // the daemons live: link n is node n's
  }

 private:
  head::State state_;
  head::Time now_{1s};
};

void run_head(Input input) {
  const fuzz::MemoryWatch memory;
  std::size_t bytes = 0;
  Head head;
  for (int batches = 0; batches < 8 && !input.empty(); ++batches) {
    Batch batch;
    const std::uint8_t how = input.byte();
    for (unsigned n = how % 4 + 1; n > 0; --n) sample(batch, input.byte());
    fuzz::edit_all(batch, input);
    bytes += batch.size();
    const fuzz::Exact exact(batch);
    head.take(how & 16 ? 2 : 1, exact.view());
    if (how & 32) head.pass(std::chrono::milliseconds(input.number(2) % 5000));
    if (how & 64) head.apply(head::LinkClosed{how & 128 ? 2u : 1u});
  }
  memory.require(std::size_t{64} * bytes + (8 << 20), "the head");
}

/// Two sessions over links that the input cuts; what one says is edited before the other hears it.
class Sessions {
 public:
  explicit Sessions(Input& input) : input_(input), left_(*this, 11, 22), right_(*this, 22, 11) {}

  void run() {
    for (int steps = 0; steps < 64 && !input_.empty(); ++steps) {
      const std::uint8_t step = input_.byte();
      Side& side = step & 1 ? left_ : right_;
      switch (step / 2 % 4) {
        case 0: {
          net::FrameHeader header;
          header.token = ++side.said;
          side.session.send(header, Batch(input_.byte()));
          break;
        }
        case 1: up(); break;
        case 2: down(); break;
        default: deliver(side, (step & 64) != 0);
      }
    }
    left_.session.end();
    right_.session.end();
    TROUPE_CHECK(left_.session.idle() && left_.session.kept_bytes() == 0, "an ended session keeps nothing");
  }

 private:
  struct Side final : net::SessionOutput {
    Side(Sessions& all, std::uint64_t self, std::uint64_t peer) : session(self, peer, *this), of(all) {}
    void transmit(std::uint64_t link, ByteView frames) override {
      if (link == of.link_) out.insert(out.end(), frames.begin(), frames.end());
    }
    void deliver(const net::FrameHeader&, ByteView payload) override { heard += payload.size() + 1; }
    net::Session session;
    Sessions& of;
    Batch out = {};
    std::uint64_t said = 0;
    std::size_t heard = 0;
  };

  void up() {
    if (up_) down();
    up_ = true;
    ++link_;
    left_.session.link_up(link_);
    right_.session.link_up(link_);
  }
  void down() {
    if (!std::exchange(up_, false)) return;
    left_.session.link_down(link_);
    right_.session.link_down(link_);
    left_.out.clear();
    right_.out.clear();
  }
  void deliver(Side& from, bool edited) {
    if (!up_) return;
    Side& to = &from == &left_ ? right_ : left_;
    Batch batch = std::exchange(from.out, {});
    if (edited) fuzz::edit_all(batch, input_);
    const fuzz::Exact exact(batch);
    ByteView rest = exact.view();
    for (;;) {
      const net::BatchFrame frame = net::next_frame(rest);
      if (frame.state == net::BatchFrame::State::kEnd) return;
      if (frame.state == net::BatchFrame::State::kBad ||
          to.session.receive(link_, frame.header, frame.payload) == net::Session::Took::kViolation)
        return down();
    }
  }

  Input& input_;
  std::uint64_t link_ = 0;
  bool up_ = false;
  Side left_, right_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if (input.byte() % 4 != 0) run_head(input);
  else Sessions(input).run();
  return 0;
}
