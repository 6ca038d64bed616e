// Matrix products by cuBLASLt, opened by name: the plug-in neither links it nor needs it.
//
// Row-major C = A B is column-major C' = B' A', where a row-major matrix is the column-major one of its transpose: so
// the factors change places, and each keeps its own "transposed". The bias is a row of ours, which is one value for
// each row of C' there: cuBLASLt's bias epilogue.
//
// KCL-1  Opened once in a process, under a lock, and never closed. Until then every product is our own.
// KCL-2  Handle, plans and workspace are those of one device and one stream: products of two GPUs, or of two streams of
//        one, share
//       nothing. One plan for each shape, type and layout, kept (the workspace's size is part of the choice of
//       algorithm).
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/cuda/entries.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

struct Library {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

struct Plan {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool usable = false;
};
using Key = std::array<std::uint64_t, 11>;

// What a stream of a device has of its own (KCL-2).
struct Lane {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  std::map<Key, Plan> plans;
};

// The one thing that must be one for a process: the library itself is.
struct State {
  std::mutex mutex;
  std::atomic<bool> open{false};
  Library library;
  std::map<std::pair<int, void*>, Lane> lanes;  // by device and stream
};
State& state() {
  static State* only = new State;  // never destroyed: CUDA's own teardown comes first
  return *only;
}

template <class F>
bool find(void* from, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(from, name));
  return function != nullptr;
}

const char* load(void* from, Library& lib) {
  if (!find(from, "cublasLtCreate", lib.create)) return "cublasLtCreate";
  if (!find(from, "cublasLtDestroy", lib.destroy)) return "cublasLtDestroy";
  if (!find(from, "cublasLtGetVersion", lib.version)) return "cublasLtGetVersion";
  if (!find(from, "cublasLtMatmulDescCreate", lib.desc_create)) return "cublasLtMatmulDescCreate";
  if (!find(from, "cublasLtMatmulDescSetAttribute", lib.desc_set)) return "cublasLtMatmulDescSetAttribute";
  if (!find(from, "cublasLtMatrixLayoutCreate", lib.layout_create)) return "cublasLtMatrixLayoutCreate";
  if (!find(from, "cublasLtMatmulPreferenceCreate", lib.preference_create)) return "cublasLtMatmulPreferenceCreate";
  if (!find(from, "cublasLtMatmulPreferenceSetAttribute", lib.preference_set))
    return "cublasLtMatmulPreferenceSetAttribute";
  if (!find(from, "cublasLtMatmulPreferenceDestroy", lib.preference_destroy)) return "cublasLtMatmulPreferenceDestroy";
  if (!find(from, "cublasLtMatmulAlgoGetHeuristic", lib.heuristic)) return "cublasLtMatmulAlgoGetHeuristic";
  if (!find(from, "cublasLtMatmul", lib.matmul)) return "cublasLtMatmul";
  return nullptr;
}

// The low bits of an address say how wide a load may be: part of the key, because an algorithm may rely on them.
std::uint64_t alignment_of(const void* p) {
  const auto bits = reinterpret_cast<std::uintptr_t>(p);
  return bits == 0 ? 256 : std::uint64_t{1} << (__builtin_ctzll(bits) < 8 ? __builtin_ctzll(bits) : 8);
}

