# The submitting side: tasks, actor calls, streams.
troupe_library(caller
  SOURCES caller/actor_calls.cc caller/actor_client.cc caller/actor_clients.cc caller/actor_creation.cc
          caller/actor_life.cc caller/actor_lookup.cc caller/call_table.cc caller/caller.cc caller/handle_counts.cc
          caller/lease_pool.cc caller/light_hosts.cc caller/streams.cc caller/task_submitter.cc
  DEPENDS owner fmt::fmt Boost::headers)
