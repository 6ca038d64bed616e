#include "apps/common/tensorboard/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include "apps/common/tensorboard/records.h"

namespace apps::tensorboard {
namespace {

namespace fs = std::filesystem;

// The wire format of Protocol Buffers: a key (field number and kind), then the value.
enum class WireKind : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Message {
 public:
  Message& varint(int field, std::uint64_t value) { return key(field, WireKind::kVarint).number(value); }
  Message& bytes(int field, std::string_view value) {
    key(field, WireKind::kBytes).number(value.size());
    text_ += value;
    return *this;
  }
  Message& real64(int field, double value) {
    return key(field, WireKind::kFixed64).fixed(std::bit_cast<std::uint64_t>(value), 8);
  }
  Message& real32(int field, float value) {
    return key(field, WireKind::kFixed32).fixed(std::bit_cast<std::uint32_t>(value), 4);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Message& key(int field, WireKind kind) {
    return number(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(kind));
  }
  Message& number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(static_cast<unsigned char>(value | 0x80)));
    text_.push_back(static_cast<char>(value));
    return *this;
  }
  Message& fixed(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) text_.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
    return *this;
  }

  std::string text_;
};

Message event(double wall_time, std::int64_t step) {
  Message out;
  out.real64(1, wall_time).varint(2, static_cast<std::uint64_t>(step));
  return out;
}

bool is_tag(std::string_view tag) {
  return !tag.empty() && std::ranges::all_of(tag, [](char c) { return c >= ' ' && c <= '~'; });
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

constexpr int kNamesTried = 1000;

}  // namespace

troupe::Result<EventFile> EventFile::create(const fs::path& folder, double wall_time, const EventFileOptions& options) {
  if (!(wall_time >= 0 && wall_time < 1e10))  // the name has ten digits of it
    return troupe::InvalidArgumentError(fmt::format("{} is no time in seconds since 1970", wall_time));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return troupe::InvalidArgumentError("cannot make the folder " + folder.string() + ": " + error.message());
  const std::string stem =
      fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<std::int64_t>(wall_time), host_name(), ::getpid());
  int number = 0;
  while (number < kNamesTried && fs::exists(folder / fmt::format("{}.{}", stem, number), error)) ++number;
  troupe::Result<AppendFile> file = AppendFile::open(folder / fmt::format("{}.{}", stem, number), Existing::kRefuse);
  if (!file.ok()) return file.error_ptr();
  EventFile made(std::move(file).value(), options, wall_time);
  made.pending_ = record(Message().real64(1, wall_time).bytes(3, "brain.Event:2").text());
  made.pending_ += record(event(wall_time, options.first_step).bytes(7, Message().varint(1, 1).text()).text());
  const troupe::Status flushed = made.flush();
  if (!flushed.ok()) return flushed.error_ptr();
  return made;
}

EventFile::~EventFile() {
  if (!pending_.empty()) (void)flush();  // nobody is left to be told
}

troupe::Status EventFile::add(std::int64_t step, double wall_time, std::span<const Scalar> scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) {
    if (!is_tag(scalar.tag))
      return troupe::InvalidArgumentError("a TensorBoard tag is printable ASCII, and not \"" + std::string(scalar.tag) +
                                          "\"");
    summary.bytes(1, Message().bytes(1, scalar.tag).real32(2, static_cast<float>(scalar.value)).text());
  }
  const std::string added = record(event(wall_time, step).bytes(5, summary.text()).text());
  if (pending_.size() + added.size() <= options_.pending_bytes_max)
    pending_ += added;
  else
    ++dropped_;
  // Time that went backwards was set, and says nothing about the last flush.
  if (wall_time >= flushed_at_ && wall_time - flushed_at_ < options_.flush_seconds) return {};
  flushed_at_ = wall_time;
  return flush();
}

troupe::Status EventFile::flush() {
  const troupe::Status written = file_.append(pending_);
  if (written.ok()) pending_.clear();
  return written;
}

}  // namespace apps::tensorboard