Plan make_plan(const Library& lib, cublasLtHandle_t handle, const MatmulArguments& a) {
  Plan plan;
  const cudaDataType_t type = a.type == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
  const cublasOperation_t op_b = a.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_a = a.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  bool good = lib.desc_create(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
  const auto set = [&](cublasLtMatmulDescAttributes_t which, const auto& value) {
    good = good && lib.desc_set(plan.desc, which, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, op_b);
  set(CUBLASLT_MATMUL_DESC_TRANSB, op_a);
  if (a.bias != nullptr) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, a.bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
  }
  const auto layout = [&](cublasLtMatrixLayout_t* to, std::uint64_t rows, std::uint64_t columns, std::size_t stride) {
    good =
        good && lib.layout_create(to, type, rows, columns, static_cast<std::int64_t>(stride)) == CUBLAS_STATUS_SUCCESS;
  };
  layout(&plan.b, a.b_transposed ? a.k : a.n, a.b_transposed ? a.n : a.k, a.b_stride);
  layout(&plan.a, a.a_transposed ? a.m : a.k, a.a_transposed ? a.k : a.m, a.a_stride);
  layout(&plan.c, a.n, a.m, a.c_stride);
  cublasLtMatmulPreference_t preference = nullptr;
  if (!good || lib.preference_create(&preference) != CUBLAS_STATUS_SUCCESS) return plan;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    good = good && lib.preference_set(preference, which, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignment_of(a.b)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignment_of(a.a)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(alignment_of(a.c)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignment_of(a.c)));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  plan.usable = good &&
                lib.heuristic(handle, plan.desc, plan.b, plan.a, plan.c, plan.c, preference, 1, &found, &count) ==
                    CUBLAS_STATUS_SUCCESS &&
                count == 1;
  plan.algorithm = found.algo;
  lib.preference_destroy(preference);
  return plan;
}

// Of the calling thread's device. Null: there is no memory for its workspace, or no handle.
Lane* lane_of(State& s, void* stream) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return nullptr;
  const auto found = s.lanes.find({device, stream});
  if (found != s.lanes.end()) return &found->second;
  Lane lane;
  if (s.library.create(&lane.handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
  if (cudaMalloc(&lane.workspace, kWorkspaceBytes) != cudaSuccess) {
    (void)cudaGetLastError();
    (void)s.library.destroy(lane.handle);
    return nullptr;
  }
  return &s.lanes.emplace(std::pair(device, stream), std::move(lane)).first->second;
}

}  // namespace

bool cublaslt_is_open() { return state().open.load(std::memory_order_acquire); }

int cublaslt_matmul(Call call, const MatmulArguments* a) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto flags = static_cast<std::uint64_t>(a->a_transposed) | static_cast<std::uint64_t>(a->b_transposed) << 1 |
                     static_cast<std::uint64_t>(a->bias != nullptr) << 2 | static_cast<std::uint64_t>(a->type) << 3;
  const Key key{a->m, a->n, a->k, a->a_stride, a->b_stride, a->c_stride, flags, alignment_of(a->a), alignment_of(a->b),
                alignment_of(a->c), alignment_of(a->bias)};
  Lane* const lane = lane_of(s, call.stream);
  if (lane == nullptr) return kNotSupported;
  auto found = lane->plans.find(key);
  if (found == lane->plans.end()) found = lane->plans.emplace(key, make_plan(s.library, lane->handle, *a)).first;
  const Plan& plan = found->second;
  if (!plan.usable) return kNotSupported;
  if (a->bias != nullptr && s.library.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a->bias,
                                               sizeof(a->bias)) != CUBLAS_STATUS_SUCCESS)
    return kNotSupported;
  const float alpha = 1, beta = a->accumulate ? 1.0f : 0.0f;
  const cublasStatus_t status =
      s.library.matmul(lane->handle, plan.desc, &alpha, a->b, plan.b, a->a, plan.a, &beta, a->c, plan.c, a->c, plan.c,
                       &plan.algorithm, lane->workspace, kWorkspaceBytes, static_cast<cudaStream_t>(call.stream));
  if (status == CUBLAS_STATUS_SUCCESS) return 0;
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? kNotSupported : static_cast<int>(cudaErrorUnknown);
}

int open_cublaslt(const char* path, char* message, std::size_t message_bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto say = [&](const std::string& text) { std::snprintf(message, message_bytes, "%s", text.c_str()); };
  if (s.open.load()) {
    say("cuBLASLt " + std::to_string(s.library.version()) + " (open already)");
    return 0;
  }
  void* opened = nullptr;
  std::string name, why;
  for (const char* candidate : {path, "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    if (candidate == nullptr || *candidate == '\0') continue;
    name = candidate;
    opened = dlopen(candidate, RTLD_NOW | RTLD_LOCAL);
    if (opened != nullptr) break;
    const char* reason = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : candidate);
    if (candidate == path) break;  // a library that was named is the one that is wanted
  }
  if (opened == nullptr) {
    say(why);
    return kNotSupported;
  }
  Library lib;
  if (const char* missing = load(opened, lib); missing != nullptr) {
    say(name + " has no " + missing);
    return kNotSupported;
  }
  s.library = lib;
  if (lane_of(s, nullptr) == nullptr) {
    say(name + ": cublasLtCreate failed, or no memory for its workspace");
    return kNotSupported;
  }
  s.open.store(true, std::memory_order_release);
  say("cuBLASLt " + std::to_string(lib.version()) + " (" + name + ")");
  return 0;
}

}  // namespace troupe::kernels::cuda
