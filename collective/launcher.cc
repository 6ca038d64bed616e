#include "collective/launcher.h"

#include "core/base/thread.h"

namespace troupe::collective {

Launcher::Launcher() : order_(std::make_shared<Order>()) {
  thread_ = start_thread([this] { loop(); });
}

Launcher::~Launcher() {
  {
    std::lock_guard lock(order_->mutex);
    order_->stopping = true;
  }
  order_->changed.notify_all();
  thread_.join();
}

Launcher::Turn::~Turn() {
  if (used_) return;
  {
    std::lock_guard lock(order_->mutex);
    order_->ready.emplace(number_, nullptr);  // LA-2
  }
  order_->changed.notify_all();
}

std::unique_ptr<Launcher::Turn> Launcher::take_turn() {
  std::lock_guard lock(order_->mutex);
  return std::make_unique<Turn>(order_, ++order_->issued);
}

void Launcher::submit(Turn& turn, std::function<void()> launch) {
  {
    std::lock_guard lock(order_->mutex);
    turn.used_ = true;
    order_->ready.emplace(turn.number_, std::move(launch));
  }
  order_->changed.notify_all();
}

void Launcher::loop() {
  std::unique_lock lock(order_->mutex);
  for (;;) {
    order_->changed.wait(lock, [&] { return order_->stopping || (!order_->ready.empty() && order_->ready.begin()->first == order_->next); });
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
