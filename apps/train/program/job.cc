#include "apps/train/program/job.h"

#include <algorithm>
#include <numeric>

#include "apps/train/data/digits.h"
#include "apps/train/model/generate.h"
#include "apps/train/model/gpt.h"
#include "apps/train/model/gpt_cuda.h"
#include "apps/train/data/npy.h"
#include "apps/train/data/text.h"
#include "kernels/cuda/cuda.h"

namespace troupe::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kValidationSeed = 20240531, kValidationStream = 77;  // TJB-2

std::vector<std::int32_t> narrow(std::span<const std::uint64_t> rows) {
  std::vector<std::int32_t> out(rows.size());
  std::ranges::transform(rows, out.begin(), [](std::uint64_t row) { return static_cast<std::int32_t>(row); });
  return out;
}

/// A model that begins with given parameters.
class FromStart final : public Model<float> {
 public:
  FromStart(Model<float>& model, std::vector<float> start) : model_(&model), start_(std::move(start)) {}
  const Layout& layout() const override { return model_->layout(); }
  std::size_t parameter_count() const override { return model_->parameter_count(); }
  void initialize(std::uint64_t, std::span<float> parameters) const override {
    std::ranges::copy(start_, parameters.begin());
  }
  Loss step(const Batch& batch, std::span<const float> parameters, std::span<float> gradients, double divisor,
            const FinalFrom& final_from) override {
    return model_->step(batch, parameters, gradients, divisor, final_from);
  }
  Loss evaluate(const Batch& batch, std::span<const float> parameters) override {
    return model_->evaluate(batch, parameters);
  }
  double step_flops(std::size_t rows) const override { return model_->step_flops(rows); }

 private:
  Model<float>* model_;
  std::vector<float> start_;
};

class GptJob final : public Job {
 public:
  GptJob(const GptSettings& settings, TextData text)
      : text_(std::move(text)),
        time_(settings.context),
        model_({.vocab = text_.vocabulary.size(),
                .time = settings.context,
                .channels = settings.channels,
                .layers = settings.layers,
                .heads = settings.heads}) {
    sampling_ = {.sampling = Sampling::kUniform,
                 .rows = window_count(text_.train(), time_),
                 .batch = settings.run.batch,
                 .seed = settings.run.seed};
    const std::uint64_t windows = window_count(text_.validation(), time_);
    for (std::uint64_t i = 0; i < settings.validation_rows; ++i)
      validation_.push_back(
          static_cast<std::int32_t>(random_below(kValidationSeed, kValidationStream, i, windows)));
  }

  /// Trains on the GPU of this process.
  Status take_gpu(int gpu) {
    const auto table = kernels::cuda::cuda_table();
    if (!table.ok()) return NotFoundError("--device cuda: " + std::string(table.error().message()));
    try {
      on_gpu_ = std::make_unique<CudaGpt>(model_.options(), **table, own_cuda_device(**table, gpu));
    } catch (const Error& error) {
      return Error("--device cuda: " + std::string(error.what()));
    }
    return {};
  }

  /// The start and the windows of a recorded run.
  Status take_recorded(const fs::path& folder) {
    const auto start = read_npy<float>(folder / "init.npy");
    if (!start.ok()) return start.error_ptr();
    const auto training = read_npy<std::int32_t>(folder / "train_offsets.npy");
    if (!training.ok()) return training.error_ptr();
    const auto validation = read_npy<std::int32_t>(folder / "val_offsets.npy");
    if (!validation.ok()) return validation.error_ptr();
    if (start->values.size() != model_.parameter_count())
      return InvalidArgumentError((folder / "init.npy").string() + " has " + std::to_string(start->values.size()) +
                                  " parameters, the model " + std::to_string(model_.parameter_count()));
    sampling_.sampling = Sampling::kListed;
    sampling_.listed.assign(training->values.begin(), training->values.end());
    validation_ = validation->values;
    if (const auto fits = windows_at(text_.validation(), validation_, time_); !fits.ok()) return fits.error_ptr();
    recorded_.emplace(model(), start->values);
    return {};
  }

  Model<float>& model() override {
    if (recorded_) return *recorded_;
    return on_gpu_ ? static_cast<Model<float>&>(*on_gpu_) : model_;
  }
  std::string device() const override { return on_gpu_ ? on_gpu_->description() : std::string(); }
  const SamplerOptions& sampling() const override { return sampling_; }
  std::size_t targets_per_row() const override { return time_; }
  Loader training() override {
    return [this](std::span<const std::uint64_t> rows) { return batch_of(text_.train(), narrow(rows)); };
  }
  Loader validation() override {
    return [this](std::span<const std::uint64_t> rows) {
      std::vector<std::int32_t> offsets;
      for (const std::uint64_t row : rows) offsets.push_back(validation_[row]);
      return batch_of(text_.validation(), offsets);
    };
  }
  std::size_t validation_rows() const override { return validation_.size(); }
  const char* unit() const override { return "tokens"; }
  std::size_t units_per_row() const override { return time_; }
  bool has_accuracy() const override { return false; }

  Result<std::string> sample(std::span<const float> parameters, const SampleOptions& options) override {
    const auto prompt = text_.vocabulary.encode(options.prompt);
    if (!prompt.ok()) return InvalidArgumentError("--prompt: " + prompt.error().message());
    const auto tokens =
        generate(model_, parameters, *prompt,
                 {.tokens = options.tokens, .temperature = options.temperature, .seed = options.seed});
    if (!tokens.ok()) return tokens.error_ptr();
    const auto text = text_.vocabulary.decode(*tokens);
    if (!text.ok()) return text.error_ptr();
    return options.prompt + *text;
  }

