// A Messenger that only writes down what was sent; the test answers requests.
#pragma once
#include <vector>

#include "core/node/base/messenger.h"

namespace troupe::node::test {

class FakeMessenger final : public Messenger {
 public:
  struct Sent {
    ProcessId to;
    wire::Method method{};
    Bytes payload;
    Done done;  ///< requests only
  };
  struct Answer {
    net::FrameHeader request;
    bool failed = false;
    Bytes payload;
  };
  ProcessId self() const override { return daemon_of(1); }
  void send_notice(ProcessId to, wire::Method method, const Bytes& payload) override {
    notices.push_back({to, method, payload, {}});
  }
  void send_response(const net::FrameHeader& request, bool failed, const Bytes& payload) override {
    answers.push_back({request, failed, payload});
  }
  void send_request(ProcessId to, wire::Method method, const Bytes& payload, Duration, Done done) override {
    requests.push_back({to, method, payload, std::move(done)});
  }

  std::vector<Sent> notices, requests;
  std::vector<Answer> answers;
};

}  // namespace troupe::node::test
