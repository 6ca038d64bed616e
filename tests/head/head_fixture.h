// A head without a process: frames in, effects out, time by hand.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/head/state/state.h"

namespace troupe::head {

using namespace std::chrono_literals;
using wire::Method;

class HeadFixture : public ::testing::Test {
 protected:
  /// The daemon of a new node registers; returns the node's number.
  std::uint32_t join(double cpus, std::map<std::string, std::string> labels = {}) {
    wire::RegisterNode request;
    request.info.resources = {{"CPU", cpus}};
    request.info.labels = std::move(labels);
    request.info.pid = 1000 + static_cast<int>(links_.size());
    return join(request);
  }
  /// The daemon whose process the head watches.
  std::uint32_t join_served() {
    wire::RegisterNode request;
    request.info.resources = {{"CPU", 1}};
    request.info.is_head = true;
    request.info.pid = kServedPid;
    return join(request);
  }
  std::uint32_t join(const wire::RegisterNode& request) {
    LinkId link = next_link_++;
    const auto reply = ask<wire::RegisterNodeReply>(ProcessId{}, Method::kRegisterNode, request, link);
    links_[reply.node] = link;
    ids_[reply.node] = reply.node_id;
    loads_[reply.node] = 1;
    answer_pings();
    return reply.node;
  }
  JobId job(ProcessId driver, const std::string& name_space = {}, const std::string& digest = {}) {
    wire::RegisterJob request;
    request.registry_digest = digest;
    request.driver = driver;
    request.driver_pid = 77;
    request.name_space = name_space;
    return ask<wire::RegisterJobReply>(daemon_of(driver.node), Method::kRegisterJob, request).job;
  }
  wire::ActorSpec spec(ProcessId creator, JobId job, std::string name = {}) {
    wire::ActorSpec result;
    result.id = {creator, ++sequence_};
    result.job = job;
    result.creator = creator;
    result.class_name = "Counter";
    result.name = std::move(name);
    result.restart_backoff.jitter = 0;
    return result;
  }

  void event(Event event) {
    state_.apply(now_, std::move(event), effects_);
    for (Effect& effect : effects_.take()) {
      if (auto* send = std::get_if<Send>(&effect)) sent_.push_back(std::move(*send));
      else others_.push_back(std::move(effect));
    }
  }
  std::uint64_t request(ProcessId from, Method method, Message body, LinkId link = 0) {
    const std::uint64_t token = ++tokens_;
    event(Frame{link != 0 ? link : link_of(from), wire::FrameKind::kRequest, from, token, method, false,
                std::move(body)});
    return token;
  }
  void notice(ProcessId from, Method method, Message body) {
    event(Frame{link_of(from), wire::FrameKind::kNotice, from, 0, method, false, std::move(body)});
  }
  LinkId link_of(ProcessId process) const {
    auto at = links_.find(process.node);
    return at == links_.end() ? 0 : at->second;
  }

  /// The answer to a request, if it was answered by now; it is taken out.
  std::optional<Message> answer(ProcessId to, std::uint64_t token) {
    for (auto at = sent_.begin(); at != sent_.end(); ++at) {
      if (at->kind != wire::FrameKind::kResponse || at->to != to || at->token != token) continue;
      Message body = std::move(at->body);
      sent_.erase(at);
      return body;
    }
    return std::nullopt;
  }
  template <class Reply, class Body> Reply ask(ProcessId from, Method method, Body body, LinkId link = 0) {
    const std::uint64_t token = request(from, method, std::move(body), link);
    std::optional<Message> reply = answer(from, token);
    EXPECT_TRUE(reply.has_value()) << "not answered at once";
    if (!reply) return {};
    if (auto* error = std::get_if<ErrorRecord>(&*reply)) ADD_FAILURE() << error->message;
    auto* value = std::get_if<Reply>(&*reply);
    return value ? *value : Reply{};
  }
  template <class Body> ErrorRecord ask_error(ProcessId from, Method method, Body body, LinkId link = 0) {
    std::optional<Message> reply = answer(from, request(from, method, std::move(body), link));
    if (!reply || !std::holds_alternative<ErrorRecord>(*reply)) {
      ADD_FAILURE() << "no error came";
      return {};
    }
    return std::get<ErrorRecord>(*reply);
  }

  /// All notices of a method to a process since the last look; they are taken out.
  template <class Body> std::vector<Body> notices(ProcessId to, Method method) {
    std::vector<Body> found;
    for (auto at = sent_.begin(); at != sent_.end();) {
      if (at->kind == wire::FrameKind::kNotice && at->to == to && at->method == method) {
        found.push_back(std::get<Body>(at->body));
        at = sent_.erase(at);
      } else ++at;
    }
    return found;
  }
  std::vector<wire::StartActor> starts(std::uint32_t node) {
    return notices<wire::StartActor>(daemon_of(node), Method::kStartActor);
  }
  std::vector<wire::ActorLocation> moves(ProcessId to) { return notices<wire::ActorLocation>(to, Method::kActorMoved); }

  /// Time passes; daemons that are not in `silent_` answer pings.
  void pass(Duration span) {
    const Time end = now_ + span;
    while (auto next = state_.next_deadline()) {
      if (*next > end) break;
      now_ = std::max(now_, *next);
      event(Tick{});
      answer_pings();
    }
    now_ = end;
    event(Tick{});
  }
  void answer_pings() {
    std::vector<Send> pings;
    std::erase_if(sent_, [&](Send& send) {
      if (send.kind != wire::FrameKind::kRequest || send.method != Method::kPing) return false;
      pings.push_back(send);
      return true;
    });
    for (const Send& ping : pings) {
      if (!silent_.contains(ping.to.node))
        event(Frame{link_of(ping.to), wire::FrameKind::kResponse, ping.to, ping.token, {}, false, wire::Empty{}});
    }
  }

