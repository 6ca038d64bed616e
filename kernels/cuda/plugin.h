// The table of libtroupe_cuda.so: every CUDA kernel, and the few calls by which a program without the toolkit holds
// device memory. Whoever wants kernels opens the library by name and asks for the table; nothing links CUDA.
//
// Plain C++ without CUDA's headers: the table is filled by the plug-in, or by the same sources compiled for the CPU
// (tests/gpu/emulation), and read by programs built where no toolkit is.
//
// Every function may be called from any thread. Kernels are enqueued on call.stream and return at once; pointers are
// device memory unless a comment says host. Shapes, layouts and formulas are those of kernels/*.h, whose letters are
// used here.
//
// CK-1  The result is 0 or a cudaError_t (text: error_text). Bad sizes give kInvalidValue; nothing is enqueued then.
// CK-2  call.version 0 is the best that fits the arguments; 1 is the plain one; a version that is not there, or that
//       does not fit alignment or shape, runs the best one below it.
// CK-3  Entries are added at the end, with a new kPluginAbi when one changes its meaning.
// CK-4  Sums are taken in an order that depends on shape and version only, except embedding_backward from version 2 on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/activation/activation.h"
#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/reduce/reduce.h"

namespace troupe::kernels::cuda {

inline constexpr std::uint32_t kPluginAbi = 1;
inline constexpr int kInvalidValue = 1;           ///< cudaErrorInvalidValue
inline constexpr int kNotSupported = 801;         ///< cudaErrorNotSupported
inline constexpr int kReduceInputsMax = 16;       ///< pointers of one reduce, passed by value
inline constexpr std::size_t kNarrowHead = 64;    ///< widest head of the bfloat16 attention

struct Call {
  void* stream = nullptr;  ///< cudaStream_t; null: the default stream
  int version = 0;         ///< CK-2
};

struct DeviceFacts {
  char name[128];
  int major, minor, multiprocessors, driver_version, runtime_version;
  std::uint64_t memory_bytes;
};

struct ReduceArguments {
  void* out;
  const void* inputs[kReduceInputsMax];
  int input_count;
  std::size_t count;
  DType type;
  ReduceOp op;
  double scale;  ///< kPreMulSum
  int ranks;     ///< kAvg
};

struct AdamwTensor {
  float* params;        ///< master weights
  const float* grads;
  float* first_moment;
  float* second_moment;
  void* working_copy;   ///< bfloat16 of the new params; null: not wanted
  std::uint64_t count;
  std::uint32_t decayed;
};
struct AdamwArguments {
  const AdamwTensor* tensors;  ///< host array
  std::size_t tensor_count;
  std::int64_t step;           ///< from 1
  double learning_rate, beta1, beta2, epsilon, weight_decay, grad_scale;
  const double* device_scale;  ///< multiplied to grad_scale, read on the device (clip without a wait); may be null
};

struct MatmulArguments {
  std::size_t m, n, k;
  const void *a, *b;
  std::size_t a_stride, b_stride;
  bool a_transposed, b_transposed;
  void* c;
  std::size_t c_stride;
  bool accumulate;
  const void* bias;  ///< [n]; may be null
  DType type;        ///< kF32 or kBF16, of all four; sums are float
};

/// Of the images of a convolution without padding, as kernels/cpu/conv: a patch is a row [kernel][kernel][channels].
struct PatchArguments {
  std::size_t batch, height, width, channels, kernel, stride;
  const float* in;  ///< images [batch][height][width][channels]; backward: the slopes of all patches
  float* out;       ///< patches [batch][out_height][out_width][patch]; backward: the slopes of the images, written
};

struct AttentionArguments {
  std::size_t batch, time, heads, channels;
  const void* qkv;   ///< float or bfloat16 as the entry says, like out, dout and dqkv
  void* out;         ///< backward reads it
  float* lse;        ///< [batch][heads][time]
  const void* dout;  ///< backward only, like the next two
  void* dqkv;
  float* delta;      ///< scratch, [batch][heads][time]
};

struct GaeArguments {
  std::size_t steps, envs;
  const float *reward, *value, *final_value;
  const std::uint8_t *terminated, *truncated;
  const float* last_value;
  float *advantage, *returns;
  double gamma, lambda;
};
struct VtraceArguments {
  std::size_t steps, envs;
  const float *behaviour_log_prob, *target_log_prob, *discount, *reward, *value, *bootstrap_value;
  float *vs, *pg_advantage;
  double rho_bar, c_bar, pg_rho_bar, lambda;
};

struct CrossEntropyArguments {
  std::size_t rows, columns;
  const float* logits;
  const std::int32_t* targets;
  float* row_loss;  ///< [rows]
  float* dlogits;   ///< in place of the logits allowed; null: not wanted
  double divisor;   ///< 0: the counted rows
  double* result;   ///< [2]: loss_sum and counted
};

struct Table {
  std::uint32_t abi, bytes;  ///< kPluginAbi and sizeof(Table)

