// First options, layout, start and memory, then the passes.
#include "apps/train/gpt.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>

#include "apps/train/draws.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"

namespace troupe::train {

using kernels::LinearShape;
using kernels::NormStatistics;

namespace {
constexpr double kDeviation = 0.02;
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

Status check(const GptOptions& o) {
  if (o.vocab == 0 || o.time == 0 || o.channels == 0 || o.layers == 0 || o.heads == 0)
    return InvalidArgumentError("GPT: vocab, time, channels, layers and heads are at least 1");
  if (o.channels % o.heads != 0)
    return InvalidArgumentError("GPT: " + std::to_string(o.heads) + " heads do not divide " + std::to_string(o.channels) +
                                " channels");
  return {};
}

template <class T>
void Gpt<T>::Free::operator()(T* p) const { ::operator delete[](p, std::align_val_t{kAlign}); }

template <class T>
Gpt<T>::Gpt(const GptOptions& options, kernels::Isa isa)
    : options_(options), isa_(isa), streams_(options.layers + 1), tapes_(options.layers) {
  check(options).value();
  make_layout();
}

template <class T>
void Gpt<T>::make_layout() {
  const std::size_t c = options_.channels;
  std::size_t end = 0;
  const auto place = [&](std::string name, std::vector<std::size_t> shape) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    const bool decayed = shape.size() >= 2;
    layout_.push_back({.name = std::move(name), .shape = std::move(shape), .offset = end, .size = size, .decayed = decayed});
    end += size;
    return layout_.back().offset;
  };
  place("wte.weight", {options_.vocab, c});
  place("wpe.weight", {options_.time, c});
  first_block_ = end;
  for (std::size_t layer = 0; layer < options_.layers; ++layer) {
    const std::size_t start = end;
    const auto at = [&](const char* name, std::vector<std::size_t> shape) {
      return place("h." + std::to_string(layer) + "." + name, std::move(shape)) - start;
    };
    block_.ln1_w = at("ln_1.weight", {c});
    block_.ln1_b = at("ln_1.bias", {c});
    block_.qkv_w = at("attn.c_attn.weight", {3 * c, c});
    block_.qkv_b = at("attn.c_attn.bias", {3 * c});
    block_.out_w = at("attn.c_proj.weight", {c, c});
    block_.out_b = at("attn.c_proj.bias", {c});
    block_.ln2_w = at("ln_2.weight", {c});
    block_.ln2_b = at("ln_2.bias", {c});
    block_.fc_w = at("mlp.c_fc.weight", {4 * c, c});
    block_.fc_b = at("mlp.c_fc.bias", {4 * c});
    block_.proj_w = at("mlp.c_proj.weight", {c, 4 * c});
    block_.proj_b = at("mlp.c_proj.bias", {c});
    block_.size = end - start;
  }
  ln_f_ = place("ln_f.weight", {c});
  place("ln_f.bias", {c});
}

template <class T>
void Gpt<T>::initialize(std::uint64_t seed, std::span<T> parameters) const {
  check_parameters(parameters.size());
  Draws draws(seed);
  const double onto_stream = kDeviation / std::sqrt(2.0 * static_cast<double>(options_.layers));
  for (const Tensor& tensor : layout_) {
    const auto values = parameters.subspan(tensor.offset, tensor.size);
    if (tensor.decayed) {
      const double deviation = tensor.name.ends_with("c_proj.weight") ? onto_stream : kDeviation;
      for (T& value : values) value = static_cast<T>(deviation * draws.normal());
    } else {
      std::fill(values.begin(), values.end(), tensor.name.ends_with(".weight") ? T{1} : T{0});  // a LayerNorm's gain
    }
  }
}

template <class T>
double Gpt<T>::step_flops(std::size_t rows) const {
  const double c = static_cast<double>(options_.channels), t = static_cast<double>(options_.time);
  const double layers = static_cast<double>(options_.layers), vocab = static_cast<double>(options_.vocab);
  const double weights = layers * 12 * c * c + vocab * c;
  const double attention = layers * 2 * c * (t + 1) / 2;  // scores and their product with the values, a position
  return 3 * 2 * static_cast<double>(rows) * t * (weights + attention);
}

template <class T>
void Gpt<T>::check_parameters(std::size_t parameters) const {
  if (parameters != parameter_count())
    throw InvalidArgumentError("GPT: " + std::to_string(parameters) + " parameters given, the layout has " +
                               std::to_string(parameter_count()));
}

template <class T>
void Gpt<T>::check_gradients(std::size_t gradients, double divisor) const {
  if (gradients != parameter_count() || !(divisor > 0))
    throw InvalidArgumentError("GPT: a step wants " + std::to_string(parameter_count()) +
                               " gradients and a divisor above 0, not " + std::to_string(gradients) + " and " +
                               std::to_string(divisor));
}

template <class T>
void Gpt<T>::check_tokens(std::span<const std::int32_t> tokens) const {
  const std::size_t bad = kernels::token_out_of_range(tokens, options_.vocab);
  if (bad != tokens.size())
    throw InvalidArgumentError("GPT: token " + std::to_string(tokens[bad]) + " at place " + std::to_string(bad) +
                               " is outside the vocabulary of " + std::to_string(options_.vocab));
}

template <class T>
void Gpt<T>::check_batch(const Batch& batch, std::size_t parameters) const {
  check_parameters(parameters);
  const std::size_t wanted = batch.rows * options_.time;
  if (batch.tokens.size() != wanted || batch.targets.size() != wanted)
    throw InvalidArgumentError("GPT: " + std::to_string(batch.rows) + " rows of " + std::to_string(options_.time) +
                               " positions, but " + std::to_string(batch.tokens.size()) + " tokens and " +
                               std::to_string(batch.targets.size()) + " targets");
  check_tokens(batch.tokens);
  const auto too_high = [&](std::int32_t target) { return target >= 0 && static_cast<std::size_t>(target) >= options_.vocab; };
  if (const auto bad = std::find_if(batch.targets.begin(), batch.targets.end(), too_high); bad != batch.targets.end())
    throw InvalidArgumentError("GPT: target " + std::to_string(*bad) + " is outside the vocabulary of " +
                               std::to_string(options_.vocab));
}

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
  head_positions_ = std::max<std::size_t>(1, kHeadLogits / options_.vocab);
  const std::size_t n = rows * options_.time, c = options_.channels;
  if (n <= capacity_positions_) return;
  const std::size_t slice_positions = std::max(kSlicePositions, options_.time);
  const auto carve = [&](T* memory) {
    Carver<T> carver(memory);
    for (T*& stream : streams_) stream = carver.take(n * c);
    for (Tape& t : tapes_) {
      for (T** narrow : {&t.heads, &t.middle}) *narrow = carver.take(n * c);
      t.fc = carver.take(n * 4 * c);
      for (T** one : {&t.mean1, &t.rstd1, &t.mean2, &t.rstd2}) *one = carver.take(n);
      t.qkv = carver.take(n * 3 * c);
      t.lse = carver.take(n * options_.heads);
      t.probs = carver.take(n * options_.heads * options_.time);
    }
    for (T** narrow : {&final_norm_, &dstream_}) *narrow = carver.take(n * c);
    for (T** one : {&final_mean_, &final_rstd_}) *one = carver.take(n);
    logits_ = carver.take(std::min(head_positions_, n) * options_.vocab);
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
  return {streams_.at(index), positions() * options_.channels};
}

template <class T>
void Gpt<T>::forward(const std::int32_t* tokens, const T* parameters) {
  const std::size_t channels = options_.channels;
  kernels::embedding_forward<T>({.batch = rows_, .time = time_, .channels = channels}, tokens, parameters,
                                parameters + options_.vocab * channels, streams_[0]);
  for (std::size_t layer = 0; layer < options_.layers; ++layer) {
    const T* w = block_of(parameters, layer);
    pack(w, Direction::kForward);
    for (std::size_t s = 0; s < slices(); ++s) forward_block(layer, slice(s), w);
  }
  kernels::layernorm_forward<T>(isa_, {positions(), channels}, streams_.back(), parameters + ln_f_,
                                parameters + ln_f_ + channels, final_norm_, {final_mean_, final_rstd_});
}

// A block's weights, for all of its slices: forward multiplies by their transposes, backward by themselves.
template <class T>
void Gpt<T>::pack(const T* w, Direction direction) {
  const std::size_t c = options_.channels;
  const auto one = [&](kernels::PackedFactor<T>& packed, std::size_t weight, std::size_t out, std::size_t in) {
    if (direction == Direction::kForward) packed.pack(isa_, in, out, {.data = w + weight, .stride = in, .transposed = true});
    else packed.pack(isa_, out, in, {.data = w + weight, .stride = in});
  };
  one(packed_.qkv, block_.qkv_w, 3 * c, c);
  one(packed_.out, block_.out_w, c, c);
  one(packed_.fc, block_.fc_w, 4 * c, c);
  one(packed_.proj, block_.proj_w, c, 4 * c);
}

template <class T>
void Gpt<T>::forward_block(std::size_t layer, Slice slice, const T* w) {
  const std::size_t c = options_.channels, first = slice.first * time_, n = slice.rows * time_;
  const Tape& t = tapes_[layer];
  const T* x = streams_[layer] + first * c;
  kernels::layernorm_forward<T>(isa_, {n, c}, x, w + block_.ln1_w, w + block_.ln1_b, norm_, {t.mean1 + first, t.rstd1 + first});
  T* qkv = t.qkv + first * 3 * c;
  linear<T>(isa_, {n, c, 3 * c}, norm_, packed_.qkv, w + block_.qkv_b, qkv);
  T* heads = t.heads + first * c;
  const std::size_t head_rows = first * options_.heads;
  kernels::attention_forward<T>(isa_, {.batch = slice.rows, .time = time_, .heads = options_.heads, .channels = c}, qkv,
                                heads, {.lse = t.lse + head_rows, .probs = t.probs + head_rows * time_}, attention_);
  T* middle = t.middle + first * c;
  linear<T>(isa_, {n, c, c}, heads, packed_.out, w + block_.out_b, middle, x);
  kernels::layernorm_forward<T>(isa_, {n, c}, middle, w + block_.ln2_w, w + block_.ln2_b, norm_,
                                {t.mean2 + first, t.rstd2 + first});
  T* fc = t.fc + first * 4 * c;
  linear<T>(isa_, {n, c, 4 * c}, norm_, packed_.fc, w + block_.fc_b, fc);
  kernels::gelu_forward<T>(isa_, n * 4 * c, fc, gelu_);
  linear<T>(isa_, {n, 4 * c, c}, gelu_, packed_.proj, w + block_.proj_b, streams_[layer + 1] + first * c, middle);
}

// dstream_ comes as the gradient of the block's output and leaves as that of its input.
template <class T>
void Gpt<T>::backward_block(std::size_t layer, Slice slice, const T* w, T* dw, const FinalFrom& final_from) {
  const std::size_t c = options_.channels, first = slice.first * time_, n = slice.rows * time_;
  const std::size_t offset = first_block_ + layer * block_.size;
  const Tape& t = tapes_[layer];
  T* d = dstream_ + first * c;
  const NormStatistics<T> norm1{t.mean1 + first, t.rstd1 + first}, norm2{t.mean2 + first, t.rstd2 + first};
  const auto input_gradient = [&](const LinearShape& shape, const kernels::PackedFactor<T>& weight, const T* dy, T* dx) {
    kernels::matmul<T>(isa_, {.m = shape.rows, .n = shape.in, .k = shape.out}, {.data = dy, .stride = shape.out}, weight,
                       {.data = dx, .stride = shape.in});
  };
  const auto weight_gradient = [&](const LinearShape& shape, const T* x, std::size_t weight, std::size_t bias, const T* dy) {
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
  weight_gradient({n, 4 * c, c}, gelu_, block_.proj_w, block_.proj_b, d);
  input_gradient({n, c, 4 * c}, packed_.fc, dwide_, dnarrow_);
  kernels::layernorm_again<T>(isa_, {n, c}, middle, w + block_.ln2_w, w + block_.ln2_b, norm2, norm_);
  weight_gradient({n, c, 4 * c}, norm_, block_.fc_w, block_.fc_b, dwide_);
  norm_back(middle, norm2, block_.ln2_w, block_.ln2_b);

  input_gradient({n, c, c}, packed_.out, d, dnarrow_);
  weight_gradient({n, c, c}, t.heads + first * c, block_.out_w, block_.out_b, d);
  const std::size_t head_rows = first * options_.heads;
  kernels::attention_backward<T>(isa_, {.batch = slice.rows, .time = time_, .heads = options_.heads, .channels = c},
                                 t.qkv + first * 3 * c, {.lse = t.lse + head_rows, .probs = t.probs + head_rows * time_},
                                 dnarrow_, dqkv_, attention_);
  const T* x = streams_[layer] + first * c;
  input_gradient({n, c, 3 * c}, packed_.qkv, dqkv_, dnarrow_);
  kernels::layernorm_again<T>(isa_, {n, c}, x, w + block_.ln1_w, w + block_.ln1_b, norm1, norm_);
  weight_gradient({n, c, 3 * c}, norm_, block_.qkv_w, block_.qkv_b, dqkv_);
  norm_back(x, norm1, block_.ln1_w, block_.ln1_b);
}

// Loss over all positions; with gradients dstream_ is written and the head's share of dwte added.
template <class T>
Loss Gpt<T>::head(const std::int32_t* targets, const T* parameters, T* gradients, double divisor) {
  const std::size_t c = options_.channels, vocab = options_.vocab;
  Loss loss;
  for (std::size_t first = 0; first < positions(); first += head_positions_) {
    const std::size_t n = std::min(head_positions_, positions() - first);
    const T* x = final_norm_ + first * c;
    kernels::linear_forward<T>(isa_, {n, c, vocab}, x, parameters, nullptr, logits_);
    const auto part = kernels::cross_entropy<T>(isa_, {n, vocab}, logits_, targets + first,
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
  check_batch(batch, parameters.size());
  check_gradients(gradients.size(), divisor);
  if (batch.rows == 0) {
    tell(final_from, 0);
    return {};
  }
  prepare(batch.rows, options_.time);
  const T* w = parameters.data();
  T* dw = gradients.data();
  const std::size_t c = options_.channels;
  forward(batch.tokens.data(), w);
  const Loss loss = head(batch.targets.data(), w, dw, divisor);
  kernels::layernorm_backward<T>(isa_, {positions(), c}, streams_.back(), w + ln_f_, {final_mean_, final_rstd_}, dstream_,
                                 dstream_, dw + ln_f_, dw + ln_f_ + c);
  tell(final_from, ln_f_);
  for (std::size_t layer = options_.layers; layer-- > 0;) {
    pack(block_of(w, layer), Direction::kBackward);
    for (std::size_t s = 0; s < slices(); ++s)
      backward_block(layer, slice(s), block_of(w, layer), block_of(dw, layer), s + 1 == slices() ? final_from : nullptr);
  }
  kernels::embedding_backward<T>({.batch = rows_, .time = time_, .channels = c}, batch.tokens.data(), dstream_, dw,
                                 dw + options_.vocab * c);
  tell(final_from, 0);
  return loss;
}

template <class T>
Loss Gpt<T>::evaluate(const Batch& batch, std::span<const T> parameters) {
  check_batch(batch, parameters.size());
  if (batch.rows == 0) return {};
  prepare(batch.rows, options_.time);
  forward(batch.tokens.data(), parameters.data());
  return head(batch.targets.data(), parameters.data(), nullptr, 1);
}

template <class T>
void Gpt<T>::next_logits(std::span<const std::int32_t> tokens, std::span<const T> parameters, std::span<T> logits) {
  check_parameters(parameters.size());
  check_tokens(tokens);
  if (tokens.empty() || tokens.size() > options_.time || logits.size() != options_.vocab)
    throw InvalidArgumentError("next_logits wants 1 to " + std::to_string(options_.time) + " tokens and room for " +
                               std::to_string(options_.vocab) + " logits");
  prepare(1, tokens.size());
  forward(tokens.data(), parameters.data());
  const T* last = final_norm_ + (tokens.size() - 1) * options_.channels;
  kernels::linear_forward<T>(isa_, {1, options_.channels, options_.vocab}, last, parameters.data(), nullptr, logits.data());
}

template <class T>
void Gpt<T>::logits(std::span<const T> parameters, std::span<T> out) const {
  check_parameters(parameters.size());
  if (out.size() != positions() * options_.vocab) throw InvalidArgumentError("logits wants room for every position");
  kernels::linear_forward<T>(isa_, {positions(), options_.channels, options_.vocab}, final_norm_, parameters.data(), nullptr,
                             out.data());
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace troupe::train
