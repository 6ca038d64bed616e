// The consumer role of an endpoint: which thread reads the rings, and who comes after it. The states are drawn in
// endpoint.h; here is how the role moves between threads.
//
//     try_take                   nobody holds it: compare-and-swap of holder_
//     hand over                  the holder leaves: the first waiter that is not notified gets it, still AWAKE
//     acquire / urgent waiters   drain_and_close, detach, pause, resume: the holder lets go at its next look, and
//                                they come first
//
// Thread rule: any thread, as Endpoint says.
//
// Invariants
//   NRO-1  Only the thread whose token is in holder_ polls, changes the doorbell's mode, or gives the role away.
//   NRO-2  A waiter queues first and tries to take the role then; a holder that leaves gives up the role first and
//          looks at the queue then, and takes the role back when somebody waits. So no waiter is left without a holder
//          (NEP-6).
//   NRO-3  Whoever leaves an AWAKE doorbell without a holder has seen attended_ true after it left. The service thread
//          turns attended_ off as holder; or else it sees afterwards a holder, and after that a doorbell that is not
//          UNHELD, or has itself called again: a holder of an UNHELD doorbell may have had its last look before the
//          message that the service thread was rung for. So somebody always looks (NEP-2). tests/net/role.pml is the
//          proof for small numbers.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "core/base/fd.h"
#include "core/net/endpoint/doorbell.h"
#include "core/net/endpoint/endpoint.h"
#include "core/net/endpoint/inbox.h"

namespace troupe::net {

class ConsumerRole {
 public:
  ConsumerRole(Doorbell& doorbell, Inbox& inbox, EndpointOptions options, UniqueFd timer)
      : doorbell_(doorbell), inbox_(inbox), options_(options), timer_(std::move(timer)) {}

  bool block(Parker& parker, Deadline deadline, Handler& handler);
  int try_drain(Handler& handler, int budget);
  void service(Handler& handler);

  /// The role for a short while: waits for it unless this thread has it (is within a handler).
  class Hold {
   public:
    explicit Hold(ConsumerRole& role) : role_(role), taken_(role.acquire()) {}
    ~Hold() {
      if (taken_) role_.leave();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    ConsumerRole& role_;
    bool taken_;
  };

  bool held_by_me() const noexcept;
  /// Parker::notify found its owner asleep on the doorbell.
  void wake_holder() noexcept { doorbell_.wake_sleeper(); }

  static void notify(Parker& parker) noexcept;

  Counter sleeps, handovers, attendances, service_drains;

 private:
  enum class Ended { kNotified, kDeadline, kWanted, kRole };
  enum class QueueEnd { kFront, kBack };

  bool acquire();  // false: this thread had it already
  bool try_take();
  void leave();
  bool hand_over();
  bool somebody_waits();
  bool leave_alone();
  Ended hold(Parker& parker, Deadline deadline, Handler& handler);
  bool pause_or_sleep(Parker& parker, Deadline deadline, std::uint32_t& idle, Deadline& idle_since);
  void sleep(Parker& parker, Deadline deadline);
  Ended park(Parker& parker, Deadline deadline, QueueEnd end);
  void enqueue(Parker& parker, QueueEnd end);
  bool dequeue(Parker& parker);
  void arm_timer();
  void attend_again();

  Doorbell& doorbell_;
  Inbox& inbox_;
  const EndpointOptions options_;

  std::atomic<const void*> holder_{nullptr};  // token of a thread
  std::atomic<std::uint64_t> changes_{0};     // how often the role moved; written by its holder
  std::atomic<std::uint32_t> urgent_{0};      // threads in acquire()
  std::atomic<bool> attended_{false};         // NRO-3

  std::mutex queue_mutex_;
  Parker* first_ = nullptr;
  Parker* last_ = nullptr;
  std::atomic<std::uint32_t> waiters_{0};  // length of the queue

  bool sparse_ = false;  // the last sleep was longer than `spin`: looking on before it was in vain; the holder's

  // service thread
  UniqueFd timer_;
  enum class Service { kIdle, kAttending } service_ = Service::kIdle;
  std::uint64_t changes_seen_ = 0;
  std::chrono::nanoseconds interval_{0};
};

}  // namespace troupe::net
