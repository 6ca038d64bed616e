#include "collective/nccl/launched.h"

#include <numeric>

#include <fmt/format.h>

#include "collective/device/operation_memory.h"
#include "collective/device/staging.h"
#include "kernels/cpu/isa/dtype.h"

namespace troupe::collective {

using detail::Kind;

Launched::Launched(std::shared_ptr<NcclComm> comm, std::shared_ptr<Communicator> control, Staging& staging)
    : comm_(std::move(comm)), control_(std::move(control)), staging_(staging) {}

Launched::~Launched() {
  if (user_event_) device().give_event(user_event_);
  const bool given_up = state_ == State::kLaunched && !through_ && comm_->life() != Life::kReady;
  if (given_up) return;  // LD-3
  if (event_) device().give_event(event_);
  device().memory().release(in_block_);
  device().memory().release(out_block_);
}

void* Launched::stage(const void* host, std::size_t bytes, bool copy, DeviceMemory::Block& block) {
  block = device().memory().allocate(bytes).value();
  if (copy) staging_.to_device(block.pointer, host, bytes);
  return block.pointer;
}

void Launched::prepare(const detail::Operation& operation, int rank) {
  operation_ = operation;
  event_ = device().take_event();
  const Uses uses = uses_of(operation, rank);
  const std::size_t element = kernels::size_of(kernels::DType(operation.type)), in_bytes = uses.in * element,
                    out_bytes = uses.out * element;
  const bool in_place = operation.in == operation.out && in_bytes == out_bytes;
  if (out_bytes != 0 && device().side_of(operation.out) == GpuDevice::Side::kHost) {
    operation_.out = stage(operation.out, out_bytes, uses.reads_output || in_place, out_block_);
    host_out_ = operation.out;
    host_out_bytes_ = out_bytes;
  }
  if (operation.kind == Kind::kBroadcast || in_place) {
    operation_.in = operation_.out;
  } else if (in_bytes != 0 && device().side_of(operation.in) == GpuDevice::Side::kHost) {
    operation_.in = stage(operation.in, in_bytes, true, in_block_);
  }
  // not written on this rank
  if (operation.kind == Kind::kReduce && uses.out == 0) operation_.out = const_cast<void*>(operation_.in);
  void* const named = operation.options.stream.handle();
  const bool on_device =
      (in_bytes != 0 && !in_block_.pointer && operation_.in == operation.in) || (out_bytes != 0 && !out_block_.pointer);
  if (!named && !on_device) return;
  user_event_ = device().take_event();
  // GD-4
  device().check(device().cuda().event_record(user_event_, named ? named : device().copy_stream()), "cudaEventRecord");
}

// ----------------------------------------------------------------------------------------------------------- launching

bool Launched::begin() {
  std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) return false;
  state_ = State::kLaunching;
  return true;
}

bool Launched::cancel() {
  std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) return false;
  state_ = State::kRefused;
  outcome_ = {NcclOutcome::kRefused, "it was not launched"};
  return true;
}

void Launched::finish(NcclOutcome outcome) {
  {
    std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    state_ = outcome_.ok() ? State::kLaunched : State::kRefused;
  }
  changed_.notify_all();
}

void Launched::skip() {
  through_ = well_ = true;
  finish({});
}

Launched::State Launched::await_launch(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return state_ == State::kLaunched || state_ == State::kRefused; });
  return state_;
}

int Launched::order_behind_user() {
  return user_event_ ? device().cuda().stream_wait_event(device().stream(), user_event_) : 0;
}
int Launched::record() { return device().cuda().event_record(event_, device().stream()); }

// ----------------------------------------------------------------------------------------------------------------- end

bool Launched::over() {
  if (through_ || state_ == State::kRefused) return true;
  if (state_ != State::kLaunched) return false;
  const int status = device().cuda().event_query(event_);
  if (status == 0) {
    well_ = comm_->life() == Life::kReady;  // LD-2: the event first, then the life
    through_ = true;
    return true;
  }
  if (status != kCudaNotReady && !control_->failure())
    control_->fail({Reason::kBackend,
                    fmt::format("rank {}: the GPU failed in {}: {} ({})", control_->rank(),
                                detail::kind_name(operation_.kind), device().cuda().error_text(status), status),
                    {}});
  if (control_->failure()) comm_->fail();
  if (!comm_->over()) return false;
  if (comm_->life() == Life::kStuck) return true;
  // Aborted: what runs on the device ends soon, and if it does not, it is given up as a stuck abort is (NC-3).
  const auto now = Clock::now().time_since_epoch().count();
  Clock::time_point::rep since = 0;
  if (abandoned_at_.compare_exchange_strong(since, now)) since = now;
  return Clock::duration(now - since) >= device().limits().abort;
}

bool Launched::settle() {
  if (!well_) return false;
  if (!host_out_) return true;
  try {
    staging_.to_host(host_out_, operation_.out, host_out_bytes_);
    return true;
  } catch (const std::exception& error) {
    control_->fail({Reason::kBackend, fmt::format("rank {}: {}", control_->rank(), error.what()), {}});
    return false;
  }
}

bool Launched::wait_on(Stream stream) {
  if (host_out_ || state_ != State::kLaunched) return false;
  device().use();
  device().check(device().cuda().stream_wait_event(stream.handle(), event_), "cudaStreamWaitEvent");
  return true;
}

}  // namespace troupe::collective
