// CudaApi over the CUDA runtime inside the plug-in. See cuda_api.h; thread rule there.
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>

#include "collective/device/cuda_api.h"

namespace troupe::collective {
namespace {

static_assert(kCudaInvalidValue == cudaErrorInvalidValue && kCudaOutOfMemory == cudaErrorMemoryAllocation &&
              kCudaInsufficientDriver == cudaErrorInsufficientDriver && kCudaNoDevice == cudaErrorNoDevice &&
              kCudaNotReady == cudaErrorNotReady && kCudaNotSupported == cudaErrorNotSupported);
static_assert(int(CudaMemory::kUnregistered) == cudaMemoryTypeUnregistered &&
              int(CudaMemory::kHost) == cudaMemoryTypeHost && int(CudaMemory::kDevice) == cudaMemoryTypeDevice &&
              int(CudaMemory::kManaged) == cudaMemoryTypeManaged);
static_assert(sizeof(IpcHandle) == sizeof(cudaIpcMemHandle_t) && sizeof(IpcHandle) == sizeof(cudaIpcEventHandle_t));

/// An error that was reported is not reported again by whoever asks next.
int done(cudaError_t status) {
  if (status != cudaSuccess) (void)cudaGetLastError();
  return static_cast<int>(status);
}
cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

int device_facts(int device, GpuFacts* facts) {
  cudaDeviceProp properties{};
  if (const int status = done(cudaGetDeviceProperties(&properties, device)); status != 0) return status;
  *facts = {};
  std::snprintf(facts->name, sizeof facts->name, "%.127s", properties.name);
  static_assert(sizeof facts->uuid == sizeof properties.uuid);
  std::memcpy(facts->uuid, &properties.uuid, sizeof facts->uuid);
  facts->memory_bytes = properties.totalGlobalMem;
  const int status = done(cudaDriverGetVersion(&facts->driver_version));
  return status != 0 ? status : done(cudaRuntimeGetVersion(&facts->runtime_version));
}

int memory_kind(const void* pointer, int* kind, int* device) {
  cudaPointerAttributes attributes{};
  const int status = done(cudaPointerGetAttributes(&attributes, pointer));
  *kind = static_cast<int>(attributes.type);
  *device = attributes.device;
  return status;
}

template <class Handle> Handle handle_of(const IpcHandle* handle) {
  Handle out;
  std::memcpy(&out, handle->bytes, sizeof out);
  return out;
}

constexpr CudaApi kApi{
    .abi = kCudaApiAbi,
    .bytes = sizeof(CudaApi),
    .error_text = [](int status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); },
    .device_count = [](int* count) { return done(cudaGetDeviceCount(count)); },
    .device_facts = device_facts,
    .set_device = [](int device) { return done(cudaSetDevice(device)); },
    .current_device = [](int* device) { return done(cudaGetDevice(device)); },
    .allocate = [](void** pointer, std::size_t bytes) { return done(cudaMalloc(pointer, bytes)); },
    .release = [](void* pointer) { return done(cudaFree(pointer)); },
    .host_allocate = [](void** pointer, std::size_t bytes) { return done(cudaMallocHost(pointer, bytes)); },
    .host_release = [](void* pointer) { return done(cudaFreeHost(pointer)); },
    .copy = [](void* to, const void* from, std::size_t bytes,
               void* stream) { return done(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream))); },
    .memory_kind = memory_kind,
    .stream_create =
        [](void** stream) {
          return done(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking));
        },
    .stream_destroy = [](void* stream) { return done(cudaStreamDestroy(stream_of(stream))); },
    .stream_wait_event = [](void* stream,
                            void* event) { return done(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0)); },
    .event_create =
        [](void** event, int interprocess) {
          const unsigned flags =
              cudaEventDisableTiming | (interprocess != 0 ? static_cast<unsigned>(cudaEventInterprocess) : 0u);
          return done(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), flags));
        },
    .event_destroy = [](void* event) { return done(cudaEventDestroy(event_of(event))); },
    .event_record = [](void* event, void* stream) { return done(cudaEventRecord(event_of(event), stream_of(stream))); },
    .event_query = [](void* event) { return done(cudaEventQuery(event_of(event))); },
    .ipc_memory_handle =
        [](IpcHandle* handle, void* pointer) {
          return done(cudaIpcGetMemHandle(reinterpret_cast<cudaIpcMemHandle_t*>(handle), pointer));
        },
    .ipc_open_memory =
        [](void** pointer, const IpcHandle* handle) {
          return done(
              cudaIpcOpenMemHandle(pointer, handle_of<cudaIpcMemHandle_t>(handle), cudaIpcMemLazyEnablePeerAccess));
        },
    .ipc_close_memory = [](void* pointer) { return done(cudaIpcCloseMemHandle(pointer)); },
    .ipc_event_handle =
        [](IpcHandle* handle, void* event) {
          return done(cudaIpcGetEventHandle(reinterpret_cast<cudaIpcEventHandle_t*>(handle), event_of(event)));
        },
    .ipc_open_event =
        [](void** event, const IpcHandle* handle) {
          return done(
              cudaIpcOpenEventHandle(reinterpret_cast<cudaEvent_t*>(event), handle_of<cudaIpcEventHandle_t>(handle)));
        },
    .ordered_stream_create =
        [](void** stream) {
          return done(cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamDefault));
        },
};

}  // namespace
}  // namespace troupe::collective

extern "C" __attribute__((visibility("default"))) const troupe::collective::CudaApi* troupe_cuda_api(
    std::uint32_t abi) {
  return abi == troupe::collective::kCudaApiAbi ? &troupe::collective::kApi : nullptr;
}
