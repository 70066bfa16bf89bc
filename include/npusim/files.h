// Which file a name stands for.
#pragma once
#include <string>

#include "npusim/export.h"

namespace npusim {

// Whether two names are one file, or would be once it is written: through other folders, "./", symbolic links and hard
// links. Names of which neither is there are one if they differ in case alone, as some disks have it. Names of open
// descriptors (/dev/stdout, /dev/fd/3) are one if they have one number; devices such as /dev/null never are.
NPUSIM_API bool is_same_file(const std::string& a, const std::string& b);

}  // namespace npusim