  // What daemons and workers report.
  void started(const wire::StartActor& start, ProcessId process, int pid = 4711) {
    notice(process, Method::kActorStarted, wire::ActorStarted{start.spec.id, start.restarts, process, pid});
  }
  void exited(ActorId actor, ProcessId process, DeathCause cause, std::string message = {},
              std::optional<ErrorRecord> error = {}, int restarts = 0) {
    notice(process, Method::kActorExited,
           wire::ActorExited{actor, restarts, process, cause, std::move(message), std::move(error)});
  }
  void crash(ProcessId process, std::string reason = "killed by SIGKILL (9)", ActorId constructing = {},
             int restarts = 0) {
    wire::ProcessDied died;
    died.process = process;
    died.pid = 4711;
    died.reason = std::move(reason);
    died.actor = constructing;
    died.actor_restarts = restarts;
    notice(daemon_of(process.node), Method::kProcessDied, died);
  }
  void load(std::uint32_t node, double available, std::uint64_t starts_seen = 0) {
    wire::NodeLoad report;
    report.node = node;
    report.version = ++loads_[node];
    report.available = {{"CPU", available}};
    report.starts_seen = starts_seen;
    notice(daemon_of(node), Method::kNodeLoad, report);
  }
  /// What the daemon of a node that was there before says.
  wire::RegisterNode registration(std::uint32_t node) {
    wire::RegisterNode back;
    back.info.node = node;
    back.info.node_id = ids_[node];
    back.cluster_id = "c1";
    return back;
  }
  void come_back(std::uint32_t node, LinkId link) {
    EXPECT_EQ(ask<wire::RegisterNodeReply>(daemon_of(node), Method::kRegisterNode, registration(node), link).node,
              node);
    links_[node] = link;
  }
  void report(std::uint32_t from, std::uint32_t about, wire::LinkState state) {
    notice(daemon_of(from), Method::kLinkReport, wire::LinkReport{about, state, "refused"});
  }
  void lose_link(std::uint32_t node) { event(LinkClosed{links_.at(node)}); }
  void drop_handle(ProcessId holder, ActorId actor) {
    ask<wire::Empty>(holder, Method::kHandleCounts, wire::HandleCounts{holder, {}, {actor}});
  }
  void hold_handle(ProcessId holder, ActorId actor) {
    ask<wire::Empty>(holder, Method::kHandleCounts, wire::HandleCounts{holder, {actor}, {}});
  }
  /// Creates an actor and starts it in the given process.
  ActorId live(const wire::ActorSpec& actor, ProcessId process) {
    ask<wire::CreateActorReply>(actor.creator, Method::kCreateActor, actor);
    auto start = starts(process.node);
    EXPECT_EQ(start.size(), 1u);
    if (start.size() == 1) started(start[0], process);
    moves(actor.creator);
    return actor.id;
  }
  wire::ActorLocation where(ProcessId from, ActorId actor) {
    return ask<wire::ActorLocation>(from, Method::kResolveActor, wire::ResolveActor{actor});
  }
  /// What `troupe list actors` shows, with daemons that have nothing to add.
  wire::StateReply list_actors(const std::map<std::string, std::string>& filter) {
    const std::uint64_t token =
        request(driver_, Method::kListState, wire::StateQuery{wire::StateKind::kActors, filter, -1, 0});
    for (const Send& query : take_queries())
      event(Frame{link_of(query.to), wire::FrameKind::kResponse, query.to, query.token, {}, false, wire::StateReply{}});
    const std::optional<Message> reply = answer(driver_, token);
    EXPECT_TRUE(reply.has_value());
    return reply ? std::get<wire::StateReply>(*reply) : wire::StateReply{};
  }
  std::vector<Send> take_queries() {
    std::vector<Send> queries;
    std::erase_if(sent_, [&](const Send& send) {
      if (send.kind != wire::FrameKind::kRequest || send.method != Method::kQueryState) return false;
      queries.push_back(send);
      return true;
    });
    return queries;
  }
  std::map<std::string, std::string> row(ActorId actor) {
    const auto reply = list_actors({{"actor_id", to_string(actor)}});
    return reply.rows.empty() ? std::map<std::string, std::string>{} : reply.rows[0];
  }

  static StateOptions options() {
    StateOptions result;
    result.membership.cluster_id = "c1";
    result.membership.served_pid = kServedPid;
    result.membership.link_grace = 300ms;
    result.seed = 7;
    return result;
  }

  static constexpr int kServedPid = 555;
  State state_{options()};
  Effects effects_;
  Time now_ = 1h;
  std::vector<Send> sent_;
  std::vector<Effect> others_;
  std::map<std::uint32_t, LinkId> links_;
  std::map<std::uint32_t, std::string> ids_;
  std::map<std::uint32_t, std::uint64_t> loads_;
  std::set<std::uint32_t> silent_;
  ProcessId driver_{1, 1};
  LinkId next_link_ = 1;
  std::uint64_t tokens_ = 0, sequence_ = 0;
};

/// One node with 4 CPUs and a job.
class OneNode : public HeadFixture {
 protected:
  OneNode() {
    join(4);
    job_ = job(driver_, "ns");
    sent_.clear();
  }
  JobId job_ = 0;
};

}  // namespace troupe::head
