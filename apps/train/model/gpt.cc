// First memory, then the passes.
#include "apps/train/model/gpt.h"

#include <algorithm>
#include <new>
#include <string>

#include "kernels/cpu/rows/embedding.h"
#include "kernels/cpu/linear/matmul.h"

namespace troupe::train {

using kernels::LinearShape;
using kernels::NormStatistics;

namespace {
// Positions a slice of a block (GP-2).
constexpr std::size_t kSlicePositions = 256;
// Logits held at a time: 256 Ki elements stay in the second-level cache.
constexpr std::size_t kHeadLogits = std::size_t{1} << 18;
constexpr std::size_t kAlign = 64;

// Hands out aligned ranges of one allocation; with no memory yet it only counts.
template <class T>
class Carver {
 public:
  explicit Carver(T* memory) : memory_(memory) {}
  T* take(std::size_t count) {
    T* const out = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count * sizeof(T) + kAlign - 1) / kAlign * (kAlign / sizeof(T));
    return out;
  }
  std::size_t used() const { return used_; }

 private:
  T* memory_;
  std::size_t used_ = 0;
};

// y = x w^T + bias, and + residual where there is one; w is packed as w^T.
template <class T>
void linear(kernels::Isa isa, const LinearShape& s, const T* x, const kernels::PackedFactor<T>& w, const T* bias, T* y,
            const T* residual = nullptr) {
  kernels::matmul<T>(isa, {.m = s.rows, .n = s.out, .k = s.in}, {.data = x, .stride = s.in}, w,
                     {.data = y, .stride = s.out, .bias = bias, .residual = residual});
}

void tell(const FinalFrom& final_from, std::size_t offset) {
  if (final_from) final_from(offset);
}

}  // namespace

template <class T>
void Gpt<T>::Free::operator()(T* p) const { ::operator delete[](p, std::align_val_t{kAlign}); }

template <class T>
Gpt<T>::Gpt(const GptOptions& options, kernels::Isa isa)
    : shape_(options), isa_(isa), streams_(options.layers + 1), tapes_(options.layers) {}

template <class T>
typename Gpt<T>::Slice Gpt<T>::slice(std::size_t index) const {
  const std::size_t first = index * slice_rows_;
  return {.first = first, .rows = std::min(slice_rows_, rows_ - first)};
}

// Sets the sizes of the batch in hand and makes room for it where there is not enough.
template <class T>
void Gpt<T>::prepare(std::size_t rows, std::size_t time) {
  rows_ = rows;
  time_ = time;
  slice_rows_ = std::max<std::size_t>(1, kSlicePositions / time);
  head_positions_ = std::max<std::size_t>(1, kHeadLogits / options().vocab);
  const std::size_t n = rows * options().time, c = options().channels;
  if (n <= capacity_positions_) return;
  const std::size_t slice_positions = std::max(kSlicePositions, options().time);
  const auto carve = [&](T* memory) {
    Carver<T> carver(memory);
    for (T*& stream : streams_) stream = carver.take(n * c);
    for (Tape& t : tapes_) {
      for (T** narrow : {&t.heads, &t.middle}) *narrow = carver.take(n * c);
      t.fc = carver.take(n * 4 * c);
      for (T** one : {&t.mean1, &t.rstd1, &t.mean2, &t.rstd2}) *one = carver.take(n);
      t.qkv = carver.take(n * 3 * c);
      t.lse = carver.take(n * options().heads);
      t.probs = carver.take(n * options().heads * options().time);
    }
    for (T** narrow : {&final_norm_, &dstream_}) *narrow = carver.take(n * c);
    for (T** one : {&final_mean_, &final_rstd_}) *one = carver.take(n);
    logits_ = carver.take(std::min(head_positions_, n) * options().vocab);
    for (T** wide : {&gelu_, &dwide_}) *wide = carver.take(slice_positions * 4 * c);
    dqkv_ = carver.take(slice_positions * 3 * c);
    for (T** narrow : {&norm_, &dnarrow_}) *narrow = carver.take(slice_positions * c);
    return carver.used();
  };
  const std::size_t size = carve(nullptr);
  capacity_positions_ = 0;
  memory_.reset();  // before the new one: the peak is one batch, not two
  memory_.reset(static_cast<T*>(::operator new[](size * sizeof(T), std::align_val_t{kAlign})));
  carve(memory_.get());
  capacity_positions_ = n;
}

