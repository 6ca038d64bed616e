// Group and Work: the public handles of a Member.
#include "collective/group/member.h"
#include <troupe/collective.h>

namespace troupe::collective {

using detail::Member;
using detail::Operation;

namespace {
Member& checked(const std::shared_ptr<Member>& member) {
  if (!member) throw InvalidArgumentError("an empty group");
  return *member;
}
}  // namespace

// ---------------------------------------------------------------------------------------------------------------- Work

Work::Work() noexcept = default;
Work::Work(std::shared_ptr<Member> member, std::shared_ptr<detail::Pending> pending) noexcept
    : member_(std::move(member)), pending_(std::move(pending)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    finish();
    member_ = std::move(other.member_);
    pending_ = std::move(other.pending_);
  }
  return *this;
}
Work::~Work() { finish(); }

void Work::finish() noexcept {
  while (pending_ && !member_->done(*pending_)) {
    try {
      member_->wait(*pending_, kForever);
    } catch (const std::exception&) {
      // The operation's own error, which nobody asked for; or a cancel, which has aborted the group: then it ends soon.
    }
  }
  pending_.reset();
}

bool Work::wait(Duration timeout) { return !pending_ || checked(member_).wait(*pending_, timeout); }
bool Work::done() { return !pending_ || checked(member_).done(*pending_); }
void Work::wait_on(Stream stream) {
  if (pending_) checked(member_).wait_on(*pending_, stream);
}

// --------------------------------------------------------------------------------------------------------------- Group

int Group::rank() const { return checked(member_).communicator().rank(); }
int Group::size() const { return checked(member_).communicator().size(); }
Backend Group::backend() const { return checked(member_).communicator().backend(); }
std::uint64_t Group::epoch() const { return checked(member_).communicator().epoch(); }
const std::string& Group::name() const { return checked(member_).name(); }
void Group::run(const Operation& operation) const { checked(member_).run(operation); }
Work Group::start(Operation operation) const { return Work(member_, checked(member_).start(std::move(operation))); }
void Group::abort(const std::string& reason) { checked(member_).abort(reason); }
Group Group::split(int color, int key, OpOptions options) { return checked(member_).split(color, key, options); }

}  // namespace troupe::collective
