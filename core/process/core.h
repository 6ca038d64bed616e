// Core: a driver or worker process put together from its parts: who owns objects, who calls, who executes, and where
// frames go.
// It only wires; what it stands on (time, transport, threads) is handed in, so that a real process (process.h) and a
// simulated one differ in nothing else.
//
//   user thread --- api.cc ---> Caller ---> Owner ---> Runtime: frames, requests ---> Transport: rings, daemon
//   rings ---> Dispatcher ---> Caller, Owner (replies, notices) and Host (calls to run) ---> Executors
//
// Thread rule: public functions from any thread; those that say so want the lock held.
#pragma once
#include "core/caller/caller.h"
#include "core/executor/host.h"
#include "core/owner/owner.h"
#include "core/process/dispatcher.h"
#include "core/runtime/context.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

class Core final : private net::Handler, public Runtime {
 public:
  /// `endpoint`: as Runtime has it.
  Core(Identity identity, const Surroundings& surroundings, net::Endpoint* endpoint, Executors& executors);
  ~Core() override;

  Owner& owner() { return owner_; }
  ObjectTable& objects() { return owner_.objects(); }
  Caller& caller() { return caller_; }
  CallTable& calls() { return caller_.calls(); }
  ActorClients& actors() { return caller_.actors(); }
  TaskSubmitter& tasks() { return caller_.tasks(); }
  Host& host() { return host_; }

  /// Begins the end of the process: no new work is taken, waits fail; of what is queued the results have failed.
  /// Idempotent. Lock not held.
  void begin_shutdown(ErrorPtr why);
  /// What cannot be told in words of the parts: everything is let go of, so that many processes can end within one.
  /// What is left then has leaked: how many things. Lock not held.
  std::size_t take_apart();

 private:
  void on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) override {
    dispatcher_.on_message(from, header, payload);
  }
  void on_broken(ProcessId peer, const ErrorPtr& why) override { dispatcher_.on_broken(peer, why); }

  Owner owner_;
  Caller caller_;
  Host host_;
  Dispatcher dispatcher_;
};

/// Of the calling thread, else of this process; null outside of run.
inline Core* current_core() noexcept { return static_cast<Core*>(current_runtime()); }
/// Throws InvalidArgumentError outside of run.
Core& require_core();
/// Of an object: the process that it was made or read in.
inline Core& core_of(const ObjectEntry& entry) { return static_cast<Core&>(entry.runtime()); }

}  // namespace troupe::worker
