# Links and data sockets between nodes. gRPC itself is in core/rpc, opened at run time. Paths are relative to core/net.
set(folder ${CMAKE_CURRENT_LIST_DIR}/..)
troupe_library(link
  SOURCES
    ${folder}/base/handshakes.cc
    ${folder}/base/source.cc
    ${folder}/base/loop.cc
    ${folder}/base/proof.cc
    ${folder}/base/socket.cc
    ${folder}/base/token.cc
    ${folder}/data/checksum.cc
    ${folder}/data/checksum_avx2.cc
    ${folder}/data/checksum_avx512.cc
    ${folder}/data/client.cc
    ${folder}/data/connection.cc
    ${folder}/data/introduction.cc
    ${folder}/data/server.cc
    ${folder}/link/connections.cc
    ${folder}/link/dialer.cc
    ${folder}/link/hub.cc
    ${folder}/link/library.cc
    ${folder}/link/link.cc
    ${folder}/link/link_stream.cc
    ${folder}/link/session.cc
  DEPENDS base Threads::Threads ${CMAKE_DL_LIBS} PkgConfig::XXHASH)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${folder}/data/checksum_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2")
  set_source_files_properties(${folder}/data/checksum_avx512.cc PROPERTIES COMPILE_OPTIONS
    "-mavx512f;${TROUPE_AVX512_WARNINGS}")
endif()
