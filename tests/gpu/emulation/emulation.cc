// The scheduler of the emulation's threads, and its runtime calls. Threads are coroutines, kept between launches:
// entered once by a ucontext, from then on by _longjmp, which unlike swapcontext makes no system call.
#undef _FORTIFY_SOURCE  // its longjmp refuses to jump into another stack
#include "tests/gpu/emulation/cuda_runtime.h"

#include <setjmp.h>
#include <ucontext.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/cuda/entries.h"

namespace emulation {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;  // fragments of lane 0 live here
enum class State { kRuns, kAtBlock, kAtWarp, kEnded };

struct Thread {
  jmp_buf place;  // where it goes on
  bool begun = false;
  std::unique_ptr<char[]> stack;
  State state = State::kEnded;
};

struct Machine {
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Slots> slots;
  jmp_buf scheduler;
  Thread* running = nullptr;
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
};
Machine& machine() {
  static Machine only;
  return only;
}

void leave(Machine& m) {
  if (_setjmp(m.running->place) == 0) _longjmp(m.scheduler, 1);
}

// A coroutine: one thread of the block in hand after the other.
void enter() {
  Machine& m = machine();
  for (;;) {
    m.function(m.argument);
    m.running->state = State::kEnded;
    leave(m);
  }
}

void begin(Thread& t) {
  t.begun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = t.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, &enter, 0);
  setcontext(&context);
}

void resume(Machine& m, unsigned index) {
  threadIdx = dim3(index, 0, 0);
  m.running = m.threads[index].get();
  if (_setjmp(m.scheduler) != 0) return;
  if (m.running->begun) _longjmp(m.running->place, 1);
  begin(*m.running);
}

// Opens the barrier when every thread in [begin, end) that has not ended is at it.
bool open_barrier(Machine& m, unsigned begin, unsigned end, State barrier) {
  bool any = false;
  for (unsigned i = begin; i < end; ++i) {
    const State state = m.threads[i]->state;
    if (state != barrier && state != State::kEnded) return false;
    any |= state == barrier;
  }
  for (unsigned i = begin; i < end; ++i)
    if (m.threads[i]->state == barrier) m.threads[i]->state = State::kRuns;
  return any;
}

void run_block(Machine& m, unsigned count) {
  for (unsigned i = 0; i < count; ++i) m.threads[i]->state = State::kRuns;
  for (;;) {
    bool moved = false, alive = false;
    for (unsigned i = 0; i < count; ++i) {
      if (m.threads[i]->state == State::kRuns) {
        resume(m, i);
        moved = true;
      }
      alive |= m.threads[i]->state != State::kEnded;
    }
    if (!alive) return;
    for (unsigned warp = 0; warp < count; warp += 32)
      moved |= open_barrier(m, warp, std::min(warp + 32, count), State::kAtWarp);
    moved |= open_barrier(m, 0, count, State::kAtBlock);
    if (!moved) {
      std::fputs("threads of a block wait for each other at different barriers\n", stderr);
      std::abort();
    }
  }
}

}  // namespace

void wait(Barrier barrier) {
  Machine& m = machine();
  const dim3 self = threadIdx;
  m.running->state = barrier == Barrier::kBlock ? State::kAtBlock : State::kAtWarp;
  leave(m);
  threadIdx = self;
}

Slots& warp_slots() { return machine().slots[threadIdx.x / 32]; }

void run(dim3 grid, dim3 block, void (*thread)(void*), void* argument) {
  Machine& m = machine();
  const unsigned count = block.x;
  while (m.threads.size() < count) {
    m.threads.push_back(std::make_unique<Thread>());
    m.threads.back()->stack = std::make_unique<char[]>(kStackBytes);
  }
  m.slots.resize(32);
  m.function = thread;
  m.argument = argument;
  blockDim = block;
  gridDim = grid;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      blockIdx = dim3(x, y, 0);
      run_block(m, count);
    }
  }
}

}  // namespace emulation

namespace {
double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
}  // namespace

const char* cudaGetErrorString(cudaError_t status) { return status == 0 ? "no error" : "error of the emulation"; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"the emulation of a GPU on the CPU", 0, 0, 1, 0};
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = 0, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  *pointer = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
  std::memset(*pointer, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) { return std::free(pointer), cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t) {
  return std::memset(to, byte, bytes), cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new double{0}, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete static_cast<double*>(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return *static_cast<double*>(event) = now_ms(), cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds = static_cast<float>(*static_cast<double*>(end) - *static_cast<double*>(start));
  return cudaSuccess;
}

// The emulation has no cuBLASLt: products are our own.
namespace troupe::kernels::cuda {
bool cublaslt_is_open() { return false; }
int cublaslt_matmul(Call, const MatmulArguments*) { return kNotSupported; }
int open_cublaslt(const char*, char* message, std::size_t message_bytes) {
  std::snprintf(message, message_bytes, "none in the emulation");
  return kNotSupported;
}
}  // namespace troupe::kernels::cuda
