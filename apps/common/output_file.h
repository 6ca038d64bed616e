// Files that a program leaves: pictures, results.
//
// OF-1  A file appears whole or not at all: written aside in the same folder, synced, renamed, the folder synced.
// OF-2  The file aside is made anew: what somebody else laid there under its name, a link as well, is not written to.
// Any thread; two writers of one name do not disturb each other (the last one stays).
#pragma once

#include <filesystem>
#include <string>

#include <troupe/result.h>

namespace apps {

/// After an error the file is as it was before; only where the folder could not be synced ("cannot sync the folder") is
/// the new one there, and a crash of the machine may undo that. A folder that cannot be opened for it is an error too.
/// `mode`: who may read and write it, as of open(2).
troupe::Status write_file(const std::filesystem::path& path, const std::string& bytes, unsigned mode = 0644);

/// Makes the file's folder and says whether write_file could write there; touches no file.
troupe::Status check_writable(const std::filesystem::path& path);

}  // namespace apps
