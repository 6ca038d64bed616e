#include "tests/collective/fake_cuda.h"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace troupe::collective::testing {
namespace {

struct Reached {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0, reached = 0;
};
struct Event {
  std::shared_ptr<Reached> state = std::make_shared<Reached>();
};

class Stream {
 public:
  explicit Stream(int on, bool with_default = false) : device(on), ordered(with_default), thread_([this] { loop(); }) {}
  ~Stream() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void put(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  void drain() {
    std::promise<void> through;
    put([&] { through.set_value(); });
    through.get_future().wait();
  }
  const int device;
  const bool ordered;  // against the default stream

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
      if (work_.empty()) return;
      const auto next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::thread thread_;
};

struct Memory {
  std::size_t bytes;
  CudaMemory kind;
  int device;
};
struct State {
  std::mutex streams_mutex;  // before mutex
  std::set<Stream*> streams;
  std::mutex mutex;
  std::map<const char*, Memory> memory;
  std::set<Event*> events;  // those of an operation that was given up (LD-3) are never destroyed: no leak
  CudaCounts counts;
};
State& state() {
  static State& instance = *new State;
  return instance;
}
thread_local int t_device = 0;

template <class F> int counted(F&& change) {
  std::lock_guard lock(state().mutex);
  change(state().counts);
  return 0;
}

int keep_event(void** out, Event* event) {
  *out = event;
  return counted([&](CudaCounts& counts) { state().events.insert(event), ++counts.events; });
}
int destroy_event(void* event) {
  const std::unique_ptr<Event> gone(static_cast<Event*>(event));
  return counted([&](CudaCounts& counts) { state().events.erase(gone.get()), --counts.events; });
}

int allocate_kind(void** pointer, std::size_t bytes, CudaMemory kind) {
  auto& left = FakeCuda::instance().faults.allocations_left;
  if (left >= 0 && left.fetch_sub(1) <= 0) {
    left = 0;
    return kCudaOutOfMemory;
  }
  *pointer = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(*pointer, 0xff, bytes);  // who reads what nobody wrote sees NaNs
  std::lock_guard lock(state().mutex);
  state().memory[static_cast<const char*>(*pointer)] = {bytes, kind, t_device};
  ++(kind == CudaMemory::kDevice ? state().counts.allocations : state().counts.pinned);
  if (kind != CudaMemory::kDevice) ++FakeCuda::instance().made_pinned;
  return 0;
}
/// As CUDA does, it waits for what the device has to do: nothing reads the memory afterwards.
void drain_device_of(const void* pointer) {
  int device = -1;
  {
    std::lock_guard lock(state().mutex);
    if (const auto found = state().memory.find(static_cast<const char*>(pointer)); found != state().memory.end())
      device = found->second.device;
  }
  std::lock_guard streams(state().streams_mutex);
  for (Stream* stream : state().streams)
    if (stream->device == device) stream->drain();
}
int release_kind(void* pointer, CudaMemory kind) {
  if (kind == CudaMemory::kDevice) drain_device_of(pointer);
  std::lock_guard lock(state().mutex);
  if (state().memory.erase(static_cast<const char*>(pointer)) == 0) return kCudaInvalidValue;
  --(kind == CudaMemory::kDevice ? state().counts.allocations : state().counts.pinned);
  std::free(pointer);
  return 0;
}

int copy(void* to, const void* from, std::size_t bytes, void* stream) {
  if (const int status = FakeCuda::instance().faults.copy; status != 0) return status;
  FakeCuda::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return 0;
}

int memory_kind(const void* pointer, int* kind, int* device) {
  std::lock_guard lock(state().mutex);
  *kind = int(CudaMemory::kUnregistered);
  *device = -2;
  auto found = state().memory.upper_bound(static_cast<const char*>(pointer));
  if (found == state().memory.begin()) return 0;
  --found;
  if (static_cast<const char*>(pointer) >= found->first + found->second.bytes) return 0;
  *kind = int(found->second.kind);
  *device = found->second.device;
  return 0;
}

int event_record(void* event, void* stream) {
  if (const int status = FakeCuda::instance().faults.record; status != 0) return status;
  auto reached = static_cast<Event*>(event)->state;
  std::uint64_t number = 0;
  {
    std::lock_guard lock(reached->mutex);
    number = ++reached->recorded;
  }
  FakeCuda::enqueue(stream, [reached, number] {
    std::lock_guard lock(reached->mutex);
    reached->reached = number;
    reached->changed.notify_all();
  });
  return 0;
}
int event_query(void* event) {
  if (const int status = FakeCuda::instance().faults.query; status != 0) return status;
  auto& reached = *static_cast<Event*>(event)->state;
  std::lock_guard lock(reached.mutex);
  return reached.reached >= reached.recorded ? 0 : kCudaNotReady;
}
int stream_wait_event(void* stream, void* event) {
  auto reached = static_cast<Event*>(event)->state;
  std::uint64_t number = 0;
  {
    std::lock_guard lock(reached->mutex);
    number = reached->recorded;
  }
  FakeCuda::enqueue(stream, [reached, number] {
    std::unique_lock lock(reached->mutex);
    reached->changed.wait(lock, [&] { return reached->reached >= number; });
  });
  return 0;
}

int make_stream(void** stream, bool ordered) {
  auto* const made = new Stream(t_device, ordered);
  *stream = made;
  std::lock_guard streams(state().streams_mutex);
  state().streams.insert(made);
  return counted([](CudaCounts& counts) { ++counts.streams; });
}
int stream_destroy(void* stream) {
  auto* const gone = static_cast<Stream*>(stream);
  {
    std::lock_guard streams(state().streams_mutex);
    state().streams.erase(gone);
  }
  delete gone;
  return counted([](CudaCounts& counts) { --counts.streams; });
}

int device_facts(int device, GpuFacts* facts) {
  if (device < 0 || device >= FakeCuda::kDevices) return kCudaInvalidValue;
  *facts = {};
  std::strcpy(facts->name, "fake");
  std::memcpy(facts->uuid, "fake GPU number", 15);
  facts->uuid[15] = static_cast<unsigned char>(device);
  facts->memory_bytes = std::uint64_t(1) << 30;
  return 0;
}

/// The handle is the address: all "processes" of a test are threads of one.
IpcHandle handle_of(const void* what) {
  IpcHandle handle{};
  std::memcpy(handle.bytes, &what, sizeof what);
  return handle;
}
int refused() {
  auto& faults = FakeCuda::instance().faults;
  if (faults.ipc == 0 || faults.ipc_left.fetch_sub(1) > 0) return 0;
  faults.ipc_left = 0;
  return faults.ipc;
}
int ipc_open_memory(void** pointer, const IpcHandle* handle) {
  if (const int status = refused(); status != 0) return status;
  std::memcpy(pointer, handle->bytes, sizeof *pointer);
  ++FakeCuda::instance().opened;
  return counted([](CudaCounts& counts) { ++counts.imports; });
}
int ipc_open_event(void** event, const IpcHandle* handle) {
  Event* original = nullptr;
  std::memcpy(&original, handle->bytes, sizeof original);
  return keep_event(event, new Event(*original));
}

}  // namespace

FakeCuda& FakeCuda::instance() {
  static FakeCuda& instance = *new FakeCuda;
  return instance;
}

CudaCounts FakeCuda::counts() {
  std::lock_guard lock(state().mutex);
  return state().counts;
}

void FakeCuda::reset() {
  faults.allocations_left = -1;
  faults.copy = faults.record = faults.query = faults.ipc = faults.ipc_left = 0;
  opened = 0;
}

void FakeCuda::enqueue(void* stream, std::function<void()> work) {
  if (stream) static_cast<Stream*>(stream)->put(std::move(work));
  else work();
}

void FakeCuda::launch_on_default(std::function<void()> kernel) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    int coming = 0;
    bool through = false;
  };
  const auto meeting = std::make_shared<Meeting>();
  static auto& streams = *new std::map<int, std::unique_ptr<Stream>>;  // the default streams
  std::lock_guard lock(state().streams_mutex);
  std::unique_ptr<Stream>& own = streams[t_device];
  if (!own) own = std::make_unique<Stream>(t_device);
  for (Stream* stream : state().streams) {
    if (stream->device != t_device || !stream->ordered) continue;
    ++meeting->coming;
    stream->put([meeting] {
      std::unique_lock held(meeting->mutex);
      --meeting->coming;
      meeting->changed.notify_all();
      meeting->changed.wait(held, [&] { return meeting->through; });
    });
  }
  own->put([meeting, kernel = std::move(kernel)] {
    {
      std::unique_lock held(meeting->mutex);
      meeting->changed.wait(held, [&] { return meeting->coming == 0; });
    }
    kernel();
    std::lock_guard held(meeting->mutex);
    meeting->through = true;
    meeting->changed.notify_all();
  });
}

