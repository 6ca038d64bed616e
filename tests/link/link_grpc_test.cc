// The port as a foreign gRPC client sees it: every method of every service, without and with a wrong token. S3: fail closed.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "link.grpc.pb.h"
#include "recorder.h"

namespace troupe::net::testing {
namespace {

using wire::proto::LinkService;
using wire::proto::Packet;

/// "/package.Service/Method" of everything that the folder's .proto files declare: a new method is covered by being there.
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

grpc::Status call(const std::string& address, const std::string& method, const std::vector<std::string>& credentials) {
  auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  for (const auto& credential : credentials) context.AddMetadata("authorization", credential);
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer reply;
  stream->Read(&reply, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_FALSE(ok) << "something was answered before the token was judged";
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status;
}

TEST(LinkGrpc, EveryMethodRefusesMissingWrongAndDoubledTokens) {
  Recorder events;
  auto links = *open_links(events, options_for("server"));
  const std::string address = "127.0.0.1:" + std::to_string(*links->listen({}));
  const auto methods = all_methods();
  ASSERT_EQ(methods, std::vector<std::string>{"/troupe.wire.proto.LinkService/Open"}) << "a new method: let it be judged here, too";
  const std::string right = "Bearer " + std::string(64, 'a'), wrong = "Bearer " + std::string(64, 'b');
  for (const auto& method : methods) {
    for (const std::vector<std::string>& credentials : std::vector<std::vector<std::string>>{
             {}, {wrong}, {""}, {"Bearer "}, {std::string(64, 'a')}, {"Bearer " + std::string(63, 'a')}, {"Bearer " + std::string(65, 'a')}, {right, wrong}}) {
      const auto status = call(address, method, credentials);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << method << ": " << status.error_message();
      EXPECT_EQ(status.error_message().find(std::string(32, 'a')), std::string::npos);
    }
  }
  EXPECT_EQ(call(address, "/troupe.wire.proto.LinkService/Other", {right}).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(events.count(), 0u);
}

TEST(LinkGrpc, WithTheTokenStillOnlyAHelloOpensALink) {
  Recorder events;
  auto links = *open_links(events, options_for("server"));
  const std::string address = "127.0.0.1:" + std::to_string(*links->listen({}));
  const auto talk = [&](const std::function<void(Packet&)>& fill) {
    auto stub = LinkService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    context.AddMetadata("authorization", "Bearer " + std::string(64, 'a'));
    auto stream = stub->Open(&context);
    Packet packet;
    fill(packet);
    stream->Write(packet);
    while (stream->Read(&packet)) {}
    return stream->Finish();
  };
  EXPECT_EQ(talk([](Packet& p) { p.set_frames("no hello before it"); }).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(talk([](Packet& p) { p.mutable_hello()->set_protocol(99); }).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(talk([](Packet& p) {
              p.mutable_hello()->set_protocol(kLinkProtocol);
              p.mutable_hello()->set_payload(std::string(100'000, 'x'));
            }).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(events.count(), 0u);
}

}  // namespace
}  // namespace troupe::net::testing
