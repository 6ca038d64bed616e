// JP-5: what a rank does at a path where nobody listens yet. connect() is this file's, so that somebody can begin to
// listen between two of its calls.
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/fd.h"
#include "tests/collective/ranks.h"

namespace {

std::function<void()> g_after_a_failed_connect;  // of the next one; set while no other thread connects

}  // namespace

extern "C" int connect(int socket, const sockaddr* address, socklen_t size) {
  const int result = static_cast<int>(::syscall(SYS_connect, socket, address, size));
  const int error = errno;
  if (result != 0 && g_after_a_failed_connect) std::exchange(g_after_a_failed_connect, nullptr)();
  errno = error;
  return result;
}

namespace troupe::collective {
namespace {

TEST(DialPathTest, JP5_TheFirstConnectionIsTheOneOnWhichARankSpeaks) {
  const std::string path = "/tmp/troupe-dial-test-" + std::to_string(::getpid());
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool listens = false;
  g_after_a_failed_connect = [&] {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    listens = ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
              ::listen(listener.get(), 8) == 0;
  };
  std::thread rank([&] {
    EXPECT_THROW((void)join("dials", 1, 2, {.address = path, .timeout = std::chrono::seconds(50)}), CollectiveError);
  });
  pollfd come{listener.get(), POLLIN, 0};
  while (::poll(&come, 1, 50) == 0 || (come.revents & POLLIN) == 0) ::usleep(1000);
  {
    const UniqueFd first(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char word = 0;
    EXPECT_EQ(::recv(first.get(), &word, 1, 0), 1) << "it hung up without a word";
  }
  rank.join();  // nobody answered
  EXPECT_TRUE(listens);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace troupe::collective
