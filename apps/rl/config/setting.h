// The settings of runs are those of all applications (apps/common/settings/setting.h), by the names of this namespace.
#pragma once

#include "apps/common/settings/setting.h"

namespace rl {

using apps::assign;
using apps::assign_all;
using apps::assign_text;
using apps::flag_of;
using apps::parse_yaml;
using apps::read_yaml;
using apps::Setting;
using apps::text_of;
using apps::to_json;
using apps::to_yaml;
using apps::value_of;

}  // namespace rl
