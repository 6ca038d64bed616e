#include "collective/nccl/comm.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include <fmt/format.h>

#include "core/base/log.h"

namespace troupe::collective {
namespace {

// NCCL has no event for "no longer in progress": it is asked, soon at first.
constexpr std::chrono::microseconds kAskFirst{20}, kAskMax{2000};

Clock::time_point later(Clock::time_point now, Duration time) {
  return time >= Clock::time_point::max() - now ? Clock::time_point::max() : now + time;
}

}  // namespace

std::shared_ptr<NcclComm> NcclComm::begin(GpuDevice& device, NcclBirth birth, std::weak_ptr<Communicator> control) {
  std::shared_ptr<NcclComm> comm(new NcclComm(device, std::move(birth), std::move(control)));
  comm->limit_ = later(Clock::now(), comm->device_->limits().init);
  comm->device_->side().run(fmt::format("init of NCCL's communicator '{}'", comm->birth_.name),
                            [comm] { comm->init(); });
  comm->device_->watchdog().watch(comm);
  return comm;
}

/// What NCCL keeps the address of until it has made a communicator, which may be after the call was given up (NM-4).
struct NcclComm::Making {
  explicit Making(std::string of) : name(std::move(of)) {
    config.blocking = 0;
    config.comm_name = name.c_str();
  }
  const std::string name;
  NcclConfig config;
  NcclHandle handle = nullptr;

  static void keep(std::unique_ptr<Making> one) {
    static auto& kept = *new std::vector<std::unique_ptr<Making>>;
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    kept.push_back(std::move(one));
  }
};

namespace {
/// NCCL was left in the middle of it.
bool given_up(int result) { return result == NcclOutcome::kLate || result == NcclOutcome::kRefused; }
}  // namespace

std::string NcclComm::text_of(const char* what, int result, NcclHandle handle) const {
  const char* const last = device_->nccl().get_last_error(handle);
  return fmt::format("{}: {}{}{}", what, device_->nccl().get_error_string(result), last && *last ? ": " : "",
                     last ? last : "");
}

// ---------------------------------------------------------------------------------------------------------------- life

void NcclComm::apply(LifeEvent event, std::optional<Life> only_in) {
  LifeStep step{};
  {
    std::lock_guard lock(mutex_);
    if (only_in && *only_in != life_) return;
    step = next(life_, event);
    life_ = step.state;
    if (step.effect == LifeEffect::kAbort) limit_ = later(Clock::now(), device_->limits().abort);
    if (step.effect == LifeEffect::kFinalize) limit_ = later(Clock::now(), device_->limits().finalize);
  }
  changed_.notify_all();
  auto self = shared_from_this();
  switch (step.effect) {
    case LifeEffect::kNone: break;
    case LifeEffect::kAbort:
      device_->side().run(fmt::format("abort of NCCL's communicator '{}'", birth_.name), [self] { self->abort(); });
      break;
    case LifeEffect::kFinalize:
      device_->side().run(fmt::format("finalize of NCCL's communicator '{}'", birth_.name),
                          [self] { self->finalize(); });
      break;
    case LifeEffect::kReport:
      write_log(
          LogLevel::kError,
          "ncclCommAbort of '{}' (rank {}) has not returned in time: its GPU may stay busy until this process ends",
          birth_.name, birth_.rank);
      break;
  }
}

/// Waits a moment, or until the life leaves the state. True: it is still in it.
bool NcclComm::pause(Life while_in, std::chrono::microseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [&] { return life_ != while_in; });
}

