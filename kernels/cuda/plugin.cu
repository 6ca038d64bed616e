// The table (plugin.h), and the calls of the CUDA runtime that programs without the toolkit need.
#include <cstdio>

#include "kernels/cuda/common.cuh"

namespace troupe::kernels::cuda {
namespace {

const char* error_text(int status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); }

int device_count(int* count) {
  const cudaError_t status = cudaGetDeviceCount(count);
  if (status == cudaSuccess) return 0;
  *count = 0;
  (void)cudaGetLastError();  // no driver is no error here
  return status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ? 0 : static_cast<int>(status);
}

int device_facts(int device, DeviceFacts* facts) {
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, device); status != cudaSuccess)
    return static_cast<int>(status);
  *facts = {};
  std::snprintf(facts->name, sizeof(facts->name), "%.127s", properties.name);
  facts->major = properties.major;
  facts->minor = properties.minor;
  facts->multiprocessors = properties.multiProcessorCount;
  facts->memory_bytes = properties.totalGlobalMem;
  const cudaError_t status = cudaDriverGetVersion(&facts->driver_version);
  return static_cast<int>(status != cudaSuccess ? status : cudaRuntimeGetVersion(&facts->runtime_version));
}

cudaStream_t stream_of(Call call) { return static_cast<cudaStream_t>(call.stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

int set_device(int device) { return static_cast<int>(cudaSetDevice(device)); }
int allocate(void** pointer, std::size_t bytes) { return static_cast<int>(cudaMalloc(pointer, bytes)); }
int release(void* pointer) { return static_cast<int>(cudaFree(pointer)); }
int copy(Call call, void* to, const void* from, std::size_t bytes) {
  return static_cast<int>(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(call)));
}
int fill(Call call, void* to, int byte, std::size_t bytes) {
  return static_cast<int>(cudaMemsetAsync(to, byte, bytes, stream_of(call)));
}
int synchronize(Call call) { return static_cast<int>(cudaStreamSynchronize(stream_of(call))); }
int event_create(void** event) { return static_cast<int>(cudaEventCreate(reinterpret_cast<cudaEvent_t*>(event))); }
int event_destroy(void* event) { return static_cast<int>(cudaEventDestroy(event_of(event))); }
int event_record(Call call, void* event) { return static_cast<int>(cudaEventRecord(event_of(event), stream_of(call))); }
int event_milliseconds(void* start, void* end, float* milliseconds) {
  const cudaError_t status = cudaEventSynchronize(event_of(end));
  return static_cast<int>(status != cudaSuccess ? status
                                                : cudaEventElapsedTime(milliseconds, event_of(start), event_of(end)));
}

constexpr Table kTable{
    .abi = kPluginAbi,
    .bytes = sizeof(Table),
    .error_text = error_text,
    .device_count = device_count,
    .device_facts = device_facts,
    .set_device = set_device,
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .fill = fill,
    .synchronize = synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_milliseconds = event_milliseconds,
    .copy_kernel = copy_kernel,
    .cast = cast,
    .reduce = reduce,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .layernorm_forward = layernorm_forward,
    .layernorm_backward = layernorm_backward,
    .rmsnorm_forward = rmsnorm_forward,
    .rmsnorm_backward = rmsnorm_backward,
    .softmax_forward = softmax_forward,
    .softmax_backward = softmax_backward,
    .bias_forward = bias_forward,
    .bias_backward = bias_backward,
    .cross_entropy = cross_entropy,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .adamw = adamw,
    .global_norm = global_norm,
    .gae = gae,
    .vtrace = vtrace,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_bf16_forward = attention_bf16_forward,
    .attention_bf16_backward = attention_bf16_backward,
    .matmul = matmul,
    .open_cublaslt = open_cublaslt,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .patches_forward = patches_forward,
    .patches_backward = patches_backward,
};

}  // namespace
}  // namespace troupe::kernels::cuda

extern "C" __attribute__((visibility("default"))) const troupe::kernels::cuda::Table* troupe_cuda_table(
    std::uint32_t abi) {
  return abi == troupe::kernels::cuda::kPluginAbi ? &troupe::kernels::cuda::kTable : nullptr;
}
