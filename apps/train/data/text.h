// Text as token ids: a vocabulary of characters (or all bytes), the split into training and validation, and windows.
//
// Plain values; any thread once made.
//
// TX-1  Ids of characters are the distinct bytes of the text in ascending order: the same text gives the same ids
//       everywhere.
// TX-2  The first floor(0.9 n) ids train, the rest validate; a window never crosses the border.
// TX-3  decode(encode(text)) == text.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

namespace troupe::train {

enum class TextLevel : std::uint8_t { kCharacters, kBytes };

class Vocabulary {
 public:
  /// The characters of a text (TX-1), or all 256 bytes.
  static Vocabulary of(std::string_view text, TextLevel level = TextLevel::kCharacters);

  std::size_t size() const { return characters_.size(); }
  /// by rising id; with it a checkpoint rebuilds the ids
  const std::string& characters() const { return characters_; }
  /// InvalidArgumentError names the first character that has no id, and its place.
  Result<std::vector<std::int32_t>> encode(std::string_view text) const;
  /// InvalidArgumentError for an id outside [0, size()).
  Result<std::string> decode(std::span<const std::int32_t> ids) const;

 private:
  std::string characters_;
  std::array<std::int32_t, 256> ids_{};  // -1: none
};

struct TextData {
  Vocabulary vocabulary;
  std::vector<std::int32_t> ids;
  std::size_t train_count = 0;

  std::span<const std::int32_t> train() const { return std::span(ids).first(train_count); }
  std::span<const std::int32_t> validation() const { return std::span(ids).subspan(train_count); }
};

struct TextOptions {
  TextLevel level = TextLevel::kCharacters;
  std::size_t time = 0;  ///< both parts must hold a window of that many positions and its targets
};
/// Missing: NotFoundError; empty, too short or unreadable: InvalidArgumentError.
Result<TextData> load_text(const std::filesystem::path& path, const TextOptions& options = {});

/// How many starts a window of `time` positions has: its targets reach one further.
std::size_t window_count(std::span<const std::int32_t> ids, std::size_t time);

struct Windows {
  std::vector<std::int32_t> tokens, targets;  ///< [rows][time]; a target is the token after
};
/// The windows that start at the offsets; InvalidArgumentError where one would leave the ids.
Result<Windows> windows_at(std::span<const std::int32_t> ids, std::span<const std::int32_t> offsets, std::size_t time);

}  // namespace troupe::train
