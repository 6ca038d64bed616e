#include "collective/device/launcher.h"

#include "core/base/thread.h"

namespace troupe::collective {

Launcher::Launcher() : order_(std::make_shared<Order>()) {
  thread_ = start_thread([this] { loop(); });
}

Launcher::~Launcher() { stop(); }

void Launcher::stop() {
  {
    std::lock_guard lock(order_->mutex);
    order_->stopping = true;
  }
  order_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
  std::map<std::uint64_t, std::function<void()>> never_run;  // let go of without the lock: what they own is not ours
  std::lock_guard lock(order_->mutex);
  never_run.swap(order_->ready);
}

Launcher::Number::~Number() {
  if (used_) return;
  {
    std::lock_guard lock(order_->mutex);
    order_->ready.emplace(number_, nullptr);  // CLA-2
  }
  order_->changed.notify_all();
}

std::unique_ptr<Launcher::Number> Launcher::take_number() {
  std::lock_guard lock(order_->mutex);
  return std::make_unique<Number>(order_, ++order_->issued);
}

void Launcher::submit(Number& number, std::function<void()> launch) {
  {
    std::lock_guard lock(order_->mutex);
    number.used_ = true;
    if (order_->stopping) return;
    order_->ready.emplace(number.number_, std::move(launch));
  }
  order_->changed.notify_all();
}

void Launcher::loop() {
  std::unique_lock lock(order_->mutex);
  for (;;) {
    order_->changed.wait(lock, [&] {
      return order_->stopping || (!order_->ready.empty() && order_->ready.begin()->first == order_->next);
    });
    if (order_->stopping) return;
    const std::function<void()> launch = std::move(order_->ready.begin()->second);
    order_->ready.erase(order_->ready.begin());
    ++order_->next;
    if (!launch) continue;
    lock.unlock();
    launch();
    lock.lock();
  }
}

}  // namespace troupe::collective
