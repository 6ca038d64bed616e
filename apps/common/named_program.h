// A program that a file names: a policy its Python, a data set that of its environments. Who made the file may be
// anybody, and what it names is run with all that its reader may do.
//
// NPG-1  Let through is a bare name, which PATH finds, and a whole path whose file and folders are this user's or
//        root's, and writable by no one else but their group (a folder whose sticky bit is set, as /tmp, is not
//        writable in this sense). Not a path that begins in the working folder: what was unpacked there is a
//        stranger's.
// Any thread. What a user types is not asked.
#pragma once

#include <string>

#include <troupe/result.h>

namespace apps {

/// InvalidArgumentError, with what is wrong with it (NPG-1) and `remedy`; NotFoundError: there is no such file.
[[nodiscard]] troupe::Status check_named_program(const std::string& program, const std::string& remedy);

}  // namespace apps
