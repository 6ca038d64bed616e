# The head: its state machine (pure), and the shell that gives it links, a clock and a log.
troupe_library(head
  SOURCES
    head/service/frame_codec.cc
    head/service/journal.cc
    head/service/server.cc
    head/service/shell.cc
    head/state/actors/actor_names.cc
    head/state/actors/actor_placement.cc
    head/state/actors/actor_questions.cc
    head/state/actors/actor_record.cc
    head/state/actors/actor_rows.cc
    head/state/actors/actor_table.cc
    head/state/actors/actors.cc
    head/state/actors/graveyard.cc
    head/state/actors/handles.cc
    head/state/actors/job_survivors.cc
    head/state/actors/keeping.cc
    head/state/actors/light_table.cc
    head/state/actors/supervision.cc
    head/state/jobs.cc
    head/state/kv.cc
    head/state/listing.cc
    head/state/membership.cc
    head/state/metrics.cc
    head/state/state.cc
  DEPENDS net troupe_link wire scheduler base)
