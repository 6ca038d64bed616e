# The runtime of a driver or worker process: the public interface's other side.
troupe_library(worker
  SOURCES
    worker/core.cc worker/core_messages.cc worker/simulation.cc worker/courier.cc worker/requests.cc worker/objects.cc worker/transit.cc worker/store_link.cc
    worker/call_table.cc worker/task_submitter.cc worker/task_recovery.cc
    worker/actor_clients.cc worker/actor_creation.cc worker/actor_deaths.cc worker/streams.cc
    worker/host.cc worker/host_actors.cc worker/hosted_actor.cc worker/hosted_actor_state.cc worker/runner.cc worker/waits.cc worker/context.cc worker/group_port.cc worker/log_printer.cc
    worker/api.cc worker/sync.cc worker/state.cc worker/run.cc worker/run_options.cc
  DEPENDS node head net exec task base objectstore fmt::fmt Boost::headers Boost::json Threads::Threads)