template <class T>
std::span<const T> Gpt<T>::stream(std::size_t index) const {
  return {streams_.at(index), positions() * options().channels};
}

template <class T>
void Gpt<T>::forward(const std::int32_t* tokens, const T* parameters) {
  const std::size_t channels = options().channels;
  kernels::embedding_forward<T>({.batch = rows_, .time = time_, .channels = channels}, tokens, parameters,
                                parameters + shape_.wpe(), streams_[0]);
  for (std::size_t layer = 0; layer < options().layers; ++layer) {
    const T* w = block_of(parameters, layer);
    pack(w, Direction::kForward);
    for (std::size_t s = 0; s < slices(); ++s) forward_block(layer, slice(s), w);
  }
  kernels::layernorm_forward<T>(isa_, {positions(), channels}, streams_.back(), parameters + shape_.ln_f(),
                                parameters + shape_.ln_f() + channels, final_norm_, {final_mean_, final_rstd_});
}

// A block's weights, for all of its slices: forward multiplies by their transposes, backward by themselves.
template <class T>
void Gpt<T>::pack(const T* w, Direction direction) {
  const std::size_t c = options().channels;
  const auto one = [&](kernels::PackedFactor<T>& packed, std::size_t weight, std::size_t out, std::size_t in) {
    if (direction == Direction::kForward)
      packed.pack(isa_, in, out, {.data = w + weight, .stride = in, .transposed = true});
    else packed.pack(isa_, out, in, {.data = w + weight, .stride = in});
  };
  one(packed_.qkv, block().qkv_w, 3 * c, c);
  one(packed_.out, block().out_w, c, c);
  one(packed_.fc, block().fc_w, 4 * c, c);
  one(packed_.proj, block().proj_w, c, 4 * c);
}

template <class T>
void Gpt<T>::forward_block(std::size_t layer, Slice slice, const T* w) {
  const std::size_t c = options().channels, first = slice.first * time_, n = slice.rows * time_;
  const Tape& t = tapes_[layer];
  const T* x = streams_[layer] + first * c;
  kernels::layernorm_forward<T>(isa_, {n, c}, x, w + block().ln1_w, w + block().ln1_b, norm_,
                                {t.mean1 + first, t.rstd1 + first});
  T* qkv = t.qkv + first * 3 * c;
  linear<T>(isa_, {n, c, 3 * c}, norm_, packed_.qkv, w + block().qkv_b, qkv);
  T* heads = t.heads + first * c;
  const std::size_t head_rows = first * options().heads;
  kernels::attention_forward<T>(isa_, {.batch = slice.rows, .time = time_, .heads = options().heads, .channels = c},
                                qkv, heads, {.lse = t.lse + head_rows, .probs = t.probs + head_rows * time_},
                                attention_);
  T* middle = t.middle + first * c;
  linear<T>(isa_, {n, c, c}, heads, packed_.out, w + block().out_b, middle, x);
  kernels::layernorm_forward<T>(isa_, {n, c}, middle, w + block().ln2_w, w + block().ln2_b, norm_,
                                {t.mean2 + first, t.rstd2 + first});
  T* fc = t.fc + first * 4 * c;
  linear<T>(isa_, {n, c, 4 * c}, norm_, packed_.fc, w + block().fc_b, fc);
  kernels::gelu_forward<T>(isa_, n * 4 * c, fc, gelu_);
  linear<T>(isa_, {n, 4 * c, c}, gelu_, packed_.proj, w + block().proj_b, streams_[layer + 1] + first * c, middle);
}