 private:
  Batch batch_of(std::span<const std::int32_t> ids, const std::vector<std::int32_t>& offsets) {
    windows_ = windows_at(ids, offsets, time_).value();
    return {.rows = offsets.size(), .features = {}, .tokens = windows_.tokens, .targets = windows_.targets};
  }

  TextData text_;
  std::size_t time_;
  Gpt<float> model_;  // the one that writes samples, on any device
  std::unique_ptr<CudaGpt> on_gpu_;
  std::optional<FromStart> recorded_;
  SamplerOptions sampling_;
  std::vector<std::int32_t> validation_;
  Windows windows_;
};

class MlpJob final : public Job {
 public:
  MlpJob(const MlpSettings& settings, MlpOptions model, Digits digits)
      : digits_(std::move(digits)), model_(std::move(model)) {
    sampling_ = {.sampling = Sampling::kShuffled,
                 .rows = Digits::kTrainRows,
                 .batch = settings.run.batch,
                 .seed = settings.run.seed};
  }
  Model<float>& model() override { return model_; }
  const SamplerOptions& sampling() const override { return sampling_; }
  std::size_t targets_per_row() const override { return 1; }
  Loader training() override {
    return [this](std::span<const std::uint64_t> rows) { return batch_of(narrow(rows)); };
  }
  Loader validation() override {
    return [this](std::span<const std::uint64_t> rows) {
      std::vector<std::int32_t> at = narrow(rows);
      for (std::int32_t& row : at) row += static_cast<std::int32_t>(Digits::kTrainRows);
      return batch_of(at);
    };
  }
  std::size_t validation_rows() const override { return digits_.rows() - Digits::kTrainRows; }
  const char* unit() const override { return "rows"; }
  std::size_t units_per_row() const override { return 1; }
  bool has_accuracy() const override { return true; }
  Result<std::string> sample(std::span<const float>, const SampleOptions&) override {
    return InvalidArgumentError("this model writes no text");
  }

 private:
  Batch batch_of(const std::vector<std::int32_t>& rows) {
    rows_ = digit_rows(digits_, rows).value();
    return {.rows = rows.size(), .features = rows_.features, .tokens = {}, .targets = rows_.targets};
  }

  Digits digits_;
  Mlp<float> model_;
  SamplerOptions sampling_;
  DigitRows rows_;
};

Result<fs::path> data_of(const std::string& given, const char* name) {
  if (!given.empty()) return fs::path(given);
  return find_data(name);
}

Result<std::unique_ptr<Job>> make(const GptSettings& settings, int gpu) {
  const auto path = data_of(settings.run.data, "tinyshakespeare.txt");
  if (!path.ok()) return path.error_ptr();
  auto text = load_text(
      *path, {.level = settings.bytes ? TextLevel::kBytes : TextLevel::kCharacters, .time = settings.context});
  if (!text.ok()) return text.error_ptr();
  if (Status fits = check(GptOptions{.vocab = text->vocabulary.size(), .time = settings.context,
                                     .channels = settings.channels, .layers = settings.layers,
                                     .heads = settings.heads});
      !fits.ok())
    return fits.error_ptr();
  auto job = std::make_unique<GptJob>(settings, std::move(*text));
  if (settings.run.device == Device::kCuda)
    if (Status taken = job->take_gpu(gpu); !taken.ok()) return taken.error_ptr();
  if (!settings.recorded.empty())
    if (Status taken = job->take_recorded(settings.recorded); !taken.ok()) return taken.error_ptr();
  return std::unique_ptr<Job>(std::move(job));
}

Result<std::unique_ptr<Job>> make(const MlpSettings& settings, int) {
  const auto path = data_of(settings.run.data, "digits.csv");
  if (!path.ok()) return path.error_ptr();
  auto digits = load_digits(*path);
  if (!digits.ok()) return digits.error_ptr();
  if (digits->rows() <= Digits::kTrainRows)
    return InvalidArgumentError(path->string() + ": " + std::to_string(digits->rows()) + " rows; the first " +
                                std::to_string(Digits::kTrainRows) + " train, and some must be left to test");
  MlpOptions model{.sizes = {Digits::kPixels}, .activation = settings.activation};
  model.sizes.insert(model.sizes.end(), settings.hidden.begin(), settings.hidden.end());
  model.sizes.push_back(Digits::kClasses);
  if (Status fits = check(model); !fits.ok()) return fits.error_ptr();
  return std::unique_ptr<Job>(std::make_unique<MlpJob>(settings, std::move(model), std::move(*digits)));
}

}  // namespace

Result<std::unique_ptr<Job>> make_job(const JobSettings& settings, int gpu) {
  return std::visit([&](const auto& of_model) { return make(of_model, gpu); }, settings);
}

Result<fs::path> find_data(const std::string& name) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  std::string looked;
  for (const fs::path& folder : {fs::path(TROUPE_APPS_DATA_DIR), program.parent_path() / "../share/troupe/data"}) {
    const fs::path path = folder / name;
    if (fs::exists(path, error)) return path.lexically_normal();
    looked += (looked.empty() ? "" : " and ") + path.lexically_normal().string();
  }
  return NotFoundError("there is no " + looked + ": --data names the file");
}

}  // namespace troupe::train
