// A two-layer tanh perceptron: y = W2 tanh(W1 tanh(W0 x + b0) + b1) + b2, forward and backward, in batches.
//
// Weights are [out][in]; the parameters of one network lie in one flat array in the order W0 b0 W1 b1 W2 b2, so that
// an optimizer, a broadcast or a checkpoint sees one span. Gradients have the same layout.
//
// Pure: no state but the caller's tape. One tape serves one thread at a time; different tapes are independent.
//
// KM-1  Activations are kept in panels of kPanel samples, feature-major inside a panel: element (sample b, feature f)
//       is at ((b / kPanel) * features + f) * kPanel + b % kPanel. A panel is one AVX-512 or two AVX2 registers a
//       feature.
// KM-2  Samples that only fill up the last panel have x = 0 and dy = 0, so they add nothing to any gradient.
// KM-3  mlp_backward needs the tape of the mlp_forward just before it, with the same parameters and batch.
// KM-4  Results depend on the instruction set and the batch, not on the thread or on earlier contents of the tape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

inline constexpr std::size_t kPanel = 16;

struct MlpShape {
  std::size_t inputs = 0;
  std::size_t hidden1 = 0;
  std::size_t hidden2 = 0;
  std::size_t outputs = 0;

  [[nodiscard]] constexpr std::size_t w0() const { return 0; }
  [[nodiscard]] constexpr std::size_t b0() const { return hidden1 * inputs; }
  [[nodiscard]] constexpr std::size_t w1() const { return b0() + hidden1; }
  [[nodiscard]] constexpr std::size_t b1() const { return w1() + hidden2 * hidden1; }
  [[nodiscard]] constexpr std::size_t w2() const { return b1() + hidden2; }
  [[nodiscard]] constexpr std::size_t b2() const { return w2() + outputs * hidden2; }
  [[nodiscard]] constexpr std::size_t parameter_count() const { return b2() + outputs; }

  friend bool operator==(const MlpShape&, const MlpShape&) = default;
};

/// What the versions of the kernel work on: panels (KM-1) of every layer, all 64-byte aligned.
template <class T>
struct MlpPanels {
  std::size_t panels = 0;
  T* x = nullptr;   // [panels][inputs][kPanel]
  T* h1 = nullptr;  // after tanh
  T* h2 = nullptr;
  T* y = nullptr;
  T* dy = nullptr;  // loss gradients with respect to y and the two pre-activations
  T* d2 = nullptr;
  T* d1 = nullptr;
};

/// The activations that backward needs. Grows to the largest batch seen; reuse it to avoid allocation.
template <class T>
class MlpTape {
 public:
  explicit MlpTape(const MlpShape& shape) : shape_(shape) {}
  MlpTape(const MlpTape&) = delete;
  MlpTape& operator=(const MlpTape&) = delete;
  MlpTape(MlpTape&&) noexcept = default;
  MlpTape& operator=(MlpTape&&) noexcept = default;

  /// Makes room for the batch and returns its panels.
  const MlpPanels<T>& prepare(std::size_t batch);

  [[nodiscard]] const MlpShape& shape() const { return shape_; }
  [[nodiscard]] const MlpPanels<T>& panels() const { return view_; }
  [[nodiscard]] std::size_t batch() const { return batch_; }

 private:
  MlpShape shape_;
  std::size_t batch_ = 0;
  std::size_t capacity_panels_ = 0;
  std::vector<T> storage_;
  MlpPanels<T> view_;
};

/// y[batch][outputs] for x[batch][inputs], both row-major; the batch is x.size() / inputs. Fills the tape.
/// T is float or double; double always runs the reference. An unsupported set runs the best one below it.
template <class T>
void mlp_forward(Isa isa, std::span<const T> params, std::span<const T> x, MlpTape<T>& tape, std::span<T> y);

/// Writes (does not add) into grads the gradients of a loss whose derivative with respect to y is dy[batch][outputs].
template <class T>
void mlp_backward(Isa isa, std::span<const T> params, std::span<const T> dy, MlpTape<T>& tape, std::span<T> grads);

namespace detail {

/// One version of the kernel; the reference exists for float and double, the others for float.
template <class T>
struct MlpVersion {
  void (*forward)(const MlpShape&, const T* params, const MlpPanels<T>&);
  void (*backward)(const MlpShape&, const T* params, const MlpPanels<T>&, T* grads);
};

template <class T>
const MlpVersion<T>& mlp_reference();
const MlpVersion<float>* mlp_avx2();  // null where it was not built
const MlpVersion<float>* mlp_avx512();

}  // namespace detail
}  // namespace troupe::kernels
