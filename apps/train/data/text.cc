#include "apps/train/data/text.h"

#include <algorithm>

#include "apps/train/data/files.h"

namespace troupe::train {

Vocabulary Vocabulary::of(std::string_view text, TextLevel level) {
  std::array<bool, 256> seen{};
  if (level == TextLevel::kBytes) seen.fill(true);
  for (const char c : text) seen[static_cast<unsigned char>(c)] = true;
  Vocabulary out;
  out.ids_.fill(-1);
  for (std::size_t byte = 0; byte < seen.size(); ++byte) {
    if (!seen[byte]) continue;
    out.ids_[byte] = static_cast<std::int32_t>(out.characters_.size());
    out.characters_.push_back(static_cast<char>(byte));
  }
  return out;
}

Result<std::vector<std::int32_t>> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> out(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    out[i] = ids_[byte];
    if (out[i] < 0)
      return InvalidArgumentError("the character with code " + std::to_string(byte) + " at place " + std::to_string(i) +
                                  " is not in the vocabulary of " + std::to_string(size()));
  }
  return out;
}

Result<std::string> Vocabulary::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  out.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= size())
      return InvalidArgumentError("id " + std::to_string(id) + " is outside the vocabulary of " +
                                  std::to_string(size()));
    out.push_back(characters_[static_cast<std::size_t>(id)]);
  }
  return out;
}

Result<TextData> load_text(const std::filesystem::path& path, const TextOptions& options) {
  const auto text = read_data_file(path);
  if (!text.ok()) return text.error_ptr();
  TextData out{.vocabulary = Vocabulary::of(*text, options.level), .ids = {}, .train_count = 0};
  auto ids = out.vocabulary.encode(*text);
  if (!ids.ok()) return ids.error_ptr();
  out.ids = std::move(*ids);
  out.train_count = out.ids.size() / 10 * 9 + out.ids.size() % 10 * 9 / 10;
  if (window_count(out.train(), options.time) == 0 || window_count(out.validation(), options.time) == 0)
    return InvalidArgumentError(path.string() + ": " + std::to_string(out.ids.size()) +
                                " characters leave no window of " + std::to_string(options.time) +
                                " in the last tenth, which validates");
  return out;
}

std::size_t window_count(std::span<const std::int32_t> ids, std::size_t time) {
  return ids.size() > time ? ids.size() - time : 0;
}

Result<Windows> windows_at(std::span<const std::int32_t> ids, std::span<const std::int32_t> offsets, std::size_t time) {
  const std::size_t count = window_count(ids, time);
  Windows out;
  out.tokens.reserve(offsets.size() * time);
  out.targets.reserve(offsets.size() * time);
  for (const std::int32_t offset : offsets) {
    if (offset < 0 || static_cast<std::size_t>(offset) >= count)
      return InvalidArgumentError("a window of " + std::to_string(time) + " at " + std::to_string(offset) +
                                  " leaves the text of " + std::to_string(ids.size()) + " tokens");
    const auto window = ids.subspan(static_cast<std::size_t>(offset), time + 1);
    out.tokens.insert(out.tokens.end(), window.begin(), window.end() - 1);
    out.targets.insert(out.targets.end(), window.begin() + 1, window.end());
  }
  return out;
}

}  // namespace troupe::train
