// The port as a foreign gRPC client sees it: every method of every service, without and with a proof. S3: fail closed.
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/net/base/socket.h"
#include "link.grpc.pb.h"
#include "recorder.h"

namespace troupe::net::testing {
namespace {

using wire::proto::LinkService;
using wire::proto::Packet;

/// "/package.Service/Method" of everything that the folder's .proto files declare: a new method is covered by being
/// there.
std::vector<std::string> all_methods() {
  std::vector<std::string> methods;
  for (const auto& entry : std::filesystem::directory_iterator(TROUPE_TEST_PROTO_FOLDER)) {
    if (entry.path().extension() != ".proto") continue;
    std::ifstream file(entry.path());
    std::string package, service;
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string keyword, name;
      words >> keyword >> name;
      name = name.substr(0, name.find_first_of(";({"));
      if (keyword == "package") package = name;
      if (keyword == "service") service = name;
      if (keyword == "rpc") methods.push_back("/" + package + "." + service + "/" + name);
    }
  }
  return methods;
}

/// A connection whose ends have proven themselves, for a gRPC that is not ours. -1: refused.
UniqueFd proven_connection(const std::string& address, char token) {
  auto parsed = *parse_address(address);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&parsed.storage), parsed.size) != 0) return UniqueFd();
  auto proof = *ProofExchange::dial({.token = token_of(token), .incarnation = 1}, {}, address);
  const std::string hello = proof.output();
  if (::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != ssize_t(hello.size())) return UniqueFd();
  ProofWelcome welcome;
  if (::recv(fd.get(), &welcome, sizeof welcome, MSG_WAITALL) != ssize_t(sizeof welcome)) return UniqueFd();
  proof.take(std::as_bytes(std::span(&welcome, 1)));
  const std::string answer = proof.output();
  if (!proof.proven() || ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL) != ssize_t(answer.size()))
    return UniqueFd();
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

std::shared_ptr<grpc::Channel> channel_over(UniqueFd fd) {
  return grpc::CreateInsecureChannelFromFd("test", fd.release());
}

grpc::Status call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer reply;
  stream->Read(&reply, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_FALSE(ok) << "something was answered";
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status;
}

TEST(LinkGrpc, NoMethodIsReachedWithoutAProof) {  // LK-3
  Recorder events;
  auto links = *open_links(events, options_for("server"));
  const std::string address = "127.0.0.1:" + std::to_string(*links->listen({}));
  const auto methods = all_methods();
  ASSERT_EQ(methods, std::vector<std::string>{"/troupe.wire.proto.LinkService/Open"})
      << "a new method: let it be judged here, too";
  for (const auto& method : methods) {
    const auto status = call(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()), method);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << method << ": " << status.error_message();
  }
  EXPECT_FALSE(proven_connection(address, 'b')) << "another token";
  auto proven = proven_connection(address, 'a');
  ASSERT_TRUE(proven);
  EXPECT_EQ(call(channel_over(std::move(proven)), "/troupe.wire.proto.LinkService/Other").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(events.count(), 0u);
}

TEST(LinkGrpc, WithAProofStillOnlyAHelloOpensALink) {
  Recorder events;
  auto links = *open_links(events, options_for("server"));
  const std::string address = "127.0.0.1:" + std::to_string(*links->listen({}));
  const auto talk = [&](const std::function<void(Packet&)>& fill) {
    auto proven = proven_connection(address, 'a');
    EXPECT_TRUE(proven);
    auto stub = LinkService::NewStub(channel_over(std::move(proven)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    auto stream = stub->Open(&context);
    Packet packet;
    fill(packet);
    stream->Write(packet);
    while (stream->Read(&packet)) {}
    return stream->Finish();
  };
  EXPECT_EQ(talk([](Packet& p) { p.set_frames("no hello before it"); }).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(talk([](Packet& p) { p.mutable_hello()->set_protocol(99); }).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(talk([](Packet& p) {
              p.mutable_hello()->set_protocol(kLinkProtocol);
              p.mutable_hello()->set_payload(std::string(100'000, 'x'));
            }).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(events.count(), 0u);
}

}  // namespace
}  // namespace troupe::net::testing
