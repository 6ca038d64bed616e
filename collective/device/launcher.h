// Launcher: the one thread that launches collectives on a device, for all groups, in the order in which they were
// issued. Groups that share a device and are launched in different orders on two ranks would wait for each other for
// ever.
//
//   issue:     take_number() ---> 1 2 3 4 ...
//   carry out: submit(number, launch) ---> run when 1 .. number-1 were run or given up
//
// Invariants
//   CLA-1  Launches run in the order of their turns, whatever the order in which they are submitted.
//   CLA-2  A number that is destroyed without a launch is given up and holds nobody back.
//   CLA-3  After stop() nothing runs, and no launch is kept, also of those that never ran; turns may outlive it.
// Thread rule: any thread; launches run on the launcher's own.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "collective/base/communicator.h"

namespace troupe::collective {

class Launcher {
  struct Order;

 public:
  /// A place in the order.
  class Number final : public collective::LaunchNumber {
   public:
    Number(std::shared_ptr<Order> order, std::uint64_t number) : order_(std::move(order)), number_(number) {}
    ~Number() override;
    Number(const Number&) = delete;
    Number& operator=(const Number&) = delete;

   private:
    friend class Launcher;
    std::shared_ptr<Order> order_;
    std::uint64_t number_;
    bool used_ = false;
  };

  Launcher();
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  std::unique_ptr<Number> take_number();
  /// Waits for the launch that runs; the destructor does it too. From any thread but its own, and from one at a time.
  void stop();
  /// Once for each number. The launch does not throw; after stop() it is let go of.
  void submit(Number& number, std::function<void()> launch);

 private:
  struct Order {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t issued = 0, next = 1;
    std::map<std::uint64_t, std::function<void()>> ready;  // an empty function: given up
    bool stopping = false;
  };
  void loop();

  std::shared_ptr<Order> order_;
  std::thread thread_;
};

}  // namespace troupe::collective