// dstream_ comes as the gradient of the block's output and leaves as that of its input.
template <class T>
void Gpt<T>::backward_block(std::size_t layer, Slice slice, const T* w, T* dw, const FinalFrom& final_from) {
  const std::size_t c = options().channels, first = slice.first * time_, n = slice.rows * time_;
  const std::size_t offset = shape_.block_at(layer);
  const Tape& t = tapes_[layer];
  T* d = dstream_ + first * c;
  const NormStatistics<T> norm1{t.mean1 + first, t.rstd1 + first}, norm2{t.mean2 + first, t.rstd2 + first};
  const auto input_gradient = [&](const LinearShape& shape, const kernels::PackedFactor<T>& weight, const T* dy,
                                  T* dx) {
    kernels::matmul<T>(isa_, {.m = shape.rows, .n = shape.in, .k = shape.out}, {.data = dy, .stride = shape.out},
                       weight, {.data = dx, .stride = shape.in});
  };
  const auto weight_gradient = [&](const LinearShape& shape, const T* x, std::size_t weight, std::size_t bias,
                                   const T* dy) {
    kernels::linear_backward<T>(isa_, shape, x, w + weight, dy, {.dw = dw + weight, .dbias = dw + bias});
    tell(final_from, offset + weight);
  };
  const auto norm_back = [&](const T* x, const NormStatistics<T>& statistics, std::size_t weight, std::size_t bias) {
    kernels::layernorm_backward<T>(isa_, {n, c}, x, w + weight, statistics, dnarrow_, d, dw + weight, dw + bias, d);
    tell(final_from, offset + weight);
  };

  const T* middle = t.middle + first * c;
  input_gradient({n, 4 * c, c}, packed_.proj, d, dwide_);
  kernels::gelu_backward_again<T>(isa_, n * 4 * c, t.fc + first * 4 * c, dwide_, dwide_, gelu_);
  weight_gradient({n, 4 * c, c}, gelu_, block().proj_w, block().proj_b, d);
  input_gradient({n, c, 4 * c}, packed_.fc, dwide_, dnarrow_);
  kernels::layernorm_again<T>(isa_, {n, c}, middle, w + block().ln2_w, w + block().ln2_b, norm2, norm_);
  weight_gradient({n, c, 4 * c}, norm_, block().fc_w, block().fc_b, dwide_);
  norm_back(middle, norm2, block().ln2_w, block().ln2_b);

  input_gradient({n, c, c}, packed_.out, d, dnarrow_);
  weight_gradient({n, c, c}, t.heads + first * c, block().out_w, block().out_b, d);
  const std::size_t head_rows = first * options().heads;
  kernels::attention_backward<T>(
      isa_, {.batch = slice.rows, .time = time_, .heads = options().heads, .channels = c}, t.qkv + first * 3 * c,
      {.lse = t.lse + head_rows, .probs = t.probs + head_rows * time_}, dnarrow_, dqkv_, attention_);
  const T* x = streams_[layer] + first * c;
  input_gradient({n, c, 3 * c}, packed_.qkv, dqkv_, dnarrow_);
  kernels::layernorm_again<T>(isa_, {n, c}, x, w + block().ln1_w, w + block().ln1_b, norm1, norm_);
  weight_gradient({n, c, 3 * c}, norm_, block().qkv_w, block().qkv_b, dqkv_);
  norm_back(x, norm1, block().ln1_w, block().ln1_b);
}

