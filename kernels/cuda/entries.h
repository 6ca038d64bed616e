// The kernels' entries, one function for each entry of the table (plugin.h, whose contract holds here too). They live
// in the .cu files named below; plugin.cu collects them.
#pragma once

#include "kernels/cuda/plugin.h"

namespace troupe::kernels::cuda {

// elements.cu
int copy_kernel(Call, void* out, const void* in, std::size_t bytes);
int cast(Call, void* out, DType to, const void* in, DType from, std::size_t count);
int reduce(Call, const ReduceArguments*);
int gelu_forward(Call, std::size_t count, const float* x, float* y);
int gelu_backward(Call, std::size_t count, const float* x, const float* dy, float* dx);
int activation_forward(Call, Activation, std::size_t count, const float* x, float* y);
int activation_backward(Call, Activation, std::size_t count, const float* y, const float* dy, float* dx);

// conv.cu
int patches_forward(Call, const PatchArguments*);
int patches_backward(Call, const PatchArguments*);

// norms.cu
int layernorm_forward(Call, std::size_t rows, std::size_t columns, const float* x, const float* w, const float* b,
                      float* y, float* mean, float* rstd, float epsilon);
int layernorm_backward(Call, std::size_t rows, std::size_t columns, const float* x, const float* w, const float* mean,
                       const float* rstd, const float* dy, float* dx, float* dw, float* db);
int rmsnorm_forward(Call, std::size_t rows, std::size_t columns, const float* x, const float* w, float* y, float* rstd,
                    float epsilon);
int rmsnorm_backward(Call, std::size_t rows, std::size_t columns, const float* x, const float* w, const float* rstd,
                     const float* dy, float* dx, float* dw);
int bias_forward(Call, std::size_t rows, std::size_t columns, const float* b, float* y);
int bias_backward(Call, std::size_t rows, std::size_t columns, const float* dy, float* db);

// softmax.cu
int softmax_forward(Call, std::size_t rows, std::size_t columns, const float* x, const std::uint8_t* mask, bool causal,
                    float* y);
int softmax_backward(Call, std::size_t rows, std::size_t columns, const float* y, const float* dy, float* dx);
int cross_entropy(Call, const CrossEntropyArguments*);

// training.cu
int embedding_forward(Call, std::size_t batch, std::size_t time, std::size_t channels, const std::int32_t* tokens,
                      const float* wte, const float* wpe, float* y);
int embedding_backward(Call, std::size_t batch, std::size_t time, std::size_t channels, const std::int32_t* tokens,
                       const float* dy, float* dwte, float* dwpe);
int adamw(Call, const AdamwArguments*);
int global_norm(Call, const float* values, std::size_t count, double max_norm, double* block_sums, double* result);
int gae(Call, const GaeArguments*);
int vtrace(Call, const VtraceArguments*);

// attention.cu and attention_bf16.cu
int attention_forward(Call, const AttentionArguments*);
int attention_backward(Call, const AttentionArguments*);
int attention_bf16_forward(Call, const AttentionArguments*);
int attention_bf16_backward(Call, const AttentionArguments*);

// matmul.cu
int matmul(Call, const MatmulArguments*);

// cublaslt.cc
bool cublaslt_is_open();
int cublaslt_matmul(Call, const MatmulArguments*);
int open_cublaslt(const char* path, char* message, std::size_t message_bytes);

}  // namespace troupe::kernels::cuda
