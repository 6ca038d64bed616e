// Operations and messages. How a communicator comes to be: founding.cc.
#include "collective/nccl/communicator.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "collective/device/operation_memory.h"
#include "collective/nccl/operations.h"
#include "collective/base/signature.h"

namespace troupe::collective {

using detail::Kind;

namespace {

constexpr auto kSpin = std::chrono::microseconds(100);
constexpr auto kMoment = std::chrono::microseconds(500);  // the end of an event wakes nobody: it is asked for
constexpr auto kNcclSlice = std::chrono::milliseconds(100);   // a thread that waits looks for a cancel this often

bool moves_data(Kind kind) {
  return kind != Kind::kBarrier && kind != Kind::kSend && kind != Kind::kRecv && kind != Kind::kSplit;
}

/// On the launcher's thread.
void launch(Launched& launched, NcclComm& comm, int rank, int ranks, Clock::time_point deadline) {
  if (!launched.begin()) return;
  GpuDevice& device = comm.device();
  device.use();
  const char* const name = detail::kind_name(launched.operation().kind);
  if (const int status = launched.order_behind_user(); status != 0)
    return launched.finish(
        {kNcclUnhandledCudaError, fmt::format("cudaStreamWaitEvent: {}", device.cuda().error_text(status))});
  std::vector<int> made;
  NcclOutcome outcome = comm.call(name, deadline, [&](NcclHandle handle) {
    return enqueue_on_nccl(device.nccl(), handle, launched.operation(), rank, ranks, device.stream(), made);
  });
  for (const int op : made)
    (void)comm.call("ncclRedOpDestroy", deadline,
                    [&](NcclHandle handle) { return device.nccl().red_op_destroy(op, handle); });
  if (const int status = outcome.ok() ? launched.record() : 0; status != 0)
    outcome = {kNcclUnhandledCudaError, fmt::format("cudaEventRecord: {}", device.cuda().error_text(status))};
  launched.finish(std::move(outcome));
}

}  // namespace

struct NcclCommunicator::Staged {
  Transfer* outer;
  Transfer inner;
  std::unique_ptr<std::byte[]> memory;
};

NcclCommunicator::NcclCommunicator(std::shared_ptr<Communicator> control, std::shared_ptr<NcclComm> comm,
                                   std::shared_ptr<GpuDevice> device, std::string group, NcclScope scope)
    : control_(std::move(control)),
      comm_(std::move(comm)),
      device_(std::move(device)),
      group_(std::move(group)),
      scope_(scope),
      staging_(*device_) {}

NcclCommunicator::~NcclCommunicator() {
  if (!comm_) return;
  if (control_->failure()) comm_->fail();
  else comm_->close();
}

std::shared_ptr<NcclComm> NcclCommunicator::comm() const {
  std::lock_guard lock(mutex_);
  return comm_;
}

void NcclCommunicator::give_up(const Failure& failure) {
  control_->fail(failure);
  abort_comm();
}
void NcclCommunicator::fail(const Failure& failure) { give_up(failure); }

std::optional<Failure> NcclCommunicator::failure() {
  if (auto known = control_->failure()) return known;
  if (control_->stale()) return Failure{Reason::kStale, "the group has been formed again or destroyed", {}};
  return std::nullopt;
}

void NcclCommunicator::nudge() {
  {
    std::lock_guard lock(mutex_);
    nudge_ = true;
  }
  nudged_.notify_all();
  control_->nudge();
}

// ---------------------------------------------------------------------------------------------------------- operations

bool NcclCommunicator::hands_over(const detail::Operation& operation) const {
  return moves_data(operation.kind) &&
         (scope_ == NcclScope::kEverything || side_of(operation, rank(), device_.get()) == Side::kDevice);
}

void NcclCommunicator::check_memory(const detail::Operation& operation) const {
  for (const void* pointer : {operation.in, static_cast<const void*>(operation.out)})
    if (device_->side_of(pointer) == GpuDevice::Side::kElsewhere)
      throw InvalidArgumentError(fmt::format("{}: memory of another GPU than the group's, which is GPU {} on rank {}",
                                             detail::kind_name(operation.kind), device_->index(), rank()));
  if (scope_ == NcclScope::kDeviceMemory && side_of(operation, rank(), device_.get()) == Side::kBoth)
    throw InvalidArgumentError(
        fmt::format("{}: the input and the output are not both in memory of the host or both of the GPU",
                    detail::kind_name(operation.kind)));
}

/// NC-1, NC-5
bool NcclCommunicator::agree(const detail::Operation& operation, Patience& patience) {
  const Signature what = signature_of(operation);
  const bool one_side = scope_ == NcclScope::kDeviceMemory && moves_data(operation.kind);
  return !control_->failure() && control_->agree_on(one_side ? what.in_device_memory() : what, patience);
}

/// After an agreement, which all ranks reach with the same operation: so they make NCCL's communicator together.
bool NcclCommunicator::ready(Patience& patience) {
  if (comm()) return true;
  auto made = connect_nccl(control_, *device_, group_, patience);
  std::lock_guard lock(mutex_);
  comm_ = std::move(made);
  return comm_ != nullptr;
}

bool NcclCommunicator::run(const detail::Operation& operation, Patience& patience) {
  if (!moves_data(operation.kind)) return agree(operation, patience);
  if (!hands_over(operation)) return control_->run(operation, patience);
  const auto handed = hand_over(operation, take_number(), patience);
  if (!handed) return false;
  while (!handed->over()) await(*handed, patience);
  return handed->settle();
}

std::shared_ptr<Handed> NcclCommunicator::hand_over(const detail::Operation& operation,
                                                    std::unique_ptr<LaunchNumber> number, Patience& patience) {
  try {
    if (!agree(operation, patience) || !ready(patience)) {
      abort_comm();
      return nullptr;
    }
  } catch (...) {  // interrupted: the control links have failed by that
    abort_comm();
    throw;
  }
  const std::shared_ptr<NcclComm> comm = this->comm();
  auto launched = std::make_shared<Launched>(comm, control_, staging_);
  if (operation.in_count == 0 && operation.out_count == 0) {
    launched->skip();
    return launched;
  }
  try {
    device_->use();
    launched->prepare(operation, rank());
  } catch (const std::exception& error) {
    give_up({Reason::kBackend, fmt::format("rank {}: {}", rank(), error.what()), {}});
    return nullptr;
  }
  device_->launcher().submit(static_cast<Launcher::Number&>(*number),
                             [launched, comm, rank = rank(), ranks = size(), deadline = patience.deadline()] {
                               launch(*launched, *comm, rank, ranks, deadline);
                             });
  return await_launch(*launched, patience) ? launched : nullptr;
}

/// Until the launcher is through with it, or the group has failed and it will not be launched any more.
bool NcclCommunicator::await_launch(Launched& launched, Patience& patience) {
  using State = Launched::State;
  const std::shared_ptr<NcclComm> comm = this->comm();
  std::exception_ptr interrupted;
  for (;;) {
    const bool late = Clock::now() >= patience.deadline();  // before the look: this thread may have stood still
    const State state = launched.await_launch(std::min(patience.deadline(), Clock::now() + kNcclSlice));
    if (state == State::kLaunched) break;
    if (state == State::kRefused) {
      const NcclOutcome& outcome = launched.outcome();
      if (!control_->failure() && outcome.result != NcclOutcome::kRefused)
        give_up({outcome.reason(), fmt::format("rank {}: {}", rank(), outcome.text), {}});
      comm->fail();
      await_abort(*comm);  // part of it may have reached the device
      break;
    }
    try {
      if (!interrupted) patience.check();
    } catch (const std::exception& error) {
      give_up({Reason::kAborted, fmt::format("the call on rank {} was interrupted: {}", rank(), error.what()), {}});
      interrupted = std::current_exception();
    }
    if (late)
      give_up({Reason::kTimeout,
               fmt::format("rank {} could not launch {} in time: operations of other groups on its GPU come first",
                           rank(), detail::kind_name(launched.operation().kind)),
               {}});
    if (!control_->failure()) continue;
    comm->fail();
    if (launched.cancel()) break;
    if (comm->over() && comm->life() == Life::kStuck) break;
  }
  if (interrupted) std::rethrow_exception(interrupted);
  return launched.await_launch(Clock::now()) == State::kLaunched;
}

void NcclCommunicator::await_abort(NcclComm& comm) {
  while (!comm.over()) {
    std::unique_lock lock(mutex_);
    nudged_.wait_for(lock, kMoment);
  }
}

void NcclCommunicator::await(Handed& handed, Patience& patience) {
  auto& launched = static_cast<Launched&>(handed);
  if (!std::exchange(launched.spun, true))
    for (const auto until = Clock::now() + kSpin; Clock::now() < until; std::this_thread::yield())
      if (launched.over()) return;
  if (launched.over()) return;
  {
    std::unique_lock lock(mutex_);
    nudged_.wait_for(lock, kMoment, [&] { return nudge_; });
    nudge_ = false;
  }
  if (control_->failure() || control_->stale()) return abort_comm();
  try {
    patience.check();
  } catch (const std::exception& error) {
    give_up({Reason::kAborted, fmt::format("the call on rank {} was interrupted: {}", rank(), error.what()), {}});
    throw;
  }
  if (Clock::now() < patience.deadline() || launched.over()) return;  // this thread may have stood still
  give_up({Reason::kTimeout,
           fmt::format("rank {}: all ranks came, and its GPU was not through with {} in {} ms", rank(),
                       detail::kind_name(launched.operation().kind),
                       std::chrono::duration_cast<std::chrono::milliseconds>(patience.timeout()).count()),
           {}});
}

// ------------------------------------------------------------------------------------------------------------ messages

void NcclCommunicator::post(Transfer& transfer) {
  const void* const pointer = transfer.sends ? transfer.from : transfer.to;
  if (transfer.bytes == 0 || device_->side_of(pointer) == GpuDevice::Side::kHost) return control_->post(transfer);
  auto staged = std::make_unique<Staged>(
      Staged{&transfer, transfer, std::make_unique_for_overwrite<std::byte[]>(transfer.bytes)});
  try {
    device_->use();
    if (transfer.stream.handle()) {
      void* const event = device_->take_event();
      int status = device_->cuda().event_record(event, transfer.stream.handle());
      if (status == 0) status = device_->cuda().stream_wait_event(device_->copy_stream(), event);
      device_->give_event(event);
      device_->check(status, "cudaStreamWaitEvent");
    }
    if (transfer.sends) staging_.to_host(staged->memory.get(), transfer.from, transfer.bytes);
  } catch (const std::exception& error) {
    return give_up({Reason::kBackend, fmt::format("rank {}: {}", rank(), error.what()), {}});
  }
  staged->inner.from = staged->inner.to = staged->memory.get();
  control_->post(staged->inner);
  messages_.push_back(std::move(staged));
}

bool NcclCommunicator::pump() {
  bool moved = control_->pump();
  if (control_->failure()) return moved;  // the transfers belong to others, who now let go of them
  std::erase_if(messages_, [&](const std::unique_ptr<Staged>& one) {
    if (!one->inner.done) return false;
    try {
      if (!one->inner.sends) staging_.to_device(one->outer->to, one->memory.get(), one->outer->bytes);
      one->outer->done = moved = true;
    } catch (const std::exception& error) {
      give_up({Reason::kBackend, fmt::format("rank {}: {}", rank(), error.what()), {}});
    }
    return one->outer->done;
  });
  return moved;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, Patience& patience) {
  const detail::Operation operation{.kind = Kind::kSplit};
  if (!agree(operation, patience)) return nullptr;
  std::shared_ptr<Communicator> child = control_->split(color, key, patience);
  if (control_->failure()) return nullptr;
  const std::shared_ptr<NcclComm> parent = comm();  // all ranks have one, or none: it is made in an agreed operation
  std::shared_ptr<NcclComm> part;
  const std::string name = fmt::format("{}/{}", group_, color);
  if (parent && color < 0) NcclComm::stand_aside(parent);
  if (parent && color >= 0) {
    part = NcclComm::begin(*device_,
                           {.name = fmt::format("{}@{}", name, epoch()),
                            .ranks = child->size(),
                            .rank = child->rank(),
                            .parent = parent,
                            .color = color,
                            .key = key},
                           child);
    if (!part->await_ready(patience)) {
      const Failure why =
          child->failure().value_or(Failure{Reason::kBackend, "the communicator of the split was not made", {}});
      give_up(told_above(why, {}));  // CFL-1: who the split's ranks are here this rank has not heard
      return nullptr;
    }
  }
  std::unique_ptr<Communicator> made;
  if (color >= 0) made = std::make_unique<NcclCommunicator>(std::move(child), std::move(part), device_, name, scope_);
  return agree(operation, patience) ? std::move(made) : nullptr;
}

}  // namespace troupe::collective