// Loss over all positions; with gradients dstream_ is written and the head's share of dwte added.
template <class T>
Loss Gpt<T>::head(const std::int32_t* targets, const T* parameters, T* gradients, double divisor) {
  const std::size_t c = options().channels, vocab = options().vocab;
  Loss loss;
  for (std::size_t first = 0; first < positions(); first += head_positions_) {
    const std::size_t n = std::min(head_positions_, positions() - first);
    const T* x = final_norm_ + first * c;
    kernels::linear_forward<T>(isa_, {n, c, vocab}, x, parameters, nullptr, logits_);
    const auto part =
        kernels::cross_entropy<T>(isa_, {n, vocab}, logits_, targets + first,
                                  {.dlogits = gradients != nullptr ? logits_ : nullptr, .divisor = divisor});
    loss.sum += part.loss_sum;
    loss.counted += part.counted;
    if (gradients == nullptr) continue;
    kernels::linear_backward<T>(isa_, {n, c, vocab}, x, parameters, logits_,
                                {.dx = dstream_ + first * c, .dw = gradients});
  }
  return loss;
}

template <class T>
Loss Gpt<T>::step(const Batch& batch, std::span<const T> parameters, std::span<T> gradients, double divisor,
                  const FinalFrom& final_from) {
  shape_.check_batch(batch, parameters.size());
  shape_.check_gradients(gradients.size(), divisor);
  if (batch.rows == 0) {
    tell(final_from, 0);
    return {};
  }
  prepare(batch.rows, options().time);
  const T* w = parameters.data();
  T* dw = gradients.data();
  const std::size_t c = options().channels;
  forward(batch.tokens.data(), w);
  const Loss loss = head(batch.targets.data(), w, dw, divisor);
  kernels::layernorm_backward<T>(isa_, {positions(), c}, streams_.back(), w + shape_.ln_f(), {final_mean_, final_rstd_},
                                 dstream_, dstream_, dw + shape_.ln_f(), dw + shape_.ln_f() + c);
  tell(final_from, shape_.ln_f());
  for (std::size_t layer = options().layers; layer-- > 0;) {
    pack(block_of(w, layer), Direction::kBackward);
    for (std::size_t s = 0; s < slices(); ++s)
      backward_block(layer, slice(s), block_of(w, layer), block_of(dw, layer),
                     s + 1 == slices() ? final_from : nullptr);
  }
  kernels::embedding_backward<T>({.batch = rows_, .time = time_, .channels = c}, batch.tokens.data(), dstream_, dw,
                                 dw + shape_.wpe());
  tell(final_from, 0);
  return loss;
}

template <class T>
Loss Gpt<T>::evaluate(const Batch& batch, std::span<const T> parameters) {
  shape_.check_batch(batch, parameters.size());
  if (batch.rows == 0) return {};
  prepare(batch.rows, options().time);
  forward(batch.tokens.data(), parameters.data());
  return head(batch.targets.data(), parameters.data(), nullptr, 1);
}

template <class T>
void Gpt<T>::next_logits(std::span<const std::int32_t> tokens, std::span<const T> parameters, std::span<T> logits) {
  shape_.check_parameters(parameters.size());
  shape_.check_tokens(tokens);
  if (tokens.empty() || tokens.size() > options().time || logits.size() != options().vocab)
    throw InvalidArgumentError("next_logits wants 1 to " + std::to_string(options().time) + " tokens and room for " +
                               std::to_string(options().vocab) + " logits");
  prepare(1, tokens.size());
  forward(tokens.data(), parameters.data());
  const T* last = final_norm_ + (tokens.size() - 1) * options().channels;
  kernels::linear_forward<T>(isa_, {1, options().channels, options().vocab}, last, parameters.data(), nullptr,
                             logits.data());
}

template <class T>
void Gpt<T>::logits(std::span<const T> parameters, std::span<T> out) const {
  shape_.check_parameters(parameters.size());
  if (out.size() != positions() * options().vocab) throw InvalidArgumentError("logits wants room for every position");
  kernels::linear_forward<T>(isa_, {positions(), options().channels, options().vocab}, final_norm_, parameters.data(),
                             nullptr, out.data());
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace troupe::train
