# Install rules: `cmake --install BUILD --prefix P` gives a prefix in which find_package(troupe CONFIG) works from another
# project, with nothing of what Troupe itself is made from: no include path, no package, no target of its own.
#
#   P/include/troupe/...              the public headers: C++20 and nothing else
#   P/lib/libtroupe.a                 every role, joined with the static archives it uses (Boost.Fiber, Boost.Context, ...)
#   P/lib/libtroupe_rpc.so            gRPC behind a dlopen: only heads and daemons open it
#   P/lib/cmake/troupe/               the package
#   P/bin/troupe                      the command
#
# libtroupe_rpc.so is found by name: programs that link troupe::troupe carry P/lib as their DT_RUNPATH, in a build tree
# the folder where it is built. The prefix is the one given at install time, and may be moved as a whole: the package finds
# itself.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(NOT TARGET troupe)
  return()
endif()
if(NOT TARGET troupe::troupe)
  add_library(troupe::troupe ALIAS troupe)
endif()

# troupe_collect_archives(out target): the static archives below a target, depth first. A shared library there would be a
# package that every user needs: an error.
function(troupe_collect_archives out)
  set(todo ${ARGN})
  set(seen)
  set(archives)
  set(system)
  while(todo)
    list(POP_FRONT todo item)
    if(item MATCHES "^\\$<LINK_ONLY:(.*)>$" OR item MATCHES "^\\$<BUILD_INTERFACE:(.*)>$")
      set(item ${CMAKE_MATCH_1})
    endif()
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

# What every user of the library needs, in a build tree as in an installation. The build id is part of the handshake.
target_compile_features(troupe PUBLIC cxx_std_20)
target_link_options(troupe INTERFACE $<BUILD_INTERFACE:LINKER:--build-id=sha1>)

get_property(pieces GLOBAL PROPERTY TROUPE_PIECES)
troupe_collect_archives(archives troupe ${pieces})
list(APPEND archives_SYSTEM dl rt)
list(TRANSFORM archives_SYSTEM REPLACE "^(dl|rt|m)$" "-l\\1")
list(REMOVE_DUPLICATES archives_SYSTEM)
set(TROUPE_SYSTEM_LIBRARIES "${archives_SYSTEM}")

# In a build tree, whoever links troupe finds the plug-in where it is built. Targets that are installed themselves
# (TROUPE_INSTALLED) get it by their own run paths, which installing replaces.
if(TARGET troupe_rpc)
  target_link_options(troupe INTERFACE
    $<BUILD_INTERFACE:$<$<NOT:$<BOOL:$<TARGET_PROPERTY:TROUPE_INSTALLED>>>:LINKER:-rpath,$<TARGET_FILE_DIR:troupe_rpc>>>
    $<BUILD_INTERFACE:LINKER:--enable-new-dtags>)
  install(TARGETS troupe_rpc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The archive is joined when it is installed. ar's script language knows no quoting: it sees numbered links instead of paths.
set(join_script ${PROJECT_BINARY_DIR}/cmake/troupe_join.cmake)
file(GENERATE OUTPUT ${join_script} CONTENT "
set(inputs \"$<TARGET_FILE:troupe>;${archives}\")
set(folder \"${PROJECT_BINARY_DIR}/cmake/join\")
file(REMOVE_RECURSE \${folder})
file(MAKE_DIRECTORY \${folder})
set(script \"create joined.a\\n\")
set(number 0)
foreach(input IN LISTS inputs)
  file(CREATE_LINK \${input} \${folder}/\${number}.a SYMBOLIC)
  string(APPEND script \"addlib \${number}.a\\n\")
  math(EXPR number \"\${number} + 1\")
endforeach()
file(WRITE \${folder}/script \"\${script}save\\nend\\n\")
execute_process(COMMAND \"${CMAKE_AR}\" -M WORKING_DIRECTORY \${folder} INPUT_FILE \${folder}/script RESULT_VARIABLE code)
if(code)
  message(FATAL_ERROR \"joining libtroupe.a failed: \${code}\")
endif()
")
install(CODE "
include(\"${join_script}\")
file(INSTALL \"${PROJECT_BINARY_DIR}/cmake/join/joined.a\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}\" RENAME libtroupe.a)
file(REMOVE_RECURSE \"${PROJECT_BINARY_DIR}/cmake/join\")
")

install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/kernels/include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(EXISTS ${PROJECT_SOURCE_DIR}/collective/include/troupe)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/collective/include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/troupeConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/troupeConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/troupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/troupeConfig.cmake ${PROJECT_BINARY_DIR}/cmake/troupeConfigVersion.cmake DESTINATION ${package})
