#include "core/wire/codec.h"

#include <gtest/gtest.h>

#include "core/base/ids.h"
#include "core/wire/codec_define.h"

namespace troupe::wire {
namespace {

struct Hello {
  std::uint32_t version = 0;
  ProcessId from;
  std::string token;
  std::vector<ObjectId> objects;
  bool operator==(const Hello&) const = default;
};

const Hello kHello{3, {1, 2}, "secret", {{{1, 2}, 3}, {{1, 2}, 4}}};

TEST(Codec, MessagesComeBackAsTheyWent) {  // WC-1
  const Result<Hello> back = decode_message<Hello>(encode_message(kHello));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, kHello);
}

TEST(Codec, ErrorsNameTheStruct) {  // WC-2
  std::vector<std::byte> bytes = encode_message(kHello);
  bytes.pop_back();
  const Result<Hello> shorter = decode_message<Hello>(bytes);
  ASSERT_FALSE(shorter.ok());
  EXPECT_NE(dynamic_cast<const SerializationError*>(&shorter.error()), nullptr);
  EXPECT_NE(shorter.error().message().find("Hello"), std::string::npos) << shorter.error().message();
  bytes.resize(bytes.size() + 2);
  EXPECT_FALSE(decode_message<Hello>(bytes).ok());
}

TEST(Codec, IdsAreCopiedAsTheyLie) {
  static_assert(troupe::detail::kBulk<ProcessId> && troupe::detail::kBulk<ObjectId>);
  EXPECT_EQ(encode_message(ObjectId{{1, 2}, 3}).size(), 16u);
}

TEST(Codec, ErrorsCrossWithTheirRealType) {
  ErrorRecord record;
  record.code = ErrorCode::kObjectLost;
  record.message = "no copy is left";
  record.context.node = "4";
  const Result<ErrorRecord> back = decode_message<ErrorRecord>(encode_message(record));
  ASSERT_TRUE(back.ok());
  const auto error = Error::make(*back);
  EXPECT_NE(dynamic_cast<const ObjectLostError*>(error.get()), nullptr);
  EXPECT_STREQ(error->what(), "no copy is left [node 4]");
}

}  // namespace
}  // namespace troupe::wire
