// Shell: the head around its state machine, without threads, clock or descriptors of its own: what links say becomes
// events, effects become frames on links. The process around it is in server.h; the simulator has another.
//
//   opened, batch, closed, tick --> events --> State::apply --> effects --> sessions and links
//                  |
//                  +--> journal, from which another shell is made that is this one (recover)
//
// Thread rule: one thread.
//
// Invariants
//   HSV-1  What goes to and comes from a registered node is one session (net/link/session.h) over any number of links,
//          until the state forgets the node. A node that acknowledges nothing of kept_bytes_max is cut off: the state
//          hears of a lost link.
//   HSV-3  Outside of a session the head takes registrations, and what tools ask.
//   HSV-4  With a journal, what was heard is noted before anything follows from it. A head that recovers is the one
//          before it, to whom time has passed: same state, same incarnation, same sessions; links that were open are
//          lost links.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/head/service/frame_codec.h"
#include "core/head/service/journal.h"
#include "core/head/state/state.h"
#include "core/net/link/link.h"
#include "core/net/link/session.h"

namespace troupe::head {

class Shell {
 public:
  /// `now` is time since an origin that stays.
  Shell(StateOptions state, std::uint64_t incarnation, std::function<Time()> now)
      : state_(std::move(state)), incarnation_(incarnation), now_(std::move(now)) {}

  /// Before anything else; they must outlive it.
  void use(net::Links& links) { links_ = &links; }
  /// Keeps it from then on.
  void note_in(Journal& journal) { journal_ = &journal; }
  /// HSV-4: becomes the head whose journal this is, and goes on with it; before anything else was heard.
  Status recover(Journal& journal);

  void opened(net::LinkId link, std::uint64_t incarnation);
  /// Whole frames, as LinkEvents::on_batch has them.
  void batch(net::LinkId link, ByteView frames);
  /// `nobody_there`: a link that this side dialled, and no process has the port.
  void closed(net::LinkId link, bool nobody_there);
  void tick();
  std::optional<Time> next_deadline() const { return state_.next_deadline(); }
  const State& state() const { return state_; }

 private:
  /// A registered node.
  struct Way final : net::SessionOutput {
    Way(Shell& head, std::uint32_t number) : shell(head), node(number), session(head.incarnation_, 0, *this) {}
    void transmit(std::uint64_t to, ByteView frames) override {
      if (!shell.replaying_) (void)shell.links_->send_raw(to, frames);
    }
    // As one of the link that is bound: it may have come on the one before, behind the news of this one.
    void deliver(const net::FrameHeader& header, ByteView payload) override {
      shell.note({Journal::Kind::kFrame, {}, node, 0, std::as_bytes(std::span(&header, 1))}, payload);
      if (header.source.node == node) shell.take_frame(link, header, payload);
    }
    Shell& shell;
    const std::uint32_t node;
    net::LinkId link = 0;
    net::Session session;
    std::uint64_t acknowledged = 0;  ///< as noted
  };
  struct Peer { std::uint64_t incarnation = 0; std::uint32_t node = 0; };  ///< node: that the link was bound to

  bool replay(const Journal::Record& record);
  /// HSV-4: the time of what follows, and its record.
  void note(Journal::Record record, ByteView more = {});
  void note_acknowledged(Way& way);
  void link_closed(net::LinkId link);
  void drop(net::LinkId link, std::string_view why);
  void take_outside(net::LinkId link, net::FrameHeader header, ByteView payload);
  void take_frame(net::LinkId link, const net::FrameHeader& header, ByteView payload);
  void bind(const BindLink& bind);
  void forget(std::uint32_t node);
  void probe(const ProbeNode& probe);
  ProcessId tool_at(net::LinkId link);
  void apply(Event event);
  void perform(Effect& effect);
  void send(Send& send);
  void put(net::LinkId link, const Encoded& frame);

  State state_;
  Effects effects_;
  const std::uint64_t incarnation_;
  const std::function<Time()> now_;
  net::Links* links_ = nullptr;
  Journal* journal_ = nullptr;                            ///< null: none is kept
  Time at_ = {};                                          ///< of what is being heard
  bool replaying_ = false;                                ///< nothing leaves
  std::map<net::LinkId, Peer> peers_;                     ///< of open links
  std::map<std::uint32_t, std::unique_ptr<Way>> ways_;    ///< by node
  std::vector<std::unique_ptr<Way>> forgotten_;           ///< of dead nodes, until the batch is over that told it
  std::map<std::uint32_t, net::LinkId> tools_;
  std::uint32_t last_tool_ = 0;
  std::map<net::LinkId, std::uint32_t> probes_;           ///< the node that is looked for
};

}  // namespace troupe::head