  // Device. `to` and `from` may each be device or host memory.
  const char* (*error_text)(int status);
  int (*device_count)(int* count);  ///< also 0 devices when no driver is there
  int (*device_facts)(int device, DeviceFacts* facts);
  int (*set_device)(int device);
  int (*allocate)(void** pointer, std::size_t bytes);
  int (*release)(void* pointer);
  int (*copy)(Call call, void* to, const void* from, std::size_t bytes);
  int (*fill)(Call call, void* to, int byte, std::size_t bytes);
  int (*synchronize)(Call call);
  int (*event_create)(void** event);
  int (*event_destroy)(void* event);
  int (*event_record)(Call call, void* event);
  int (*event_milliseconds)(void* start, void* end, float* milliseconds);  ///< waits for end

  // Elements.
  int (*copy_kernel)(Call call, void* out, const void* in, std::size_t bytes);
  int (*cast)(Call call, void* out, DType to, const void* in, DType from, std::size_t count);
  int (*reduce)(Call call, const ReduceArguments* arguments);
  int (*gelu_forward)(Call call, std::size_t count, const float* x, float* y);
  int (*gelu_backward)(Call call, std::size_t count, const float* x, const float* dy, float* dx);

  // Rows.
  int (*layernorm_forward)(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w,
                           const float* b, float* y, float* mean, float* rstd, float epsilon);
  int (*layernorm_backward)(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w,
                            const float* mean, const float* rstd, const float* dy, float* dx, float* dw, float* db);
  int (*rmsnorm_forward)(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w, float* y,
                         float* rstd, float epsilon);
  int (*rmsnorm_backward)(Call call, std::size_t rows, std::size_t columns, const float* x, const float* w,
                          const float* rstd, const float* dy, float* dx, float* dw);
  /// causal: rows are squares [blocks][columns][columns], mask is null then.
  int (*softmax_forward)(Call call, std::size_t rows, std::size_t columns, const float* x, const std::uint8_t* mask,
                         bool causal, float* y);
  int (*softmax_backward)(Call call, std::size_t rows, std::size_t columns, const float* y, const float* dy, float* dx);
  int (*bias_forward)(Call call, std::size_t rows, std::size_t columns, const float* b, float* y);  ///< y += b
  int (*bias_backward)(Call call, std::size_t rows, std::size_t columns, const float* dy, float* db);
  int (*cross_entropy)(Call call, const CrossEntropyArguments* arguments);
  int (*embedding_forward)(Call call, std::size_t batch, std::size_t time, std::size_t channels,
                           const std::int32_t* tokens, const float* wte, const float* wpe, float* y);
  int (*embedding_backward)(Call call, std::size_t batch, std::size_t time, std::size_t channels,
                            const std::int32_t* tokens, const float* dy, float* dwte, float* dwpe);

  // Optimizer.
  int (*adamw)(Call call, const AdamwArguments* arguments);
  /// block_sums: one double for each 4,096 elements. result[0] = norm, result[1] = min(1, max_norm / (norm + 1e-6)).
  int (*global_norm)(Call call, const float* values, std::size_t count, double max_norm, double* block_sums,
                     double* result);

  // Scans.
  int (*gae)(Call call, const GaeArguments* arguments);
  int (*vtrace)(Call call, const VtraceArguments* arguments);

  // Attention: float, then bfloat16 on tensor cores (heads of at most kNarrowHead channels).
  int (*attention_forward)(Call call, const AttentionArguments* arguments);
  int (*attention_backward)(Call call, const AttentionArguments* arguments);
  int (*attention_bf16_forward)(Call call, const AttentionArguments* arguments);
  int (*attention_bf16_backward)(Call call, const AttentionArguments* arguments);

  // Matrix products: 1 plain, 2 tiled, 3 cuBLASLt once it is open.
  int (*matmul)(Call call, const MatmulArguments* arguments);
  /// Opens cuBLASLt: at the path (host), or by the loader when it is null. The message says the version, or what
  /// failed.
  int (*open_cublaslt)(const char* path, char* message, std::size_t message_bytes);

  // Activations, as kernels/cpu/activation (ACT-1, ACT-2): backward needs y only.
  int (*activation_forward)(Call call, Activation activation, std::size_t count, const float* x, float* y);
  int (*activation_backward)(Call call, Activation activation, std::size_t count, const float* y, const float* dy,
                             float* dx);

  // Convolutions are products of patches and filters.
  int (*patches_forward)(Call call, const PatchArguments* arguments);
  int (*patches_backward)(Call call, const PatchArguments* arguments);
};

/// The function that gives the table (plugin_file.h): const Table* (std::uint32_t abi), null for an abi that this
/// plug-in does not have.
inline constexpr const char* kTableSymbol = "troupe_cuda_table";

}  // namespace troupe::kernels::cuda
