// Fuzzes the codec: bytes of any origin decode to a value or to a SerializationError, and every value that comes out of
// them can be encoded and decoded again. The first byte chooses the type; the second whether the rest is the encoding
// itself, or edits (place, byte) to the encoding of a good value, which reach deeper.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/base/check.h"
#include "tests/wire/samples.h"

namespace troupe {
namespace {

using namespace samples;

template <class T> void decode_exactly(std::span<const std::byte> bytes) {
  const std::unique_ptr<std::byte[]> memory(new std::byte[bytes.size()]);  // a sanitizer sees the first byte beyond
  if (!bytes.empty()) std::memcpy(memory.get(), bytes.data(), bytes.size());
  const Result<T> value = detail::decode<T>({memory.get(), bytes.size()});
  if (!value.ok()) {
    TROUPE_CHECK(value.error().code() == ErrorCode::kSerialization, "bad bytes are a SerializationError");
    return;
  }
  const std::vector<std::byte> again = detail::encode(*value);
  TROUPE_CHECK(again.size() == bytes.size(), "a value has one size");
  TROUPE_CHECK(detail::decode<T>(again).ok(), "what was encoded can be decoded");
}

template <class T> void run(const T& good, bool edits, std::span<const std::byte> input) {
  if (!edits) return decode_exactly<T>(input);
  std::vector<std::byte> bytes = detail::encode(good);
  for (; input.size() >= 3 && !bytes.empty(); input = input.subspan(3)) {
    const std::size_t place = std::to_integer<std::size_t>(input[0]) << 8 | std::to_integer<std::size_t>(input[1]);
    if (place % 17 == 16) bytes.resize(place % (bytes.size() + 1));
    else bytes[place % bytes.size()] = input[2];
  }
  decode_exactly<T>(bytes);
}

ErrorRecord error_record() {
  ErrorRecord record;
  record.code = ErrorCode::kTask;
  record.message = "index 7";
  record.context.function = "f(int)";
  record.context.log_tail = {"one", "two"};
  record.type_bases = {"St12out_of_range", "St9exception"};
  return record;
}

void choose(unsigned type, bool edits, std::span<const std::byte> input) {
  switch (type % 8) {
    case 0: return run(deep(), edits, input);
    case 1: return run(tree(), edits, input);
    case 2: return run(error_record(), edits, input);
    case 3: return run(std::vector<std::string>{"a", "", "ccc"}, edits, input);
    case 4: return run(std::map<std::string, Account>{{"a", Account(1)}, {"b", Account(2)}}, edits, input);
    case 5: return run(List(5), edits, input);
    case 6: return run(CArrays{{1, 2, 3}, "name", {{1, "a"}, {2, "b"}}, 4}, edits, input);
    default:
      return run(std::vector<std::variant<std::monostate, HasItem, std::vector<bool>, std::unique_ptr<Inner>>>(3),
                 edits, input);
  }
}

}  // namespace
}  // namespace troupe

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  troupe::choose(data[0], data[1] % 2 != 0, std::as_bytes(std::span(data + 2, size - 2)));
  return 0;
}
