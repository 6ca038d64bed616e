// The pages of docs/ say what the code does: the worked example of wire_format.md is what is sent.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/net/base/frame.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"

namespace troupe {
namespace {

std::vector<std::byte> bytes_of_example() {
  std::ifstream file(TROUPE_DOCS_DIR "/wire_format.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t mark = page.find("<!-- example"), begin = page.find("```\n", mark) + 4,
                    end = page.find("```", begin);
  EXPECT_NE(mark, std::string::npos);
  std::vector<std::byte> bytes;
  std::istringstream lines(page.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, 26));  // what follows is the explanation
    for (std::string word; words >> word;) bytes.push_back(std::byte(std::stoi(word, nullptr, 16)));
  }
  return bytes;
}

TEST(WireFormatPage, TheWorkedExampleIsWhatIsSent) {
  const std::vector<std::byte> payload = wire::encode_message(wire::KvEntry{"color", "blue"});
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kRequest);
  header.payload_size = std::uint32_t(payload.size());
  header.source = {1, 3};
  header.destination = kHead;
  header.token = 7;
  header.arg0 = std::uint64_t(wire::Method::kKvPut);
  std::vector<std::byte> sent(sizeof(header));
  std::memcpy(sent.data(), &header, sizeof(header));
  sent.insert(sent.end(), payload.begin(), payload.end());
  EXPECT_EQ(bytes_of_example(), sent);
}

TEST(WireFormatPage, TheWorkedExampleIsAcceptedByTheDecoders) {
  const std::vector<std::byte> bytes = bytes_of_example();
  const Result<net::FrameHeader> header = net::decode_header(bytes);
  ASSERT_TRUE(header.ok());
  ASSERT_EQ(bytes.size(), sizeof(net::FrameHeader) + header->payload_size);
  const auto entry = wire::decode_message<wire::KvEntry>(std::span(bytes).subspan(sizeof(net::FrameHeader)));
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->key + "=" + entry->value, "color=blue");
}

}  // namespace
}  // namespace troupe
