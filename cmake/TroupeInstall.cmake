# Install rules: `cmake --install BUILD --prefix P` gives a prefix in which find_package(troupe CONFIG) works from another
# project, with nothing of what Troupe itself is made from: no include path, no package, no target of its own.
#
#   P/include/troupe/...              the public headers: C++20 and nothing else
#   P/lib/libtroupe.a or .so          every role, the .a joined with the static archives it uses (Boost.Fiber, ...)
#   P/lib/libtroupe_rpc.so            gRPC behind a dlopen: only heads and daemons open it
#   P/lib/cmake/troupe/               the package
#   P/bin/troupe                      the command
#
# libtroupe_rpc.so is found by name: programs that link troupe::troupe carry P/lib as their DT_RUNPATH, in a build tree
# the folder where it is built. The prefix is the one given at install time, and may be moved as a whole: the package finds
# itself. Below another project nothing is installed unless it says TROUPE_INSTALL.
include(CMakePackageConfigHelpers)

# troupe_collect_archives(out target): the static archives below a target, depth first. A shared library there would be a
# package that every user needs: an error.
function(troupe_collect_archives out)
  set(todo ${ARGN})
  set(seen)
  set(archives)
  set(system)
  while(todo)
    list(POP_FRONT todo item)
    while(item MATCHES "^\\$<LINK_ONLY:(.*)>$" OR item MATCHES "^\\$<BUILD_INTERFACE:(.*)>$")
      set(item ${CMAKE_MATCH_1})
    endwhile()
    if(item IN_LIST seen OR NOT item)
      continue()
    endif()
    list(APPEND seen ${item})
    if(NOT TARGET ${item})
      if(item MATCHES "\\.a$")
        list(APPEND archives ${item})
      elseif(item MATCHES "\\.so(\\.[0-9]+)*$")
        message(FATAL_ERROR "libtroupe would need ${item} wherever it is used: link a static archive or hide it behind libtroupe_rpc")
      elseif(item MATCHES "^-[lp]|^(rt|dl|m|pthread)$")
        list(APPEND system ${item})
      elseif(NOT item MATCHES "^\\$<|^::@")
        message(FATAL_ERROR "libtroupe links ${item}, which the package does not know how to carry: see cmake/TroupeInstall.cmake")
      endif()
      continue()
    endif()
    get_target_property(real ${item} ALIASED_TARGET)
    if(real)
      list(PREPEND todo ${real})
      continue()
    endif()
    if(item STREQUAL "Threads::Threads")
      continue()
    endif()
    get_target_property(type ${item} TYPE)
    get_target_property(imported ${item} IMPORTED)
    if(imported AND type STREQUAL "SHARED_LIBRARY")
      message(FATAL_ERROR "libtroupe would need ${item}, a shared library, wherever it is used: use its header-only or "
        "static form (cmake/TroupeDependencies.cmake) or hide it behind libtroupe_rpc")
    endif()
    if(imported AND NOT type STREQUAL "INTERFACE_LIBRARY")
      list(APPEND archives $<TARGET_FILE:${item}>)
    endif()
    foreach(property INTERFACE_LINK_LIBRARIES LINK_LIBRARIES)
      if(property STREQUAL "LINK_LIBRARIES" AND (imported OR type STREQUAL "INTERFACE_LIBRARY"))
        continue()
      endif()
      get_target_property(below ${item} ${property})
      if(below)
        list(APPEND todo ${below})
      endif()
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES archives)
  list(REMOVE_DUPLICATES system)
  set(${out} "${archives}" PARENT_SCOPE)
  set(${out}_SYSTEM "${system}" PARENT_SCOPE)
endfunction()

# What every user of the library needs, in a build tree as in an installation. The build id is part of the handshake between
# driver and workers.
target_link_options(troupe INTERFACE LINKER:--build-id=sha1 LINKER:--enable-new-dtags
  $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
# In a build tree, whoever links troupe finds the plug-in where it is built. Targets that are installed themselves
# (TROUPE_INSTALLED) get it by their own run paths, which installing replaces.
target_link_options(troupe INTERFACE
  $<BUILD_INTERFACE:$<$<NOT:$<BOOL:$<TARGET_PROPERTY:TROUPE_INSTALLED>>>:LINKER:-rpath,$<TARGET_FILE_DIR:troupe_rpc>>>)

if(NOT BUILD_SHARED_LIBS)
  get_property(pieces GLOBAL PROPERTY TROUPE_PIECES)
  troupe_collect_archives(archives troupe ${pieces})
  list(APPEND archives_SYSTEM dl rt)
  list(TRANSFORM archives_SYSTEM REPLACE "^-l" "")
  list(REMOVE_DUPLICATES archives_SYSTEM)
  foreach(library IN LISTS archives_SYSTEM)
    target_link_libraries(troupe INTERFACE $<INSTALL_INTERFACE:${library}>)
  endforeach()
endif()

if(NOT TROUPE_INSTALL)
  return()
endif()
install(TARGETS troupe EXPORT troupeTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS troupe_rpc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(NOT BUILD_SHARED_LIBS)  # over the archive of our own files: the one that is joined with what they use
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/cmake/join_inputs.cmake CONTENT "
set(inputs \"$<TARGET_FILE:troupe>;${archives}\")
set(folder \"${PROJECT_BINARY_DIR}/cmake/join\")
set(CMAKE_AR \"${CMAKE_AR}\")
set(CMAKE_NM \"${CMAKE_NM}\")
set(CMAKE_OBJCOPY \"${CMAKE_OBJCOPY}\")
")
  install(CODE "
include(\"${PROJECT_BINARY_DIR}/cmake/join_inputs.cmake\")
include(\"${PROJECT_SOURCE_DIR}/cmake/join_archives.cmake\")
file(INSTALL \"\${folder}/libtroupe.a\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}\")
file(REMOVE_RECURSE \"\${folder}\")
")
endif()

foreach(folder IN ITEMS core kernels collective)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
install(EXPORT troupeTargets NAMESPACE troupe:: DESTINATION ${package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/troupeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/troupeConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/troupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/troupeConfig.cmake ${PROJECT_BINARY_DIR}/cmake/troupeConfigVersion.cmake
  DESTINATION ${package})
