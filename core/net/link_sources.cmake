# Links and data sockets between nodes. gRPC itself is in core/rpc, opened at run time.
troupe_library(link
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/data_socket_checksum.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_socket_checksum_avx2.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_socket_checksum_avx512.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_socket_client.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_socket_connection.cc
    ${CMAKE_CURRENT_LIST_DIR}/data_socket_server.cc
    ${CMAKE_CURRENT_LIST_DIR}/introduction.cc
    ${CMAKE_CURRENT_LIST_DIR}/link.cc
    ${CMAKE_CURRENT_LIST_DIR}/link_hub.cc
    ${CMAKE_CURRENT_LIST_DIR}/link_hub_dial.cc
    ${CMAKE_CURRENT_LIST_DIR}/link_loop.cc
    ${CMAKE_CURRENT_LIST_DIR}/link_one.cc
    ${CMAKE_CURRENT_LIST_DIR}/link_socket.cc
    ${CMAKE_CURRENT_LIST_DIR}/token.cc
  DEPENDS base Threads::Threads ${CMAKE_DL_LIBS} PkgConfig::XXHASH)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/data_socket_checksum_avx2.cc PROPERTIES COMPILE_OPTIONS "-mavx2")
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/data_socket_checksum_avx512.cc PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-Wno-maybe-uninitialized")  # GCC 12 warns inside of its own avx512fintrin.h
endif()
