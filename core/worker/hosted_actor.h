// HostedActor: one actor in this process: its construction, its queues, the limits on open calls, checkpoints, its end.
//
//   CONSTRUCTING --constructor returned--> ALIVE --stop, exit, no handle left, kill--> ENDING --open calls done--> ended
//        `--constructor threw: kActorExited(constructor failed)--> ended
//
// Calls are admitted group by group, in the order of their arrival; an admitted call is run by one of the actor's threads,
// or as a fiber when more than one may be open on a thread.
//
// Invariants
//   HA-1  At most `limit` calls of a group are open; a full group holds back no other.
//   HA-2  A checkpoint is taken between calls: with one call open at a time nothing else runs in the actor meanwhile.
//   HA-3  A key whose call has been executed is answered from the table; one under way answers all who asked.
// Thread rule: lock held, but for what runs user code.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/exec/fibers.h"
#include "core/wire/messages.h"
#include "core/worker/incoming.h"
#include "core/worker/objects.h"
#include "core/worker/timers.h"
#include "core/worker/transit.h"
#include <troupe/detail/registry.h>

namespace troupe::worker {

class Host;

struct CallGroup {
  int limit = 1;
  int open = 0;
  std::deque<IncomingPtr> queue;
};

struct HostedActor {
  HostedActor(Host& host, wire::ConstructActor message);
  ~HostedActor();

  ActorId id() const { return spec_.id; }
  bool light() const { return spec_.isolation == Isolation::kLight; }
  void* instance() const { return instance_; }
  int restarts() const { return restarts_; }
  const Resources& resources() const { return spec_.resources; }
  const std::vector<int>& gpu_ids() const { return gpu_ids_; }
  std::uint64_t caller_key() const { return caller_key_; }
  const wire::ActorSpec& spec() const { return spec_; }

  void start();
  void arrived(IncomingPtr call);
  void finished(IncomingCall& call, bool exit_asked);
  bool drop_queued(ProcessId source, std::uint64_t call_id, const ErrorPtr& error);
  void end_when_idle();
  void kill(DeathCause cause, const std::string& message);
  /// Keeps the answer of a keyed call, and gives it to those who asked for the same key meanwhile. null: it failed.
  void remember(IncomingCall& call, std::vector<detail::Value>* results);

 private:
  enum class State : std::uint8_t { kConstructing, kAlive, kEnding, kEnded };
  struct Kept { exec::Deadline until; std::shared_ptr<std::vector<detail::Value>> results; std::vector<IncomingPtr> waiting; bool done = false; };

  void construct();
  void constructed(ErrorPtr error);
  void admit();
  bool admit_from(CallGroup& group);
  void begin(IncomingPtr call);
  void post(std::function<void()> work);
  bool answer_from_table(const IncomingPtr& call);
  void fail_queued(const std::string& why);
  void begin_end(DeathCause cause, const std::string& message);
  void end_if_idle();
  void destroy_and_report();
  void maybe_checkpoint();
  void take_checkpoint();
  std::size_t queued() const;
  std::vector<std::byte> encode_keys() const;
  void restore_keys();
  static std::vector<detail::Value> copy_values(const std::vector<detail::Value>& values);
  bool uses_fibers() const { return light() || spec_.max_concurrency > 1 || !spec_.concurrency_groups.empty(); }

  Host& host_;
  wire::ActorSpec spec_;
  std::optional<wire::Checkpoint> checkpoint_;
  const detail::ClassOperations* operations_ = nullptr;
  std::vector<int> gpu_ids_;
  int restarts_ = 0;
  std::uint64_t caller_key_ = 0;
  void* instance_ = nullptr;
  State state_ = State::kConstructing;
  bool killed_ = false, leaving_ = false;
  DeathCause cause_ = DeathCause::kFinished;
  std::string message_;
  int open_ = 0;
  CallGroup default_group_;
  std::map<std::string, CallGroup> groups_;
  IncomingPtr stop_;                        // a stop that waits for the calls before it
  std::unordered_map<std::string, Kept> kept_;
  std::deque<std::string> kept_order_;
  exec::Deadline last_checkpoint_{};
  bool dirty_ = false, checkpoint_timer_ = false, checkpointing_ = false;
  std::uint64_t checkpoint_number_ = 0;
  std::shared_ptr<Outgoing> checkpoint_hold_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // timers look whether the actor still is
  struct Thread { std::unique_ptr<exec::FiberThread> fibers; std::thread thread; };
  std::vector<Thread> threads_;
  std::size_t next_thread_ = 0;
};

}  // namespace troupe::worker
