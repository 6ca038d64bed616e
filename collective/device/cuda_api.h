// CudaApi: the calls of the CUDA runtime that collectives and device arrays need, as a table. The plug-in
// libtroupe_cuda.so fills it (cuda/runtime.cc); tests fill it with memory of the CPU (tests/collective/fake_cuda.h). No
// header of CUDA is needed here; where they are, the plug-in asserts that every number below is CUDA's own.
//
// Results are 0 or a cudaError_t. Streams and events are cudaStream_t and cudaEvent_t as void*; a null stream is CUDA's
// default one.
//
// Invariants
//   CA-1  Entries are added at the end; kCudaApiAbi changes when one changes its meaning.
//   CA-2  Nothing here waits for a device, except release and ipc_close_memory (CUDA waits for all work of the device
//         there).
// Thread rule: any thread; the device that calls refer to is a property of the calling thread (set_device).
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::collective {

inline constexpr std::uint32_t kCudaApiAbi = 2;  // 2: ordered_stream_create, which every user needs
inline constexpr int kCudaInvalidValue = 1, kCudaOutOfMemory = 2, kCudaInsufficientDriver = 35, kCudaNoDevice = 100,
                     kCudaNotReady = 600, kCudaNotSupported = 801;

/// cudaMemoryType.
enum class CudaMemory : int { kUnregistered = 0, kHost = 1, kDevice = 2, kManaged = 3 };

/// cudaIpcMemHandle_t and cudaIpcEventHandle_t.
struct IpcHandle {
  char bytes[64];
};

struct GpuFacts {
  char name[128];
  unsigned char uuid[16];
  std::uint64_t memory_bytes;
  int driver_version, runtime_version;  ///< as CUDA counts: 13000
};

struct CudaApi {
  std::uint32_t abi, bytes;  ///< kCudaApiAbi, sizeof(CudaApi)

  const char* (*error_text)(int status);
  int (*device_count)(int* count);  ///< an error where there is no driver or no device
  int (*device_facts)(int device, GpuFacts* facts);
  int (*set_device)(int device);
  int (*current_device)(int* device);

  int (*allocate)(void** pointer, std::size_t bytes);
  int (*release)(void* pointer);
  int (*host_allocate)(void** pointer, std::size_t bytes);  ///< pinned: copies from and to it need no staging
  int (*host_release)(void* pointer);
  int (*copy)(void* to, const void* from, std::size_t bytes, void* stream);  ///< either end on any side
  int (*memory_kind)(const void* pointer, int* kind, int* device);           ///< CudaMemory; plain memory is no error

  int (*stream_create)(void** stream);  ///< without order against the default stream
  int (*stream_destroy)(void* stream);
  int (*stream_wait_event)(void* stream, void* event);
  int (*event_create)(void** event, int interprocess);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event);  ///< kCudaNotReady: what was recorded is not through

  int (*ipc_memory_handle)(IpcHandle* handle, void* pointer);
  int (*ipc_open_memory)(void** pointer, const IpcHandle* handle);
  int (*ipc_close_memory)(void* pointer);
  int (*ipc_event_handle)(IpcHandle* handle, void* event);
  int (*ipc_open_event)(void** event, const IpcHandle* handle);

  /// A stream that is ordered against the default one, both ways: it comes after what was launched there, and before
  /// what will be.
  int (*ordered_stream_create)(void** stream);
};

/// The function that gives the table (kernels/cuda/plugin_file.h): const CudaApi* (std::uint32_t abi), null for an abi
/// that the plug-in does not have.
inline constexpr const char* kCudaApiSymbol = "troupe_cuda_api";

}  // namespace troupe::collective
