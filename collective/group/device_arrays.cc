// DeviceArray's binding to the runtime: what a ref to one carries, and what keeps its memory.
//
//   put       freezes the array and writes a ticket (device_storage.h); beside it travels a *pin*, a tiny object that
//             this process owns
//   get       here: the same storage; in another process of the node: imported, and it holds the pin
//   the end   when the pin is gone - no ref here, no borrower anywhere - the storage goes too (looked for at the next
//             put or allocation)
//
// Invariants
//   DV-1  A storage that was put is in `published` until its pin is gone (DVA-2).
//   DV-2  Where IPC is refused the bytes travel in a buffer of the object store, and the log says so once.
// Thread rule: any thread.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "collective/device/device_storage.h"
#include "collective/nccl/own_gpu.h"
#include "collective/shm/segment.h"
#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/process/core.h"
#include <troupe/device_array.h>
#include <troupe/objects.h>

namespace troupe::collective::detail {
namespace {

using troupe::detail::BufferPtr;
using troupe::detail::ObjectPtr;

constexpr std::uint32_t kNone = 0xFFFFFFFF;

struct Published {
  StoragePtr storage;
  ObjectId pin;
};
struct State {
  std::mutex mutex;
  std::map<std::uint64_t, Published> published;  // by number
  std::uint64_t numbers = 0;
  bool staging_logged = false;
  SlabImports imports;
};
State& state() {
  static State& instance = *new State;  // arrays of user code may outlive main
  return instance;
}

/// This process among all of all machines.
std::uint64_t process_number() {
  static const std::uint64_t number = [] {
    char boot[40] = {};
    const UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    if (!fd || ::read(fd.get(), boot, sizeof boot - 1) < 0) boot[0] = 0;
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : boot) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return (hash ^ process_start_time(::getpid())) * 0x9e3779b97f4a7c15u + std::uint64_t(::getpid());
  }();
  return number;
}

/// DV-1
void sweep() {
  std::vector<StoragePtr> gone;  // freed outside of the locks
  std::lock_guard lock(state().mutex);
  if (state().published.empty()) return;
  worker::Core& core = worker::require_core();
  worker::CoreLock core_lock(core);
  std::erase_if(state().published, [&](auto& entry) {
    if (core.objects().knows(entry.second.pin)) return false;
    gone.push_back(std::move(entry.second.storage));
    return true;
  });
}

const StoragePtr& checked(const StoragePtr& storage) {
  if (!storage) throw InvalidArgumentError("an empty DeviceArray");
  return storage;
}

/// What travels beside the ticket.
struct Beside {
  std::uint32_t pin = kNone, bytes = kNone;
};

BufferPtr staged(const DeviceStorage& storage, const std::string& why) {
  {
    std::lock_guard lock(state().mutex);
    if (!std::exchange(state().staging_logged, true))
      write_log(LogLevel::kWarn, "device arrays travel by the host's memory: {}", why);
  }
  auto open = troupe::detail::allocate_buffer(storage.bytes());
  storage.copy_to(open.data);
  troupe::detail::seal_buffer(*open.buffer);
  return std::move(open.buffer);
}

}  // namespace

StoragePtr make_storage(std::size_t bytes, const DeviceOptions& options) {
  sweep();
  return DeviceStorage::make(own_gpu(options.device).value(), bytes).value();
}

void* storage_data(const StoragePtr& storage, bool writes) {
  if (!storage) return nullptr;
  if (writes && storage->frozen())
    throw InvalidArgumentError("a DeviceArray that was put is immutable: read it through a const reference");
  return storage->data();
}
int storage_device(const StoragePtr& storage) { return checked(storage)->device().index(); }
Stream storage_stream(const StoragePtr& storage) { return checked(storage)->device().copy_stream(); }
void storage_copy_from(const StoragePtr& storage, const void* host) { checked(storage)->copy_from(host); }
void storage_copy_to(const StoragePtr& storage, void* host) { checked(storage)->copy_to(host); }

std::size_t storage_size() { return sizeof(DeviceTicket) + sizeof(Beside); }

void write_storage(troupe::detail::Writer& writer, const StoragePtr& storage) {
  DeviceTicket ticket;
  Beside beside;
  if (storage && storage->bytes() != 0) {
    sweep();
    storage->freeze();
    auto& attached = troupe::detail::writable_attachments(writer);
    std::string why = "TROUPE_DEVICE_IPC=0";
    std::uint64_t number = 0;
    const ObjectPtr pin = troupe::detail::pointer_of(troupe::put(true));
    {
      std::lock_guard lock(state().mutex);
      number = ++state().numbers;
      state().published[number] = {storage, worker::entry_of(pin).id};
    }
    ticket = storage->ticket(process_number(), number, why);
    if (environment("TROUPE_DEVICE_IPC") == "0") ticket.by_ipc = 0;
    beside.pin = std::uint32_t(attached.objects.size());
    attached.objects.push_back(pin);
    if (!ticket.by_ipc) {
      beside.bytes = std::uint32_t(attached.buffers.size());
      attached.buffers.push_back(staged(*storage, why));
    }
  }
  writer.bytes(&ticket, sizeof ticket);
  writer.bytes(&beside, sizeof beside);
}

StoragePtr read_storage(troupe::detail::Reader& reader, std::size_t bytes) {
  DeviceTicket ticket;
  Beside beside;
  const std::byte* const at = reader.take(sizeof ticket + sizeof beside);
  if (!at) return nullptr;
  std::memcpy(&ticket, at, sizeof ticket);
  std::memcpy(&beside, at + sizeof ticket, sizeof beside);
  if (ticket.bytes != bytes) return reader.fail("a device array of another size than its memory"), nullptr;
  if (bytes == 0) return nullptr;
  const auto* const attached = reader.attachments();
  if (!attached || beside.pin >= attached->objects.size())
    return reader.fail("a device array without its pin"), nullptr;
  auto keep = std::make_shared<ObjectPtr>(attached->objects[beside.pin]);
  if (ticket.process == process_number()) {
    std::lock_guard lock(state().mutex);
    if (const auto found = state().published.find(ticket.number); found != state().published.end())
      return found->second.storage;
    return reader.fail("a device array whose memory is gone"), nullptr;
  }
  if (ticket.by_ipc) return DeviceStorage::import(own_gpu().value(), ticket, state().imports, std::move(keep)).value();
  if (beside.bytes >= attached->buffers.size() || attached->buffers[beside.bytes]->size() < bytes)
    return reader.fail("a device array without its bytes"), nullptr;
  StoragePtr copy = DeviceStorage::make(own_gpu().value(), bytes).value();
  copy->copy_from(attached->buffers[beside.bytes]->data());
  copy->freeze();
  return copy;
}

}  // namespace troupe::collective::detail