/// Until NCCL is through with what was asked of it, leaving `calls` free in between.
int NcclComm::settle(NcclHandle handle, int result, Life while_in, Clock::time_point deadline,
                     std::unique_lock<std::mutex>& calls) {
  bool late = false;
  for (auto time = kAskFirst; result == kNcclInProgress; time = std::min(time * 2, kAskMax)) {
    if (const int asked = device_->nccl().comm_get_async_error(handle, &result); asked != kNcclSuccess) return asked;
    if (result != kNcclInProgress) break;
    if (late) return NcclOutcome::kLate;
    calls.unlock();
    const bool same = pause(while_in, time);
    calls.lock();
    if (!same || life() != while_in) return NcclOutcome::kRefused;
    late = Clock::now() >= deadline;  // this thread may have stood still: NCCL is asked once more
  }
  return result;
}

void NcclComm::init() {
  device_->use();
  const NcclApi& nccl = device_->nccl();
  auto making = std::make_unique<Making>(birth_.name);
  int result = kNcclSuccess;
  std::string text;
  std::unique_lock calls(calls_);  // an abort waits for it, and so finds the handle
  if (life() != Life::kInit) return;
  if (birth_.parent) {
    // The parent is busy until the child is born; only then may the child be touched.
    const NcclOutcome split =
        birth_.parent->call("ncclCommSplit", later(Clock::now(), device_->limits().init), [&](NcclHandle parent) {
          return nccl.comm_split(parent, birth_.color, birth_.key, &making->handle, &making->config);
        });
    result = split.result;
    text = split.text;
  } else {
    result = nccl.comm_init_rank_config(&making->handle, birth_.ranks, birth_.id, birth_.rank, &making->config);
  }
  // After a split that was given up NCCL's thread may still write it (NM-4).
  NcclHandle const handle = std::atomic_ref(making->handle).load(std::memory_order_acquire);
  {
    std::lock_guard lock(mutex_);
    handle_ = handle;
  }
  if (handle && (result == kNcclSuccess || result == kNcclInProgress))
    result = settle(handle, kNcclInProgress, Life::kInit, Clock::time_point::max(), calls);
  if (given_up(result)) Making::keep(std::move(making));
  if (text.empty() && result > 0) text = text_of("ncclCommInitRankConfig", result, handle);
  calls.unlock();
  if (result == kNcclSuccess) return apply(LifeEvent::kInitialized);
  if (result == NcclOutcome::kRefused && text.empty()) return;  // failed meanwhile, by somebody who has said why
  report({result, text});
  apply(LifeEvent::kFailed);
}

void NcclComm::abort() {
  device_->use();
  {
    std::lock_guard calls(calls_);  // NM-1: who is inside leaves at the next look at life()
    NcclHandle handle = nullptr;
    {
      std::lock_guard lock(mutex_);
      std::swap(handle, handle_);
    }
    if (handle) (void)device_->nccl().comm_abort(handle);
  }
  apply(LifeEvent::kAborted);
}

void NcclComm::finalize() {
  device_->use();
  {
    std::unique_lock calls(calls_);
    if (life() != Life::kClosing) return;
    const int result =
        settle(handle_, device_->nccl().comm_finalize(handle_), Life::kClosing, Clock::time_point::max(), calls);
    if (life() != Life::kClosing) return;
    if (result == kNcclSuccess) {
      NcclHandle handle = nullptr;
      {
        std::lock_guard lock(mutex_);
        std::swap(handle, handle_);
      }
      (void)device_->nccl().comm_destroy(handle);
    } else {
      calls.unlock();
      return apply(LifeEvent::kFailed);
    }
  }
  apply(LifeEvent::kFinalized);
}

// ------------------------------------------------------------------------------------------------------------- calling

NcclOutcome NcclComm::call(const char* what, Clock::time_point deadline,
                           const std::function<int(NcclHandle)>& function) {
  std::unique_lock calls(calls_);
  if (life() != Life::kReady)
    return {NcclOutcome::kRefused, fmt::format("{}: the communicator is {}", what, life_name(life()))};
  const int result = settle(handle_, function(handle_), Life::kReady, deadline, calls);
  if (result == kNcclSuccess) return {};
  if (result == NcclOutcome::kLate) return {result, fmt::format("{} did not come through in time", what)};
  if (result == NcclOutcome::kRefused)
    return {result, fmt::format("{}: the communicator is {}", what, life_name(life()))};
  return {result, text_of(what, result, handle_)};
}

