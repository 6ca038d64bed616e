// HostedActor: one actor in this process: its construction, its queues, the limits on open calls, checkpoints, its end.
//
//   CONSTRUCTING --constructor returned--> ALIVE --stop, exit, no handle, kill--> ENDING --open calls done--> ended
//        `--constructor threw: kActorExited(constructor failed)--> ended
//
// Calls are admitted group by group, in the order of their arrival; an admitted call is run by one of the actor's
// threads, or as a fiber when more than one may be open on a thread.
//
// Invariants
//   HA-1  At most `limit` calls of a group are open; a full group holds back no other.
//   HA-4  Calls of a caller that does not take its replies stay in the queue, in order (HO-7); calls of others pass.
//   HA-2  (checkpoints.h)
//   HA-3  (keyed_replies.h)
// Thread rule: lock held, but for what runs user code.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/executor/checkpoints.h"
#include "core/executor/incoming.h"
#include "core/executor/keyed_replies.h"
#include "core/wire/messages.h"
#include <troupe/detail/registry.h>

namespace troupe::worker {

class Host;

/// Calls in order; takes no memory while it is empty.
class CallQueue {
 public:
  bool empty() const { return first_ == calls_.size(); }
  std::size_t size() const { return calls_.size() - first_; }
  void push_back(IncomingPtr call) { calls_.push_back(std::move(call)); }
  IncomingPtr pop_front() {
    IncomingPtr call = std::move(calls_[first_++]);
    if (empty()) {
      calls_.clear();
      first_ = 0;
      if (calls_.capacity() > kKeep) calls_.shrink_to_fit();
    }
    return call;
  }
  /// Takes out the first call for which `is_it` holds; null when there is none.
  template <class F> IncomingPtr take_if(F&& is_it) {
    for (std::size_t i = first_; i < calls_.size(); ++i)
      if (is_it(*calls_[i])) {
        IncomingPtr call = std::move(calls_[i]);
        calls_.erase(calls_.begin() + std::ptrdiff_t(i));
        return call;
      }
    return nullptr;
  }

 private:
  static constexpr std::size_t kKeep = 4;
  std::vector<IncomingPtr> calls_;
  std::size_t first_ = 0;
};

struct CallGroup {
  int limit = 1;
  int open = 0;
  CallQueue queue;
};

class HostedActor {
 public:
  HostedActor(Host& host, wire::ConstructActor message);
  /// A light actor that its creator made here directly: `spec` is shared with others of its kind.
  HostedActor(Host& host, ActorId id, std::shared_ptr<const wire::ActorSpec> spec, IncomingPtr construction);
  /// Waits for its own threads. Lock not held.
  ~HostedActor();

  ActorId id() const { return id_; }
  bool light() const { return spec_->isolation == Isolation::kLight; }
  /// Are several calls open on one thread, each on a fiber of its own?
  bool uses_fibers() const { return light() || spec_->max_concurrency > 1 || !spec_->concurrency_groups.empty(); }
  /// May several calls be open at once?
  bool calls_overlap() const {
    return spec_->max_concurrency > 1 || spec_->threads > 1 || !spec_->concurrency_groups.empty();
  }
  void* instance() const { return instance_; }
  const detail::ClassOperations& operations() const { return *operations_; }
  int restarts() const { return restarts_; }
  const Resources& resources() const { return spec_->resources; }
  const std::vector<int>& gpu_ids() const;
  std::uint64_t caller_key() const { return caller_key_; }
  const wire::ActorSpec& spec() const { return *spec_; }

  // ---- for Host
  void start();
  void arrived(IncomingPtr call);
  void finished(IncomingCall& call, bool exit_asked);
  /// Callers that were held are held no more (HA-4).
  void callers_let_go() { admit(); }
  bool drop_queued(ProcessId source, std::uint64_t call_id, const ErrorPtr& error);
  void end_when_idle();
  void kill(DeathCause cause, const std::string& message);
  /// It was not started, and will not be: that is told.
  void end_unbegun(DeathCause cause, const std::string& message);
  /// Keeps the answer of a keyed call, and gives it to those who asked for the same key meanwhile. null: it failed.
  void remember(IncomingCall& call, std::vector<detail::Value>* results);

  // ---- for Checkpoints
  /// Runs `work` on one of the actor's threads or fibers.
  void post(std::function<void()> work);
  void checkpoint_due();
  void ref_settled(ObjectId ref) { checkpoints().ref_settled(ref); }
  void checkpoint_done();
  std::vector<std::byte> encode_keys();

 private:
  enum class State : std::uint8_t { kConstructing, kAlive, kEnding, kEnded };

  void construct();
  std::function<void()> arguments_taken();
  void constructed(ErrorPtr error);
  void admit();
  void admit_from(CallGroup& group);
  void begin(IncomingPtr call);
  void fail_queued(const ErrorPtr& error);
  void begin_end(DeathCause cause, const std::string& message);
  void interrupt_calls();
  void end_if_idle();
  void destroy_and_report();
  void maybe_checkpoint();
  bool checkpointing() const { return extras_ && extras_->checkpoints && extras_->checkpoints->in_progress(); }
  bool calls_held() const { return extras_ && extras_->checkpoints && extras_->checkpoints->holds_calls(); }
  std::size_t queued();
  void report_end(const ErrorPtr& error);

  /// What few actors need: they come by the hundred thousand (light actors).
  struct Extras {
    std::vector<int> gpu_ids;
    std::string message;                         // why it ends
    std::map<std::string, CallGroup> groups;
    std::unique_ptr<KeyedReplies> keyed;
    bool keys_watched = false;                   // a timer runs that forgets old keys
    std::unique_ptr<Checkpoints> checkpoints;
    IncomingPtr stop;                            // a stop that waits for the calls before it
  };
  Extras& extras() { if (!extras_) extras_ = std::make_unique<Extras>(); return *extras_; }
  KeyedReplies& keyed();
  void forget_old_keys();
  void watch_keys();
  Checkpoints& checkpoints();
  const wire::Checkpoint* last_checkpoint() const {
    return extras_ && extras_->checkpoints ? extras_->checkpoints->last() : nullptr;
  }
  bool stopping() const { return extras_ && extras_->stop; }
  template <class F> void for_each_group(F&& f) {
    f(default_group_);
    if (extras_)
      for (auto& [name, group] : extras_->groups) f(group);
  }

  Host& host_;
  ActorId id_;
  std::shared_ptr<const wire::ActorSpec> spec_;
  IncomingPtr construction_;                // made directly: the call that constructs it
  std::unique_ptr<Extras> extras_;
  const detail::ClassOperations* operations_ = nullptr;
  void* instance_ = nullptr;
  CallContext* constructing_ = nullptr;     // while the constructor runs: a kill interrupts it where it waits
  std::uint64_t caller_key_ = 0;
  int restarts_ = 0;
  int open_ = 0;
  CallGroup default_group_;
  State state_ = State::kConstructing;
  DeathCause cause_ = DeathCause::kFinished;
  bool killed_ = false, leaving_ = false;
  const bool direct_ = construction_ != nullptr;  // the head hears of it in batches
};

}  // namespace troupe::worker