const CudaApi& FakeCuda::api() {
  static constexpr CudaApi kApi{
      .abi = kCudaApiAbi,
      .bytes = sizeof(CudaApi),
      .error_text =
          [](int status) {
            return status == kCudaOutOfMemory    ? "out of memory"
                   : status == kCudaNotSupported ? "operation not supported"
                                                 : "the fake was told to fail";
          },
      .device_count = [](int* count) { return *count = kDevices, 0; },
      .device_facts = device_facts,
      .set_device =
          [](int device) { return device < 0 || device >= kDevices ? kCudaInvalidValue : (t_device = device, 0); },
      .current_device = [](int* device) { return *device = t_device, 0; },
      .allocate = [](void** pointer, std::size_t bytes) { return allocate_kind(pointer, bytes, CudaMemory::kDevice); },
      .release = [](void* pointer) { return release_kind(pointer, CudaMemory::kDevice); },
      .host_allocate = [](void** pointer,
                          std::size_t bytes) { return allocate_kind(pointer, bytes, CudaMemory::kHost); },
      .host_release = [](void* pointer) { return release_kind(pointer, CudaMemory::kHost); },
      .copy = copy,
      .memory_kind = memory_kind,
      .stream_create = [](void** stream) { return make_stream(stream, false); },
      .stream_destroy = stream_destroy,
      .stream_wait_event = stream_wait_event,
      .event_create = [](void** event, int) { return keep_event(event, new Event); },
      .event_destroy = destroy_event,
      .event_record = event_record,
      .event_query = event_query,
      .ipc_memory_handle =
          [](IpcHandle* handle, void* pointer) {
            return *handle = handle_of(pointer),
                   int(instance().faults.ipc_left == 0 ? instance().faults.ipc.load() : 0);
          },
      .ipc_open_memory = ipc_open_memory,
      .ipc_close_memory = [](void*) { return counted([](CudaCounts& counts) { --counts.imports; }); },
      .ipc_event_handle = [](IpcHandle* handle, void* event) { return *handle = handle_of(event), 0; },
      .ipc_open_event = ipc_open_event,
      .ordered_stream_create = [](void** stream) { return make_stream(stream, true); },
  };
  return kApi;
}

}  // namespace troupe::collective::testing