bool NcclComm::await_ready(Patience& patience) {
  for (;;) {
    bool late = false;
    {
      std::unique_lock lock(mutex_);
      const Clock::time_point until = std::min(patience.deadline(), limit_);
      late = Clock::now() >= until;  // before the look: this thread may have stood still, and NCCL was ready in time
      changed_.wait_until(lock, std::min(until, Clock::now() + Watchdog::kLookEvery),
                          [&] { return life_ != Life::kInit; });
      if (life_ != Life::kInit) return life_ == Life::kReady;
    }
    const auto control = control_.lock();
    if (!control || control->failure()) {
      fail();
      continue;
    }
    try {
      patience.check();
    } catch (const std::exception& error) {
      control->fail(
          {Reason::kAborted, fmt::format("the call on rank {} was interrupted: {}", birth_.rank, error.what()), {}});
      fail();
      throw;
    }
    if (!late) continue;
    control->fail(
        {Reason::kTimeout,
         fmt::format("rank {}: NCCL's communicator of {} ranks was not ready in time", birth_.rank, birth_.ranks),
         {}});
    fail();
  }
}

void NcclComm::stand_aside(const std::shared_ptr<NcclComm>& parent) {
  auto making = std::make_unique<Making>(std::string());
  const NcclOutcome outcome =
      parent->call("ncclCommSplit", later(Clock::now(), parent->device_->limits().init), [&](NcclHandle handle) {
        return parent->device_->nccl().comm_split(handle, kNcclNoColor, 0, &making->handle, nullptr);
      });
  if (given_up(outcome.result)) Making::keep(std::move(making));
  if (!outcome.ok()) parent->report(outcome);
}

void NcclComm::fail() { apply(LifeEvent::kFailed); }
void NcclComm::close() { apply(LifeEvent::kClose); }

Life NcclComm::life() const {
  std::lock_guard lock(mutex_);
  return life_;
}

bool NcclComm::over() {
  bool late = false;
  {
    std::lock_guard lock(mutex_);
    late = life_ == Life::kFailing && Clock::now() >= limit_;
  }
  if (late) apply(LifeEvent::kLimit, Life::kFailing);
  return is_over(life());
}

/// NM-3
void NcclComm::report(const NcclOutcome& outcome) {
  if (const auto control = control_.lock())
    control->fail({outcome.reason(), fmt::format("rank {}: {}", birth_.rank, outcome.text), {}});
}

void NcclComm::look(Clock::time_point now) {
  const auto control = control_.lock();  // before the life: who lets go of the links has closed this before
  Life life{};
  bool late = false;
  {
    std::lock_guard lock(mutex_);
    life = life_;
    late = now >= limit_;
  }
  if (life == Life::kFailing || life == Life::kClosing) {
    if (late) apply(LifeEvent::kLimit, life);  // the limit was that of this state
    return;
  }
  if (is_over(life)) return;
  if (!control || control->failure() || control->stale()) return fail();
  if (life != Life::kReady) return;
  std::unique_lock calls(calls_, std::try_to_lock);
  if (!calls || this->life() != Life::kReady) return;
  int result = kNcclSuccess;
  if (const int asked = device_->nccl().comm_get_async_error(handle_, &result); asked != kNcclSuccess) result = asked;
  if (result == kNcclSuccess || result == kNcclInProgress) return;
  // A remote error is mostly a death, and the control links know whose: they get one more look.
  if (result == kNcclRemoteError && !std::exchange(remote_seen_, true)) return;
  const NcclOutcome outcome{result, text_of("NCCL", result, handle_)};
  calls.unlock();
  report(outcome);
  fail();
}

}  // namespace troupe::collective
